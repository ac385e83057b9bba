//! What differs between two texts, line by line.

use maud::{Markup, html};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::shown::shown;

/// Unchanged lines that stand before and after a change.
const AROUND: usize = 3;

/// The lines that differ, with some around them: taken away in `del`, added in `ins`, each with its sign.
pub(crate) fn diff(before: &str, after: &str) -> Markup {
    let texts = TextDiff::from_lines(before, after);
    html! {
        @if before == after {
            p.hint { "They are the same." }
        } @else {
            pre.diff tabindex="0" {
                @for (place, group) in texts.grouped_ops(AROUND).iter().enumerate() {
                    @if place > 0 { span.gap { "…\n" } }
                    @for change in group.iter().flat_map(|op| texts.iter_changes(op)) {
                        @let line = shown(change.value().trim_end_matches('\n'));
                        @match change.tag() {
                            ChangeTag::Delete => del { "- " (line) "\n" },
                            ChangeTag::Insert => ins { "+ " (line) "\n" },
                            ChangeTag::Equal => span { "  " (line) "\n" },
                        }
                    }
                }
            }
        }
    }
}

/// The same of two values, a key a line.
pub(crate) fn diff_of_values(before: &Value, after: &Value) -> Markup {
    diff(&format!("{before:#}\n"), &format!("{after:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_without_their_colour() {
        let markup = diff("a\nb\n<i>\n", "a\nc\n<i>\n").into_string();
        assert!(markup.contains("<del>- b\n</del><ins>+ c\n</ins>"), "{markup}");
        assert!(!markup.contains("<i>") && markup.contains("&lt;i&gt;"), "{markup}");
        assert!(diff("a", "a").into_string().contains("the same"));
    }
}
