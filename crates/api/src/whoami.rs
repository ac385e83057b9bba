//! Who a token is.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Principal;
use crate::problem::{ApiError, ProblemBody};

/// The holder of a token.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhoamiBody {
    /// The token's id; null for who works on the database itself.
    id: Option<String>,
    name: String,
    /// `admin`, `operator`, `caller` or `auditor`.
    role: &'static str,
    /// The agents it is good for; null means all.
    agents: Option<Vec<String>>,
}

/// Say who the token of the request is
#[utoipa::path(get, path = "/v1/whoami", tag = "tokens", security(("token" = [])),
    responses((status = 200, body = WhoamiBody), (status = 401, body = ProblemBody)))]
pub(crate) async fn read(principal: Principal) -> Result<Json<WhoamiBody>, ApiError> {
    let Principal { name, role, agents, token_id, .. } = principal;
    Ok(Json(WhoamiBody { id: token_id, name, role: role.as_str(), agents }))
}
