//! The style and the script, in the binary.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest, Sha256};

/// A file that is served as it is.
pub(crate) struct Asset {
    stem: &'static str,
    ending: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// How pages look.
pub(crate) static STYLE: Asset =
    Asset { stem: "studio", ending: "css", kind: "text/css; charset=utf-8", text: include_str!("assets/studio.css") };
/// Keys, and pages that follow what happens. Every page can be read without it.
pub(crate) static SCRIPT: Asset = Asset {
    stem: "studio",
    ending: "js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("assets/studio.js"),
};

/// What a tab shows.
pub(crate) static ICON: Asset =
    Asset { stem: "studio", ending: "svg", kind: "image/svg+xml", text: include_str!("assets/studio.svg") };

impl Asset {
    /// An address that changes with the text, so that a browser may keep it.
    pub(crate) fn address(&self) -> String {
        format!("/studio/assets/{}", self.name())
    }

    fn name(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        let short: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{short}.{}", self.stem, self.ending)
    }
}

pub(crate) async fn read(Path(name): Path<String>) -> Response {
    match [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name() == name) {
        Some(asset) => {
            let headers = [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
