//! Names of tools and parameters, out of the names that others chose.

use std::collections::HashSet;

use heck::ToSnakeCase;
use toolcrib_definition::MAX_NAME;

/// A name in the name rule's alphabet: `listPets` and `list-pets` are `list_pets`. Empty when nothing of it can stay.
pub(crate) fn snake(text: &str) -> String {
    let ascii: String = text.chars().map(|ch| if ch.is_ascii_alphanumeric() { ch } else { ' ' }).collect();
    let name = ascii.to_snake_case();
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("n{name}"),
        _ => name,
    }
}

/// The name of a secret that goes to a host and no other: two sites never ask for the same one.
pub(crate) fn secret_of(host: &str, what: &str) -> String {
    snake(&format!("{} {what}", host.trim_start_matches("www.")))
}

/// Whether a name is one of a secret, word by word: `X-Auth-Key`, `access_token` and `password` are, `max_tokens`,
/// `page_token` and `sort_key` are not.
pub(crate) fn is_secret(name: &str) -> bool {
    const ALONE: [&str; 13] = [
        "authorization",
        "auth",
        "apikey",
        "secret",
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "cookie",
        "credential",
        "credentials",
        "jwt",
        "bearer",
    ];
    /// What a key opens.
    const OF_KEYS: [&str; 9] =
        ["api", "auth", "access", "subscription", "application", "app", "private", "client", "service"];
    /// Tokens that say where a list goes on.
    const PAGING: [&str; 8] = ["page", "next", "prev", "previous", "cursor", "continuation", "sync", "start"];
    let name = snake(name);
    let words: Vec<&str> = name.split('_').collect();
    let any = |of: &[&str]| words.iter().any(|word| of.contains(word));
    any(&ALONE) || name == "key" || (any(&["key"]) && any(&OF_KEYS)) || (any(&["token"]) && !any(&PAGING))
}

/// Whether a text looks like something that was drawn by chance, as keys and tokens are.
pub(crate) fn looks_drawn(text: &str) -> bool {
    let is_uuid = text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+=.".contains(&byte));
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    text.len() >= 20
        && plain
        && !is_uuid
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && (text.starts_with("ey") || !text.contains('.'))
}

/// Gives each name once.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// The name, or the name with the first number that makes it new.
    pub(crate) fn take(&mut self, wanted: &str) -> String {
        let cut = |room: usize| wanted[..wanted.len().min(room)].trim_end_matches('_');
        let mut name = cut(MAX_NAME).to_owned();
        let mut number = 2;
        while !self.0.insert(name.clone()) {
            let suffix = format!("_{number}");
            name = format!("{}{suffix}", cut(MAX_NAME - suffix.len()));
            number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_rule() {
        let check = |text: &str, expected: &str| assert_eq!(snake(text), expected, "{text}");
        check("listPets", "list_pets");
        check("repos/list-for-org", "repos_list_for_org");
        check("GetHTTPServer", "get_http_server");
        check("PostCharges.v2", "post_charges_v2");
        check("2faStart", "n2fa_start");
        check("Größe", "gr_e");
        check("日本", "");
    }

    #[test]
    fn names_of_secrets_are_known_by_their_words() {
        for name in
            ["X-Auth-Key", "Ocp-Apim-Subscription-Key", "access_token", "apiKey", "client_secret", "password", "key"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["max_tokens", "page_token", "nextPageToken", "keyword", "author", "sort_key", "Idempotency-Key"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_was_drawn_by_chance_is_seen() {
        assert!(looks_drawn("sk_live_51H8fd7sdfHSD8fh3"));
        assert!(looks_drawn("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0"));
        for text in
            ["2022-11-28", "application/vnd.github.v3+json", "a-long-name-without-numbers", "v1.2.3.4.5.6.7.8.9.10.11"]
        {
            assert!(!looks_drawn(text), "{text}");
        }
        assert!(!looks_drawn("123e4567-e89b-12d3-a456-426614174000"));
    }

    #[test]
    fn names_are_given_once() {
        let mut names = Names::default();
        assert_eq!([names.take("a"), names.take("a"), names.take("a")], ["a", "a_2", "a_3"]);
        let long = "x".repeat(80);
        assert_eq!(names.take(&long).len(), 64);
        let second = names.take(&long);
        assert!(second.len() == 64 && second.ends_with("_2"), "{second}");
    }
}
