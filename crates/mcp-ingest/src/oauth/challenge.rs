//! `WWW-Authenticate: Bearer …` (RFC 6750, RFC 9728).

/// What a server asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where its metadata is.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes that are needed.
    pub(crate) scopes: Option<Vec<String>>,
    /// The error, such as `insufficient_scope`.
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// Reads the parameters; what is not understood is passed over.
    pub(crate) fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        let rest = header.trim();
        let mut rest = match rest.split_once(' ') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => rest,
            _ => return challenge,
        };
        while let Some((name, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let (value, next) = match after.strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find('"').unwrap_or(quoted.len());
                    (&quoted[..end], quoted.get(end + 1..).unwrap_or_default())
                }
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match name.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value.to_owned()),
                "scope" => challenge.scopes = Some(value.split_whitespace().map(str::to_owned).collect()),
                "error" => challenge.error = Some(value.trim().to_owned()),
                _ => {}
            }
            rest = next;
        }
        challenge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_in_any_order() {
        let header =
            r#"Bearer realm="x, y", scope="a b", resource_metadata="https://e.com/p?q=1", error=insufficient_scope"#;
        let read = Challenge::read(header);
        assert_eq!(read.scopes, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read.resource_metadata.as_deref(), Some("https://e.com/p?q=1"));
        assert_eq!(read.error.as_deref(), Some("insufficient_scope"));
        for other in ["", "Basic realm=\"x\"", "Bearer", "Bearer x", "Bearer scope=\"unclosed"] {
            Challenge::read(other);
        }
    }
}
