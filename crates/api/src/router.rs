//! Every address of the API.

use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::{Gate, admit};
use crate::docs_page;
use crate::extract::Path;
use crate::openapi;
use crate::problem::ApiError;
use crate::state::ApiState;
use crate::{
    activity, agent_reach, agent_tools, agents, approval_page, approvals, calls, doctor, events, health, ledger,
    manifest, mcp, mcp_ingest, mcp_servers, models, responses, skills, tokens, tool_try, tool_versions, tools, traces,
    turns, whoami,
};

/// Who the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// This machine only: Host and Origin are checked.
    Loopback,
    /// Whoever reaches it and has a token.
    Network,
}

/// The API as a router.
pub fn router(state: ApiState, audience: Audience) -> Router {
    let (router, openapi) = parts();
    let document = openapi.clone();
    let page = docs_page::render(&openapi);
    router
        .route("/openapi.json", get(move || std::future::ready(Json(document.clone()))))
        .route("/docs", get(move || std::future::ready(html(page.clone()))))
        .route(approval_page::PAGE, get(approval_page::show).post(approval_page::decide))
        .route(mcp::METADATA, get(mcp::metadata))
        .route(&format!("{}/{{*path}}", mcp::METADATA), get(mcp::metadata))
        // A tool may be called what an address of the list is called.
        .route("/v1/tools/manifest", named("manifest"))
        .route("/v1/tools/validate", named("validate"))
        .fallback(|| std::future::ready(ApiError::NoRoute))
        .method_not_allowed_fallback(|request: Request| async move { ApiError::Method(request.method().to_string()) })
        .layer(from_fn_with_state(Gate { state: state.clone(), audience }, admit))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(state)
}

/// The OpenAPI document of the API.
pub fn openapi_document() -> OpenApi {
    parts().1
}

fn parts() -> (Router<ApiState>, OpenApi) {
    let (router, mut openapi) = addresses().split_for_parts();
    openapi::complete_operations(&mut openapi);
    (router, openapi)
}

fn addresses() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(tools::list))
        .routes(routes!(tools::read, tools::write, tools::delete))
        .routes(routes!(manifest::import))
        .routes(routes!(manifest::validate))
        .routes(routes!(tool_versions::list))
        .routes(routes!(tool_versions::restore))
        .routes(routes!(tool_try::try_tool))
        .routes(routes!(agents::list))
        .routes(routes!(agents::read, agents::write, agents::delete))
        .routes(routes!(agent_tools::list))
        .routes(routes!(agent_reach::list))
        .routes(routes!(skills::list))
        .routes(routes!(skills::read, skills::write, skills::delete))
        .routes(routes!(skills::versions))
        .routes(routes!(turns::begin))
        .routes(routes!(turns::list))
        .routes(routes!(turns::read))
        .routes(routes!(turns::events))
        .routes(routes!(turns::cancel))
        .routes(routes!(turns::transcript))
        .routes(routes!(models::list))
        .routes(routes!(responses::create))
        .routes(routes!(responses::read))
        .routes(routes!(responses::cancel))
        .routes(routes!(calls::call))
        .routes(routes!(ledger::list))
        .routes(routes!(ledger::read))
        .routes(routes!(ledger::verdict))
        .routes(routes!(ledger::cancel))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::read))
        .routes(routes!(approvals::approve))
        .routes(routes!(approvals::deny))
        .routes(routes!(approvals::answer))
        .routes(routes!(approvals::link))
        .routes(routes!(mcp::post, mcp::get))
        .routes(routes!(traces::list))
        .routes(routes!(traces::read))
        .routes(routes!(traces::evidence))
        .routes(routes!(events::follow))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(whoami::read))
        .routes(routes!(mcp_servers::list))
        .routes(routes!(mcp_servers::read, mcp_servers::write, mcp_servers::delete))
        .routes(routes!(mcp_servers::import))
        .routes(routes!(mcp_servers::export))
        .routes(routes!(mcp_ingest::ingest))
        .routes(routes!(mcp_ingest::accept))
        .routes(routes!(mcp_ingest::ping))
        .routes(routes!(doctor::examine))
        .routes(routes!(activity::count))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// Reading, writing and deleting the tool with a name that an address has too.
fn named(name: &'static str) -> axum::routing::MethodRouter<ApiState> {
    let path = move || Path(name.to_owned());
    get(move |state, principal| tools::read(state, principal, path()))
        .put(move |state, principal, headers, body| tools::write(state, principal, path(), headers, body))
        .delete(move |state, principal, headers| tools::delete(state, principal, path(), headers))
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = words.unwrap_or("no words"), "api.request.panicked");
    ApiError::Internal.into_response()
}

fn html(page: String) -> Response {
    let mut response = axum::response::Html(page).into_response();
    let headers = response.headers_mut();
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
