//! The operator's web pages: what exists, what happened, what waits for a person.
//!
//! The Studio is a client of the API, in the same process: each page asks it with the token of whoever is logged in, so
//! nobody sees or changes here what their role could not over REST, and whatever a page does a script can do too. Pages are
//! rendered on the server and can be read without JavaScript.
//!
//! ```
//! use axum::Router;
//! use toolcrib_studio::{Settings, router};
//!
//! // The API's router, in real use.
//! let api = Router::new();
//! let app: Router = router(api, Settings::default());
//! # let _ = app;
//! ```

mod api;
mod arguments;
mod as_curl;
mod assets;
mod chart;
mod diff;
mod editor;
mod failure;
mod form;
mod guard;
mod layout;
mod login;
mod once;
mod operator;
mod pages;
mod profile;
mod router;
mod session;
mod shown;
mod timeline;

pub use router::{ConfigurationValue, Settings, router};
