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
    fn names_are_given_once() {
        let mut names = Names::default();
        assert_eq!([names.take("a"), names.take("a"), names.take("a")], ["a", "a_2", "a_3"]);
        let long = "x".repeat(80);
        assert_eq!(names.take(&long).len(), 64);
        let second = names.take(&long);
        assert!(second.len() == 64 && second.ends_with("_2"), "{second}");
    }
}
