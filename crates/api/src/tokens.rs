//! API tokens.

use axum::Json;
use axum::extract::State;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use toolcrib_store::{NewToken, Role, TokenRow};
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, Keys};
use crate::extract::Path;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// The tokens that are good.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenList {
    tokens: Vec<TokenBody>,
}

/// A token, without the token.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenBody {
    id: String,
    name: String,
    /// `admin`, `operator`, `caller` or `auditor`.
    role: &'static str,
    /// The agents it is good for; null means all.
    agents: Option<Vec<String>>,
    /// ms since 1970.
    created_at: i64,
    /// ms since 1970.
    expires_at: Option<i64>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenCreated {
    /// The token. It is shown here and never again.
    token: String,
    id: String,
    name: String,
    role: &'static str,
}

fn body(row: TokenRow) -> TokenBody {
    TokenBody {
        id: row.id,
        name: row.name,
        role: row.role.as_str(),
        agents: row.agents,
        created_at: row.created_at,
        expires_at: row.expires_at,
    }
}

/// List tokens
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", security(("token" = [])),
    responses((status = 200, body = TokenList), (status = 403, body = ProblemBody)))]
pub(crate) async fn list(State(state): State<ApiState>, principal: Principal) -> Result<Json<TokenList>, ApiError> {
    principal.may(Access::ManageTokens)?;
    Ok(Json(TokenList { tokens: state.tokens.list().into_iter().map(body).collect() }))
}

/// Make a token
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", security(("token" = [])),
    request_body(content = Object, description = "{name, role, agents, expires_in_days}"),
    responses((status = 201, body = TokenCreated), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn create(
    State(state): State<ApiState>,
    principal: Principal,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    principal.may(Access::ManageTokens)?;
    let wrong = |message: &str| ApiError::Request(message.to_owned());
    let mut keys = Keys::of(body, &["name", "role", "agents", "expires_in_days"])?;
    let name = keys.text("name")?.filter(|name| !name.trim().is_empty() && name.chars().count() <= 100);
    let name = name.ok_or_else(|| wrong("name is 1 to 100 characters: who holds the token"))?;
    let role = keys.text("role")?.and_then(|word| Role::named(&word));
    let role = role.ok_or_else(|| wrong("role is admin, operator, caller or auditor"))?;
    let agents = match keys.take("agents") {
        None => None,
        Some(Value::Array(items)) => {
            let ids = items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            Some(ids.ok_or_else(|| wrong("agents is a list of agent ids"))?)
        }
        Some(_) => return Err(wrong("agents is a list of agent ids")),
    };
    let expires_at = match keys.take("expires_in_days") {
        None => None,
        Some(days) => {
            let days = days.as_i64().filter(|days| (1..=3650).contains(days));
            let days = days.ok_or_else(|| wrong("expires_in_days is a whole number from 1 to 3650"))?;
            Some(state.registry().store().clock().now_ms() + days * 24 * 3600 * 1000)
        }
    };
    let (row, token) = state.tokens.create(&NewToken { name, role, agents, expires_at }).await?;
    let created = TokenCreated { token, id: row.id, name: row.name, role: row.role.as_str() };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

/// Revoke a token
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)), security(("token" = [])),
    responses((status = 204), (status = 404, body = ProblemBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn revoke(
    State(state): State<ApiState>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    principal.may(Access::ManageTokens)?;
    if state.tokens.revoke(&id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::NotFound { what: "token", name: id })
    }
}
