//! Revisions as entity tags: `ETag: "42"`, `If-Match: "42"`, `If-None-Match: *`.

use http::header::{ETAG, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use toolcrib_store::{Expect, Revision, WriteKind};

use crate::problem::ApiError;

/// What the preconditions of a write say (RFC 9110, section 13).
pub(crate) fn expectation(headers: &HeaderMap) -> Result<Expect, ApiError> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("unreadable"));
    match text(IF_NONE_MATCH).map(str::trim) {
        None => {}
        Some("*") => return Ok(Expect::Absent),
        Some(other) => return Err(ApiError::IfMatch(other.to_owned())),
    }
    match text(IF_MATCH).map(str::trim) {
        None => Ok(Expect::Anything),
        Some("*") => Ok(Expect::Present),
        Some(value) => value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|number| number.parse().ok())
            .map(|number| Expect::Revision(Revision(number)))
            .ok_or_else(|| ApiError::IfMatch(value.to_owned())),
    }
}

/// The status and the word for what a write did.
pub(crate) fn write_result(kind: WriteKind) -> (StatusCode, &'static str) {
    match kind {
        WriteKind::Created => (StatusCode::CREATED, "created"),
        WriteKind::Updated => (StatusCode::OK, "updated"),
        WriteKind::Unchanged => (StatusCode::OK, "unchanged"),
    }
}

/// The entity tag of a revision.
pub(crate) fn etag(revision: Revision) -> [(http::HeaderName, String); 1] {
    [(ETAG, format!("\"{revision}\""))]
}
