//! The API, asked in process.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::failure::Failure;

/// The API's router. Cloning is cheap and is the same API.
#[derive(Clone)]
pub(crate) struct Api(Router);

/// The API for somebody.
#[derive(Clone)]
pub(crate) struct Caller {
    api: Api,
    token: String,
    /// What the browser named: the API judges it as its own.
    host: HeaderValue,
}

impl Api {
    pub(crate) fn new(router: Router) -> Self {
        Self(router)
    }

    pub(crate) fn caller(&self, token: &str, host: HeaderValue) -> Caller {
        Caller { api: self.clone(), token: token.to_owned(), host }
    }
}

impl Caller {
    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body), None).await
    }

    /// Writes what must not be there yet: the last part of the path is its name.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        if path.split('?').next().is_some_and(|path| path.ends_with('/')) {
            return Err(Failure::form(StatusCode::UNPROCESSABLE_ENTITY, "the name is missing: write one"));
        }
        self.ask(Method::PUT, path, Some(body), Some((IF_NONE_MATCH, "*"))).await
    }

    /// Asks, and reads the answer. `revision` is the one that is to be changed.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        revision: Option<&str>,
    ) -> Result<Value, Failure> {
        self.ask(method, path, body, revision.map(|revision| (IF_MATCH, revision))).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Option<(HeaderName, &str)>,
    ) -> Result<Value, Failure> {
        let mut request = self.request(method, path, Body::from(body.map(Value::to_string).unwrap_or_default()))?;
        let headers = request.headers_mut();
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some((name, value)) = condition {
            let value = HeaderValue::try_from(value);
            let unread =
                |_| Failure::form(StatusCode::BAD_REQUEST, "the revision in the form can't be read; open it again");
            headers.insert(name, value.map_err(unread)?);
        }
        let Ok(response) = self.api.0.clone().oneshot(request).await;
        let status = response.status();
        let answer = read(response).await;
        if status.is_success() { Ok(answer) } else { Err(Failure::of(status, &answer)) }
    }

    /// Asks for what goes on for a while, and gives the answer as it comes.
    pub(crate) async fn stream(&self, path: &str) -> Result<Response, Failure> {
        let request = self.request(Method::GET, path, Body::empty())?;
        let Ok(response) = self.api.0.clone().oneshot(request).await;
        let status = response.status();
        if status.is_success() { Ok(response) } else { Err(Failure::of(status, &read(response).await)) }
    }

    fn request(&self, method: Method, path: &str, body: Body) -> Result<Request<Body>, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| Failure::internal("a path of the API could not be written"))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        if !self.token.is_empty() {
            let bearer = HeaderValue::try_from(format!("Bearer {}", self.token));
            let mut bearer = bearer.map_err(|_| Failure::not_logged_in())?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(request)
    }
}

async fn read(response: Response) -> Value {
    let bytes = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// A text as one segment of a path, or as a value of a query.
pub(crate) fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A path with the query entries that hold something.
pub(crate) fn with_query(path: &str, entries: &[(&str, &str)]) -> String {
    let set = entries.iter().filter(|(_, value)| !value.is_empty());
    let query = set.map(|(key, value)| format!("{key}={}", segment(value))).collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
