//! An agent's profile as the fields of a form, and back. Keys that no field shows are kept.

use serde_json::{Map, Value};
use toolcrib_definition::json;

use crate::form::Form;

/// The limits, with what people call them.
pub(crate) const LIMITS: [(&str, &str); 7] = [
    ("turn_timeout", "Time of a turn, in seconds"),
    ("tool_timeout", "Time of a call, in seconds"),
    ("tool_concurrency", "Calls of one answer that run at once"),
    ("max_tool_calls", "Calls of a turn"),
    ("max_tool_repeat", "The same call in a turn"),
    ("context_budget", "The longest prompt, in tokens"),
    ("subagent_depth", "How deep subagents may go"),
];

/// What the lists of an agent say of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nothing.
    None,
    /// `tools_allow` names it.
    Allow,
    /// `tools_deny` names it.
    Deny,
}

impl Rule {
    pub(crate) const CHOICES: [(Rule, &'static str); 3] =
        [(Rule::None, "not named"), (Rule::Allow, "allowed"), (Rule::Deny, "denied")];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Rule::None => "none",
            Rule::Allow => "allow",
            Rule::Deny => "deny",
        }
    }

    pub(crate) fn of(profile: &Value, tool: &str) -> Self {
        if has(&profile["tools_deny"], tool) {
            Rule::Deny
        } else if has(&profile["tools_allow"], tool) {
            Rule::Allow
        } else {
            Rule::None
        }
    }
}

/// Whether the agent has neither list of allowed tools, and so every tool.
pub(crate) fn allows_all(profile: &Value) -> bool {
    profile["tools_allow"].is_null() && profile["tools_allow_groups"].is_null()
}

/// Whether a list holds a name.
pub(crate) fn has(list: &Value, name: &str) -> bool {
    list.as_array().is_some_and(|items| items.iter().any(|item| item == name))
}

fn between_commas(text: &str) -> Value {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn whole(form: &Form) -> Result<Map<String, Value>, String> {
    let whole = json::parse(form.text("whole").as_bytes()).ok();
    whole
        .and_then(|whole| whole.as_object().cloned())
        .ok_or_else(|| "the form is not whole; open the page again".to_owned())
}

/// The profile with what the form says of who the agent is, its skills and its limits.
///
/// # Errors
/// Which field can't be read.
pub(crate) fn with_identity(form: &Form) -> Result<Value, String> {
    let mut profile = whole(form)?;
    for key in ["description", "instructions", "provider", "model"] {
        let text = form.text(key).trim();
        profile.insert(key.to_owned(), if text.is_empty() { Value::Null } else { text.replace("\r\n", "\n").into() });
    }
    profile.insert(
        "skills".to_owned(),
        match form.text("skills").trim() {
            "all" => Value::Null,
            names => between_commas(names),
        },
    );
    profile.insert(
        "skills_eager".to_owned(),
        match form.text("skills_eager").trim() {
            "" => "none".into(),
            word @ ("all" | "none") => word.into(),
            names => between_commas(names),
        },
    );
    profile.insert("approvals_required".to_owned(), between_commas(form.text("approvals_required")));
    let mut limits = profile.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, words) in LIMITS {
        let number = form.text(key).trim().parse::<u64>();
        limits.insert(key.to_owned(), number.map_err(|_| format!("{words}: a whole number"))?.into());
    }
    profile.insert("limits".to_owned(), Value::Object(limits));
    Ok(Value::Object(profile))
}

/// The profile with what the form says of the tools that it shows; of the others nothing changes.
///
/// # Errors
/// When the form is not whole.
pub(crate) fn with_rules(form: &Form) -> Result<Value, String> {
    let mut profile = whole(form)?;
    let mut lists = ["tools_allow", "tools_deny", "tools_deferred"].map(|key| {
        let list = profile.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    });
    for tool in form.all("tool") {
        let rule = form.text(&format!("rule:{tool}"));
        let is_deferred = form.text(&format!("deferred:{tool}")) == "yes";
        for (list, holds) in lists.iter_mut().zip([rule == "allow", rule == "deny", is_deferred]) {
            let known = list.iter().position(|name| name == tool);
            match (known, holds) {
                (None, true) => list.push(tool.to_owned()),
                (Some(place), false) => drop(list.remove(place)),
                _ => {}
            }
        }
    }
    let [allow, deny, deferred] = lists;
    let groups = between_commas(form.text("groups"));
    let has_groups = groups.as_array().is_some_and(|groups| !groups.is_empty());
    if form.text("mode") == "all" {
        if !allow.is_empty() || has_groups {
            return Err("an agent that may use every tool has no list of them: take the rules \"allowed\" and the groups away, \
                        or choose those that are listed"
                .to_owned());
        }
        profile.insert("tools_allow".to_owned(), Value::Null);
        profile.insert("tools_allow_groups".to_owned(), Value::Null);
    } else {
        profile.insert("tools_allow".to_owned(), allow.into());
        profile.insert("tools_allow_groups".to_owned(), if has_groups { groups } else { Value::Null });
    }
    profile.insert("tools_deny".to_owned(), deny.into());
    profile.insert("tools_deferred".to_owned(), deferred.into());
    Ok(Value::Object(profile))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(fields: &[(&str, &str)]) -> Form {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(fields);
        Form::read(text.finish().as_bytes())
    }

    #[test]
    fn rules_change_what_is_shown_and_nothing_else() {
        let whole =
            json!({"tools_allow": ["kept", "gone"], "tools_deny": ["kept_too"], "tools_deferred": [], "other": 1})
                .to_string();
        let fields = [
            ("whole", whole.as_str()),
            ("mode", "listed"),
            ("groups", " orders, "),
            ("tool", "gone"),
            ("rule:gone", "deny"),
            ("tool", "new"),
            ("rule:new", "allow"),
            ("deferred:new", "yes"),
        ];
        assert_eq!(
            with_rules(&form(&fields)).unwrap(),
            json!({
                "tools_allow": ["kept", "new"], "tools_deny": ["kept_too", "gone"], "tools_deferred": ["new"], "other": 1,
                "tools_allow_groups": ["orders"],
            })
        );
    }

    #[test]
    fn who_may_use_everything_is_not_narrowed_by_the_way() {
        let whole = json!({"tools_allow": null}).to_string();
        let of = |mode: &str, rule: &str| {
            with_rules(&form(&[("whole", &whole), ("mode", mode), ("tool", "a"), ("rule:a", rule)]))
        };
        assert!(of("all", "allow").unwrap_err().contains("every tool"));
        assert_eq!(of("all", "deny").unwrap()["tools_allow"], Value::Null);
        assert_eq!(of("listed", "none").unwrap()["tools_allow"], json!([]));
        assert!(with_rules(&form(&[("whole", "")])).is_err());
    }

    #[test]
    fn an_identity_is_read_back() {
        let mut fields = vec![
            ("whole", r#"{"fallback_models": [1], "limits": {"turn_timeout": 1}}"#),
            ("instructions", "a\r\nb"),
            ("provider", ""),
            ("skills", "all"),
            ("skills_eager", "a, b"),
        ];
        fields.extend(LIMITS.map(|(name, _)| (name, "7")));
        let profile = with_identity(&form(&fields)).unwrap();
        assert_eq!(profile["instructions"], "a\nb");
        assert_eq!((&profile["provider"], &profile["skills"]), (&Value::Null, &Value::Null));
        assert_eq!(profile["skills_eager"], json!(["a", "b"]));
        assert_eq!((&profile["fallback_models"], &profile["limits"]["subagent_depth"]), (&json!([1]), &json!(7)));
        fields.last_mut().unwrap().1 = "many";
        assert!(with_identity(&form(&fields)).unwrap_err().contains("a whole number"));
    }
}
