//! Times as people read them.

/// A time in ms since 1970, as RFC 3339 in UTC.
pub(crate) fn shown(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| format!("{ms} ms"), |time| time.to_string())
}
