//! Who asks, and what they may do.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use toolcrib_store::{Role, TokenRow};

use crate::loopback;
use crate::problem::ApiError;
use crate::router::Audience;
use crate::state::ApiState;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The name of the token's holder, kept with what they write.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The agents they may use; none means all.
    pub agents: Option<Vec<String>>,
    /// The id of the token, when it came with one.
    pub(crate) token_id: Option<String>,
}

/// A request came with a token that is not good. Addresses that need none answer all the same.
#[derive(Clone, Copy)]
struct BadToken;

impl Principal {
    /// Somebody on this machine who can read the database file anyway: the command line working on
    /// it without a server. No request from the network can become this.
    pub fn local() -> Self {
        Self { name: "local".to_owned(), role: Role::Admin, agents: None, token_id: None }
    }
}

/// What an address needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadCatalog,
    WriteCatalog,
    ReadAgents,
    ListAgentTools,
    Call,
    ReadCall,
    Decide,
    ReadTraces,
    ReadEvidence,
    FollowEvents,
    Observe,
    ManageTokens,
}

impl Access {
    fn allows(self, role: Role) -> bool {
        match (role, self) {
            (Role::Admin, _) => true,
            (Role::Operator, access) => access != Access::ManageTokens,
            (Role::Caller, access) => {
                matches!(access, Access::Call | Access::ReadCall | Access::ListAgentTools | Access::ReadEvidence)
            }
            (Role::Auditor, access) => {
                !matches!(access, Access::WriteCatalog | Access::Call | Access::Decide | Access::ManageTokens)
            }
        }
    }

    /// Whether a token that is bound to agents can be good for it: what is each agent's own.
    fn is_of_one_agent(self) -> bool {
        match self {
            Access::ReadAgents
            | Access::ListAgentTools
            | Access::Call
            | Access::ReadCall
            | Access::Decide
            | Access::ReadTraces
            | Access::ReadEvidence
            | Access::FollowEvents => true,
            Access::ReadCatalog | Access::WriteCatalog | Access::Observe | Access::ManageTokens => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Access::ReadCatalog => "read the catalog",
            Access::ReadAgents => "read agents",
            Access::FollowEvents => "follow events",
            Access::WriteCatalog => "change tools and agents",
            Access::ListAgentTools => "list an agent's tools",
            Access::Call => "call tools",
            Access::ReadCall => "read calls",
            Access::Decide => "decide about calls",
            Access::ReadTraces => "read traces",
            Access::ReadEvidence => "read evidence",
            Access::Observe => "read metrics and doctor",
            Access::ManageTokens => "manage tokens",
        }
    }
}

impl Principal {
    pub(crate) fn may(&self, access: Access) -> Result<(), ApiError> {
        if !access.allows(self.role) {
            return Err(ApiError::Forbidden { role: self.role.as_str(), what: access.words() });
        }
        if self.agents.is_some() && !access.is_of_one_agent() {
            return Err(ApiError::Bound { what: access.words() });
        }
        Ok(())
    }

    pub(crate) fn may_use_agent(&self, agent: &str) -> Result<(), ApiError> {
        if self.sees_agent(agent) { Ok(()) } else { Err(ApiError::AgentForbidden { agent: agent.to_owned() }) }
    }

    pub(crate) fn sees_agent(&self, agent: &str) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.iter().any(|id| id == agent))
    }
}

/// What every request passes first: whether this server answers it at all, and who asks. One step for
/// both, since each step costs every request.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) state: ApiState,
    pub(crate) audience: Audience,
}

/// Lets a request in. A principal that is there already was put there inside the process.
pub(crate) async fn admit(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if gate.audience == Audience::Loopback
        && let Err(error) = loopback::check(request.headers(), request.uri())
    {
        return error.into_response();
    }
    // No name of ours has this character, and not every database takes it.
    if request.uri().path_and_query().is_some_and(|path| path.as_str().contains("%00")) {
        return ApiError::Request("the address holds the character U+0000".to_owned()).into_response();
    }
    let state = &gate.state;
    if request.extensions().get::<Principal>().is_none()
        && let Some(header) = request.headers().get(AUTHORIZATION)
    {
        let token = header.to_str().ok().and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match token.and_then(|token| state.tokens.find(token)) {
            Some(row) => {
                let TokenRow { id, name, role, agents, .. } = row;
                request.extensions_mut().insert(Principal { name, role, agents, token_id: Some(id) });
            }
            None => {
                request.extensions_mut().insert(BadToken);
            }
        }
    }
    next.run(request).await
}

impl Principal {
    /// Who a request comes from.
    pub(crate) fn of(parts: &Parts) -> Result<Self, ApiError> {
        let missing = || match parts.extensions.get::<BadToken>() {
            Some(BadToken) => ApiError::TokenInvalid,
            None => ApiError::TokenMissing,
        };
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        Self::of(parts).map_err(ApiError::into_response)
    }
}
