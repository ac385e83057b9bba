//! Whether a person is asked before a call, as it is written.

use serde_json::{Value, json};

use crate::approval_rule::ApprovalRule;
use crate::fields::Fields;
use crate::json::kind_of;
use crate::problem::{ProblemCode, Problems, nearest};

/// When a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// Before every call.
    Always,
    /// Once for the same tool and the same arguments in a session.
    Once,
    /// When this CEL expression says so.
    When(ApprovalRule),
}

impl Approval {
    pub(crate) fn read(value: &Value, schema: Option<&Value>, problems: &mut Problems) -> Option<Self> {
        let pointer = "/approval";
        match value {
            Value::String(word) => match word.as_str() {
                "never" => Some(Approval::Never),
                "always" => Some(Approval::Always),
                "once" => Some(Approval::Once),
                other => {
                    let hint = nearest(other, ["never", "always", "once"])
                        .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                    let message =
                        format!("approval is never, always, once or {{\"when\": \"<CEL>\"}}, not {other:?}{hint}");
                    problems.add(pointer, ProblemCode::Approval, message);
                    None
                }
            },
            Value::Object(_) => {
                let fields = Fields::read(value, pointer, "approval", &["when"], problems)?;
                let before = problems.len();
                let Some(expression) = fields.trimmed("when", problems) else {
                    if problems.len() == before {
                        problems.add(fields.at("when"), ProblemCode::Approval, "approval.when is a CEL expression");
                    }
                    return None;
                };
                match ApprovalRule::read(expression, schema) {
                    Ok(rule) => Some(Approval::When(rule)),
                    Err(reason) => {
                        let message = format!("approval.when can't be used: {reason}");
                        problems.add(fields.at("when"), ProblemCode::Approval, message);
                        None
                    }
                }
            }
            other => {
                let message = format!("approval is a word or {{\"when\": \"<CEL>\"}}, not {}", kind_of(other));
                problems.add(pointer, ProblemCode::Type, message);
                None
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Approval::Never => "never".into(),
            Approval::Always => "always".into(),
            Approval::Once => "once".into(),
            Approval::When(rule) => json!({ "when": rule.text() }),
        }
    }
}
