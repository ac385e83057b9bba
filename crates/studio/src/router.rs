//! Every address of the Studio.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::api::Api;
use crate::pages::{approvals, editor, home, new, tool, tools, traces};
use crate::{assets, guard, login};

/// How the Studio is served.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Whether browsers reach it over HTTPS: then its cookie goes nowhere else. Default false, for a loopback address.
    pub https: bool,
}

/// What the pages share.
#[derive(Clone)]
pub(crate) struct Studio {
    pub(crate) api: Api,
    pub(crate) settings: Settings,
}

/// The Studio at `/studio`, over this API.
pub fn router(api: Router, settings: Settings) -> Router {
    let studio = Studio { api: Api::new(api), settings };
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
        .route_layer(from_fn(guard::writers));
    let pages = Router::new()
        .merge(writing)
        .route("/studio", get(home::show))
        .route("/studio/logout", post(login::logout))
        .route("/studio/tools", get(tools::list))
        .route("/studio/tools/{name}", get(tool::show))
        .route("/studio/tools/{name}/versions/{version}/restore", post(tool::restore))
        .route("/studio/traces", get(traces::list))
        .route("/studio/traces/{id}", get(traces::show))
        .route("/studio/approvals", get(approvals::list))
        .route("/studio/approvals/{id}", get(approvals::show).post(approvals::decide))
        .layer(from_fn_with_state(studio.clone(), guard::let_in));
    Router::new()
        .route("/studio/login", get(login::ask).post(login::take))
        .route("/studio/assets/{name}", get(assets::read))
        .merge(pages)
        .layer(from_fn(guard::protect))
        .with_state(studio)
}
