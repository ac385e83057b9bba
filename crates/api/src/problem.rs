//! Errors as problem JSON (RFC 9457), each with a stable code.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use toolcrib_definition::json::JsonError;
use toolcrib_definition::{ManifestError, Problems};
use toolcrib_registry::RegistryError;
use toolcrib_store::StoreError;
use utoipa::ToSchema;

/// An API error. What the client reads is in the variant; what the operator reads is logged where
/// the error is handled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("there is no {what} {name:?}")]
    NotFound { what: &'static str, name: String },
    #[error("there is no such address; /docs lists them all")]
    NoRoute,
    #[error("this address does not take the method {0}")]
    Method(String),
    #[error("send a token: Authorization: Bearer <token>")]
    TokenMissing,
    #[error("the token is unknown, expired or revoked")]
    TokenInvalid,
    #[error("the role {role} may not {what}")]
    Forbidden { role: &'static str, what: &'static str },
    #[error("the token is bound to agents, and may not {what}: that concerns all of them")]
    Bound { what: &'static str },
    #[error("the token is not good for the agent {agent:?}")]
    AgentForbidden { agent: String },
    #[error("the body is {0}")]
    Json(JsonError),
    #[error("the body is {0}, and this address takes application/json")]
    MediaType(String),
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {seconds} s")]
    BodyTimeout { seconds: u64 },
    #[error("the body broke off")]
    BodyBroken,
    #[error("{0}")]
    Request(String),
    #[error("the definition has {} problem(s)", .0.len())]
    Definition(Problems),
    #[error("{0}")]
    Manifest(ManifestError),
    #[error("the skill has {} problem(s)", .0.len())]
    Skill(Problems),
    #[error("the pack has {} problem(s)", .0.len())]
    Pack(Problems),
    #[error("the ctx has {} problem(s)", .0.len())]
    Ctx(Problems),
    #[error("If-Match is * or a revision in quotes, such as \"42\", and If-None-Match is *; this is {0:?}")]
    IfMatch(String),
    #[error("the server is for this machine only, and the request names the host {0:?}")]
    Host(String),
    #[error("a page of {0:?} may not use this server")]
    Origin(String),
    #[error("the name in the body is {body:?} and in the address {path:?}; make them the same")]
    NameMismatch { body: String, path: String },
    #[error(transparent)]
    Registry(RegistryError),
    #[error("{}", match .mark {
        Some(mark) => format!("what waits has the mark {mark}; look at it, and accept it with that mark"),
        None => "nothing waits under a mark; an ingestion of a server with hold lets changes wait".to_owned(),
    })]
    Mark { mark: Option<String> },
    #[error("{message}")]
    Conflict { code: &'static str, message: String, retryable: bool },
    #[error("{0}")]
    Unfit(String),
    #[error("{message}")]
    Upstream { code: &'static str, message: String },
    #[error("something inside failed; the log says what")]
    Internal,
}

/// The codes of the API's own errors with what they mean, for the reference.
pub const API_CODES: &[(&str, &str)] = &[
    ("http.not_found", "There is no such tool, agent, version, trace, call, approval or token."),
    ("http.no_route", "There is no such address."),
    ("http.method", "The address does not take this method."),
    ("auth.missing", "The request has no token."),
    ("auth.invalid", "The token is unknown, expired or revoked."),
    ("auth.forbidden", "The role of the token does not allow this."),
    ("auth.agent", "The token is bound to agents, and this is of another agent or of all."),
    ("json.syntax", "A text is not JSON; the message says where."),
    ("json.not_utf8", "A text is not UTF-8."),
    ("json.duplicate_key", "An object has a key twice."),
    ("json.too_deep", "Arrays and objects are nested deeper than 96 levels."),
    ("json.too_large", "A text is longer than its limit."),
    ("http.media_type", "The body is not application/json."),
    ("http.body_too_large", "The body is larger than its limit."),
    ("http.body_timeout", "The body did not arrive in time."),
    ("http.body_broken", "The body broke off."),
    ("http.request", "A parameter or the body is not what the address takes."),
    ("definition.invalid", "A definition has problems; each is listed with its pointer, code and mend."),
    ("manifest.invalid", "The structure of a manifest is faulty, and nothing of it was taken."),
    ("skill.invalid", "A SKILL.md has problems; each is listed with its place and mend."),
    ("pack.invalid", "A pack has problems; each is listed with its place, and nothing of the pack was taken."),
    ("ctx.invalid", "The turn context has an unknown field or a value that is no scalar."),
    ("http.if_match", "If-Match is not a revision in quotes."),
    ("http.host", "A loopback server was asked for by another host name: a DNS rebinding guard."),
    ("http.origin", "A page of another origin asked a loopback server."),
    ("tool.name_mismatch", "The name in the body is not the name in the address."),
    ("call.state", "The call is in a state that this does not apply to."),
    ("call.too_early", "It is too early to say that a call was not performed; the message says from when on."),
    ("approval.decided", "Somebody else decided first; the message says who, and what."),
    ("approval.expired", "The time to decide is over."),
    ("approval.secret", "A secret for links or webhooks is not configured; doctor names it."),
    ("approval.no_links", "Links are not configured: they need server.public_url and the secret approval_links."),
    ("approval.kind", "A question is answered and an approval approved, not the other way round."),
    ("approval.answer", "The answer is not of the type that was asked for, or none of the choices."),
    ("internal", "Something inside failed; the log says what."),
];

/// Problem JSON.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemBody {
    /// A page about the code.
    #[serde(rename = "type")]
    kind: String,
    /// The name of the HTTP status.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable code.
    code: &'static str,
    /// What happened, and how to mend it.
    detail: String,
    /// Whether the same request may succeed a moment later.
    retryable: bool,
    /// Everything that is wrong, each with a pointer, a code and a message.
    #[schema(value_type = Option<Vec<Object>>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Problems>,
    /// The same for clients of OpenAI, at the addresses that speak as OpenAI does.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        ApiError::Registry(error)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        ApiError::Registry(RegistryError::Store(error))
    }
}

impl ApiError {
    fn code(&self) -> &'static str {
        match self {
            ApiError::NotFound { .. } => "http.not_found",
            ApiError::NoRoute => "http.no_route",
            ApiError::Method(_) => "http.method",
            ApiError::TokenMissing => "auth.missing",
            ApiError::TokenInvalid => "auth.invalid",
            ApiError::Forbidden { .. } => "auth.forbidden",
            ApiError::AgentForbidden { .. } | ApiError::Bound { .. } => "auth.agent",
            ApiError::Json(error) => error.code(),
            ApiError::MediaType(_) => "http.media_type",
            ApiError::TooLarge { .. } => "http.body_too_large",
            ApiError::BodyTimeout { .. } => "http.body_timeout",
            ApiError::BodyBroken => "http.body_broken",
            ApiError::Request(_) => "http.request",
            ApiError::Definition(_) => "definition.invalid",
            ApiError::Manifest(_) => "manifest.invalid",
            ApiError::Skill(_) => "skill.invalid",
            ApiError::Pack(_) => "pack.invalid",
            ApiError::Ctx(_) => "ctx.invalid",
            ApiError::IfMatch(_) => "http.if_match",
            ApiError::Host(_) => "http.host",
            ApiError::Origin(_) => "http.origin",
            ApiError::NameMismatch { .. } => "tool.name_mismatch",
            ApiError::Registry(error) => error.code(),
            ApiError::Mark { .. } => "mcp.mark",
            ApiError::Upstream { code, .. } | ApiError::Conflict { code, .. } => code,
            ApiError::Unfit(_) => "approval.answer",
            ApiError::Internal => "internal",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            ApiError::NotFound { .. } | ApiError::NoRoute => StatusCode::NOT_FOUND,
            ApiError::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::TokenMissing | ApiError::TokenInvalid => StatusCode::UNAUTHORIZED,
            ApiError::Forbidden { .. }
            | ApiError::AgentForbidden { .. }
            | ApiError::Bound { .. }
            | ApiError::Host(_)
            | ApiError::Origin(_) => StatusCode::FORBIDDEN,
            ApiError::Json(_) | ApiError::BodyBroken | ApiError::Request(_) | ApiError::IfMatch(_) => {
                StatusCode::BAD_REQUEST
            }
            ApiError::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            ApiError::Definition(_)
            | ApiError::Manifest(_)
            | ApiError::Skill(_)
            | ApiError::Pack(_)
            | ApiError::Ctx(_)
            | ApiError::NameMismatch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::Registry(error) => registry_status(error),
            ApiError::Mark { .. } => StatusCode::PRECONDITION_FAILED,
            ApiError::Upstream { .. } => StatusCode::BAD_GATEWAY,
            ApiError::Conflict { .. } => StatusCode::CONFLICT,
            ApiError::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn problems(&self) -> Option<&Problems> {
        match self {
            ApiError::Definition(problems)
            | ApiError::Skill(problems)
            | ApiError::Pack(problems)
            | ApiError::Ctx(problems) => Some(problems),
            ApiError::Manifest(ManifestError(problems)) => Some(problems),
            ApiError::Registry(RegistryError::Profile(problems)) => Some(problems),
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        match self {
            ApiError::BodyTimeout { .. } | ApiError::BodyBroken => true,
            ApiError::Registry(error) => error.retryable(),
            ApiError::Conflict { retryable, .. } => *retryable,
            _ => false,
        }
    }
}

fn registry_status(error: &RegistryError) -> StatusCode {
    match error {
        RegistryError::Store(error) => match error {
            StoreError::StaleRevision { .. } | StoreError::Missing { .. } => StatusCode::PRECONDITION_FAILED,
            StoreError::Full => StatusCode::INSUFFICIENT_STORAGE,
            StoreError::Busy | StoreError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Refused { .. }
            | StoreError::Corrupt
            | StoreError::BadRow { .. }
            | StoreError::Migration { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        },
        RegistryError::ShadowsCode { .. } => StatusCode::CONFLICT,
        RegistryError::Profile(_) => StatusCode::UNPROCESSABLE_ENTITY,
        RegistryError::CodeTool { .. } | RegistryError::SameName { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl ApiError {
    /// The answer of an address that speaks as OpenAI does: the same problem, and in `error` what OpenAI's clients read.
    pub(crate) fn into_openai_response(self) -> Response {
        let kind = match self.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let error = serde_json::json!({
            "message": self.to_string(), "type": kind, "param": null, "code": self.code(),
        });
        self.respond(Some(error))
    }

    fn respond(self, error: Option<serde_json::Value>) -> Response {
        let status = self.status();
        if status.is_server_error() {
            let reason = match &self {
                ApiError::Registry(RegistryError::Store(error)) => error.reason(),
                _ => None,
            };
            tracing::error!(code = self.code(), error = %self, reason, "api.request.failed");
        }
        let body = ProblemBody {
            kind: format!("/docs#{}", self.code()),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code: self.code(),
            detail: self.to_string(),
            retryable: self.retryable(),
            problems: self.problems().cloned(),
            error,
        };
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"toolcrib\""));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(None)
    }
}
