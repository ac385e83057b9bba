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
mod assets;
mod editor;
mod failure;
mod form;
mod guard;
mod layout;
mod login;
mod operator;
mod pages;
mod router;
mod session;
mod shown;

pub use router::{Settings, router};
