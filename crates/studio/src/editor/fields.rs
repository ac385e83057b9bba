//! The form.

use maud::{Markup, html};
use toolcrib_definition::Problems;

use super::Draft;
use crate::layout;
use crate::operator::Operator;
use crate::shown::shown;

/// A field, and the places of a definition whose problems are its own.
struct Field {
    name: &'static str,
    words: &'static str,
    hint: &'static str,
    at: &'static [&'static str],
}

const NAME: Field = Field { name: "name", words: "Name", hint: "lower case, as find_order", at: &["/name"] };
const DESCRIPTION: Field = Field {
    name: "description",
    words: "Description",
    hint: "What the model reads to choose the tool: what it does, and when to use it",
    at: &["/description"],
};
const PARAMETERS: Field = Field {
    name: "parameters",
    words: "Parameters",
    hint: "JSON Schema, or a line for each: number | string | required | The order's number",
    at: &["/parameters", "/lowered_from"],
};
const METHOD: Field = Field { name: "method", words: "Method", hint: "", at: &["/request/method"] };
const URL: Field = Field {
    name: "url",
    words: "URL",
    hint: "{{number}} is an argument, {{ctx.chat_id}} the context",
    at: &["/request/url"],
};
const QUERY: Field = Field { name: "query", words: "Query", hint: "name: value, a line each", at: &["/request/query"] };
const HEADERS: Field = Field {
    name: "headers",
    words: "Headers",
    hint: "name: value, a line each; {{secret.api_token}} in a header that holds a secret",
    at: &["/request/headers"],
};
const SECRET_HEADERS: Field = Field {
    name: "secret_headers",
    words: "Headers with secrets",
    hint: "their names, with commas",
    at: &["/secret_headers"],
};
const BODY: Field = Field { name: "body", words: "Body", hint: "", at: &["/request/body", "/request"] };
const EXTRACT: Field =
    Field { name: "extract", words: "The model reads", hint: "", at: &["/response/extract", "/response"] };
const PATH: Field =
    Field { name: "path", words: "at", hint: "$.items (RFC 9535), or items.0.id", at: &["/response/path"] };
const SIDE_EFFECT: Field =
    Field { name: "side_effect", words: "Changes something", hint: "", at: &["/side_effect", "/not_performed_on"] };
const APPROVAL: Field = Field {
    name: "approval",
    words: "Approval",
    hint: "never, always, once, or a rule (CEL): args.amount > 100",
    at: &["/approval"],
};
const GROUP: Field = Field { name: "group", words: "Group", hint: "", at: &["/group"] };
const TAGS: Field = Field { name: "tags", words: "Tags", hint: "with commas", at: &["/tags"] };
const TIMEOUT: Field = Field { name: "timeout", words: "Timeout, in seconds", hint: "", at: &["/timeout"] };
const HALT: Field = Field {
    name: "halt_when",
    words: "Ends the turn when",
    hint: "{\"json_path\": \"status\", \"equals\": [\"CLOSED\"]}",
    at: &["/halt_when"],
};
const EVIDENCE: Field = Field {
    name: "evidence",
    words: "Evidence",
    hint: "{\"kind\": \"orders\", \"items\": \"items\"}",
    at: &["/evidence"],
};
const KEY_HEADER: Field = Field {
    name: "idempotency_key_header",
    words: "Header of the call's key",
    hint: "Idempotency-Key",
    at: &["/idempotency_key_header"],
};
const KEY_LIFE: Field = Field {
    name: "idempotency_key_life",
    words: "The key is known for, in seconds",
    hint: "",
    at: &["/idempotency_key_life"],
};

/// Every field, for problems that are nobody's.
const ALL: [&Field; 20] = [
    &NAME,
    &DESCRIPTION,
    &PARAMETERS,
    &METHOD,
    &URL,
    &QUERY,
    &HEADERS,
    &SECRET_HEADERS,
    &BODY,
    &EXTRACT,
    &PATH,
    &SIDE_EFFECT,
    &APPROVAL,
    &GROUP,
    &TAGS,
    &TIMEOUT,
    &HALT,
    &EVIDENCE,
    &KEY_HEADER,
    &KEY_LIFE,
];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const EXTRACTS: [(&str, &str); 5] = [
    ("body_raw", "the body"),
    ("json_path", "a part of the JSON"),
    ("status", "the status only"),
    ("evidence_envelope", "ids and lines (evidence)"),
    ("mcp_content", "MCP content"),
];

impl Field {
    /// Whether a problem at this place is this field's: the most exact field has it.
    fn has(&self, pointer: &str) -> Option<usize> {
        let under =
            |at: &&&str| pointer == **at || pointer.strip_prefix(**at).is_some_and(|rest| rest.starts_with('/'));
        self.at.iter().filter(under).map(|at| at.len()).max()
    }

    fn problems<'a>(&'a self, problems: &'a Problems) -> impl Iterator<Item = &'a str> {
        problems
            .iter()
            .filter(|problem| field_of(&problem.pointer) == Some(self.name))
            .map(|problem| problem.message.as_str())
    }

    fn frame(&self, problems: &Problems, input: &Markup) -> Markup {
        html! {
            div.field {
                label for=(self.name) { (self.words) }
                (input)
                @if !self.hint.is_empty() { p.hint id={ (self.name) "-hint" } { (self.hint) } }
                ul.problems id={ (self.name) "-problems" } {
                    @for message in self.problems(problems) { li { (shown(message)) } }
                }
            }
        }
    }

    fn described(&self) -> String {
        format!("{0}-hint {0}-problems", self.name)
    }

    fn line(&self, draft: &Draft, problems: &Problems) -> Markup {
        let is_wrong = self.problems(problems).next().is_some();
        self.frame(
            problems,
            &html! {
                input id=(self.name) name=(self.name) value=(draft.text(self.name)) aria-describedby=(self.described())
                    aria-invalid=[is_wrong.then_some("true")] autocomplete="off" spellcheck="false";
            },
        )
    }

    fn lines(&self, draft: &Draft, problems: &Problems, rows: usize) -> Markup {
        let is_wrong = self.problems(problems).next().is_some();
        self.frame(
            problems,
            &html! {
                // A browser takes away the first line break.
                textarea id=(self.name) name=(self.name) rows=(rows) aria-describedby=(self.described())
                    aria-invalid=[is_wrong.then_some("true")] spellcheck="false" { "\n" (draft.text(self.name)) }
            },
        )
    }

    fn choice(&self, draft: &Draft, problems: &Problems, choices: &[(&str, &str)]) -> Markup {
        let chosen = draft.text(self.name);
        self.frame(
            problems,
            &html! {
                select id=(self.name) name=(self.name) aria-describedby=(self.described()) {
                    @for (value, words) in choices { option value=(value) selected[*value == chosen] { (words) } }
                }
            },
        )
    }
}

/// The field that shows a problem at this place.
pub(crate) fn field_of(pointer: &str) -> Option<&'static str> {
    let owners = ALL.iter().filter_map(|field| Some((field.has(pointer)?, field.name)));
    owners.max_by_key(|(exact, _)| *exact).map(|(_, name)| name)
}

/// The form of a draft. `revision` is the one that was read; none for a new tool.
pub(crate) fn form(operator: &Operator, draft: &Draft, revision: Option<&str>, problems: &Problems) -> Markup {
    let methods = METHODS.map(|method| (method, method));
    html! {
        form.editor method="post" action="/studio/save" data-check="/studio/check" {
            (layout::form_key(operator))
            input type="hidden" name="whole" value=(draft.whole());
            input type="hidden" name="revision" value=(revision.unwrap_or_default());
            (nobodys(problems))
            fieldset {
                legend { "What the model reads" }
                @if revision.is_some() {
                    input type="hidden" name="name" value=(draft.text("name"));
                } @else { (NAME.line(draft, problems)) }
                (DESCRIPTION.lines(draft, problems, 4))
                (PARAMETERS.lines(draft, problems, 8))
                div.actions {
                    button formaction="/studio/switch" title="Writes them in the other spelling" { "Switch: lines or JSON Schema" }
                }
                @if draft.is_lowered() {
                    p.hint { "These were lowered from the schema of a document, which checks the arguments and is kept." }
                }
            }
            fieldset {
                legend { "What is sent" }
                (METHOD.choice(draft, problems, &methods))
                (URL.line(draft, problems))
                (QUERY.lines(draft, problems, 3))
                (HEADERS.lines(draft, problems, 3))
                (SECRET_HEADERS.line(draft, problems))
                (BODY.lines(draft, problems, 6))
                label for="body_as" { "The body is" }
                select #body_as name="body_as" {
                    option value="json" selected[draft.text("body_as") != "text"] { "JSON" }
                    option value="text" selected[draft.text("body_as") == "text"] { "text" }
                }
            }
            fieldset {
                legend { "What comes back" }
                (EXTRACT.choice(draft, problems, &EXTRACTS))
                (PATH.line(draft, problems))
                (HALT.lines(draft, problems, 2))
                (EVIDENCE.lines(draft, problems, 2))
            }
            fieldset {
                legend { "Rules" }
                (SIDE_EFFECT.choice(draft, problems, &[("", "as its method says"), ("yes", "yes"), ("no", "no")]))
                (APPROVAL.line(draft, problems))
                (KEY_HEADER.line(draft, problems))
                (KEY_LIFE.line(draft, problems))
                (TIMEOUT.line(draft, problems))
                (GROUP.line(draft, problems))
                (TAGS.line(draft, problems))
            }
            div.actions {
                button.primary { "Save" }
                button formaction="/studio/preview" { "Show what it would be" }
            }
        }
        div #checked role="status" {}
    }
}

fn words_of(field: &str) -> &'static str {
    ALL.iter().find(|known| known.name == field).map_or("", |known| known.words)
}

/// Every problem with the way to its field.
fn nobodys(problems: &Problems) -> Markup {
    html! {
        @if !problems.is_empty() {
            div.notice.bad role="alert" {
                p { "It is not saved:" }
                ul { @for problem in problems.iter() {
                    li {
                        @match field_of(&problem.pointer) {
                            Some(field) => a href={ "#" (field) } { (words_of(field)) },
                            None => code { (shown(&problem.pointer)) },
                        }
                        ": " (shown(&problem.message))
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_at_its_field() {
        let check = |pointer: &str, expected: Option<&str>| assert_eq!(field_of(pointer), expected, "{pointer}");
        check("/name", Some("name"));
        check("/parameters/properties/a/type", Some("parameters"));
        check("/request/url", Some("url"));
        check("/request/headers/Authorization", Some("headers"));
        check("/request", Some("body"));
        check("/response/path", Some("path"));
        check("/mcp/server", None);
        check("", None);
    }
}
