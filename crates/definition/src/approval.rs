//! Whether a person is asked before a call, as it is written.

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::json::kind_of;
use crate::problem::{ProblemCode, Problems, nearest};

/// The longest approval expression, in bytes.
const MAX_EXPRESSION: usize = 4096;

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
    When(String),
}

impl Approval {
    pub(crate) fn read(value: &Value, problems: &mut Problems) -> Option<Self> {
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
                match check_cel(expression) {
                    Ok(()) => Some(Approval::When(expression.to_owned())),
                    Err(reason) => {
                        let message = format!("approval.when is not CEL: {reason}");
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
            Approval::When(expression) => json!({ "when": expression }),
        }
    }
}

/// Checks the grammar. The parser is other people's code fed with free text, so a panic in it is
/// caught and read as a refusal.
fn check_cel(expression: &str) -> Result<(), String> {
    if expression.len() > MAX_EXPRESSION {
        return Err(format!("it is longer than {MAX_EXPRESSION} bytes"));
    }
    let opening = |b: &u8| matches!(b, b'(' | b'[' | b'{' | b'!' | b'-' | b'?');
    if expression.bytes().filter(opening).count() > 64 {
        return Err("it nests or negates more than 64 times".to_owned());
    }
    let parsed = std::panic::catch_unwind(|| cel::Program::compile(expression).map(drop).map_err(|e| e.to_string()));
    match parsed {
        Ok(result) => result.map_err(|reason| reason.lines().next().unwrap_or_default().to_owned()),
        Err(_) => Err("the parser gave up on it".to_owned()),
    }
}
