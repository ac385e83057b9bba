//! Every address of the Studio.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{get, post};

use crate::api::Api;
use crate::once::Once;
use crate::pages::{
    agent, agent_profile, agents, approvals, doubts, editor, events, home, mcp, new, session, sessions, skills, system,
    tokens, tool, tools, traces,
};
use crate::{assets, guard, login};

/// How the Studio is served.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether browsers reach it over HTTPS: then its cookie goes nowhere else. Default false, for a loopback address.
    pub https: bool,
    /// What the server was started with, for admins to read. Secrets have no place in it.
    pub configuration: Arc<[ConfigurationValue]>,
}

/// A value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationValue {
    /// Its key, with dots.
    pub key: String,
    /// The value, as text.
    pub value: String,
    /// Where it came from: a file, the environment, the command line or the default.
    pub origin: String,
}

/// What the pages share.
#[derive(Clone)]
pub(crate) struct Studio {
    pub(crate) api: Api,
    pub(crate) settings: Settings,
    pub(crate) once: Arc<Once>,
}

/// The Studio at `/studio`, over this API.
pub fn router(api: Router, settings: Settings) -> Router {
    let studio = Studio { api: Api::new(api), settings, once: Arc::default() };
    let writing = Router::new()
        .route("/studio/tools/{name}/edit", get(editor::open))
        .route("/studio/save", post(editor::save))
        .route("/studio/check", post(editor::check))
        .route("/studio/preview", post(editor::show))
        .route("/studio/switch", post(editor::switch))
        .route("/studio/new", get(new::choose))
        .route("/studio/new/blank", get(new::blank))
        .route("/studio/new/curl", post(new::from_curl))
        .route("/studio/new/openapi", post(new::from_openapi))
        .route("/studio/tools/{name}/try", post(tool::try_it))
        .route("/studio/tools/{name}/delete", post(tool::delete))
        .route("/studio/agents", post(agents::create))
        .route("/studio/agents/{id}/delete", post(agent::delete))
        .route("/studio/agents/{id}/profile", get(agent_profile::edit).post(agent_profile::save))
        .route("/studio/agents/{id}/tools", post(agent::save_tools))
        .route("/studio/agents/{id}/chat", post(agent::chat))
        .route("/studio/save-skill", post(skills::save))
        .route("/studio/delete-skill", post(skills::delete))
        .route("/studio/mcp-add", post(mcp::add))
        .route("/studio/mcp-import", post(mcp::import))
        .route("/studio/mcp/{name}", post(mcp::act))
        .route_layer(from_fn(guard::writers));
    let pages = Router::new()
        .merge(writing)
        .route("/studio", get(home::show))
        .route("/studio/logout", post(login::logout))
        .route("/studio/tools", get(tools::list))
        .route("/studio/tools/{name}", get(tool::show))
        .route("/studio/tools/{name}/versions/{version}/restore", post(tool::restore))
        .route("/studio/tools/{name}/versions/{version}", get(tool::version))
        .route("/studio/agents", get(agents::list))
        .route("/studio/agents/{id}", get(agent::show))
        .route("/studio/sessions", get(sessions::list))
        .route("/studio/sessions/{session}", get(session::show))
        .route("/studio/sessions/{session}/export", get(session::export))
        .route("/studio/skills", get(skills::list))
        .route("/studio/skills/{name}", get(skills::show))
        .route("/studio/mcp", get(mcp::list))
        .route("/studio/mcp-export", get(mcp::export))
        .route("/studio/mcp/{name}", get(mcp::show))
        .route("/studio/tokens", get(tokens::list).post(tokens::create))
        .route("/studio/tokens/revoke", post(tokens::revoke))
        .route("/studio/doctor", get(system::doctor))
        .route("/studio/configuration", get(system::configuration))
        .route("/studio/doubts", get(doubts::list))
        .route("/studio/doubts/{id}", get(doubts::show).post(doubts::decide))
        .route("/studio/events", get(events::follow))
        .route("/studio/traces", get(traces::list))
        .route("/studio/traces/{id}", get(traces::show))
        .route("/studio/approvals", get(approvals::list))
        .route("/studio/approvals/{id}", get(approvals::show).post(approvals::decide))
        .layer(from_fn_with_state(studio.clone(), guard::let_in));
    Router::new()
        .route("/", get(async || Redirect::to("/studio")))
        .route("/studio/login", get(login::ask).post(login::take))
        .route("/studio/assets/{name}", get(assets::read))
        .merge(pages)
        .layer(from_fn(guard::protect))
        .with_state(studio)
}
