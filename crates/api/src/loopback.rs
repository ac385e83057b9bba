//! A server on loopback answers this machine only: a page of another origin can't reach it through
//! a browser, nor through a name that it rebinds to 127.0.0.1.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

use crate::problem::ApiError;

/// Checks Host and Origin.
pub(crate) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    if headers.get_all(HOST).iter().count() > 1 {
        return Err(ApiError::Request("a request names one Host".to_owned()));
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable").to_owned());
    let host = text(HOST).or_else(|| uri.authority().map(ToString::to_string)).unwrap_or_default();
    if !is_loopback(&host) {
        return Err(ApiError::Host(host));
    }
    match text(ORIGIN) {
        Some(origin) if !origin.split_once("://").is_some_and(|(_, authority)| is_loopback(authority)) => {
            Err(ApiError::Origin(origin))
        }
        _ => Ok(()),
    }
}

/// Whether an authority is `localhost` or a loopback address, with any port.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<http::uri::Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
