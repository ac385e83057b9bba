//! The expression that says when a person is asked: CEL over the arguments, the context and the tool.
//!
//! It is checked when the tool is written, as far as that can be seen then: its grammar, the names it uses, and
//! what it comes to. What fails at the time of a call asks a person.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, MapExpr, operators};
use cel::{Context, Program};
use serde_json::{Map, Value, json};

use crate::context::{Ctx, CtxField};
use crate::problem::nearest;

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 4096;
/// The largest arguments and context together that an expression judges, in bytes: what it builds of them is bounded so.
const MAX_JUDGED: usize = 64 << 10;
/// The same for an expression with a loop, which looks at each item and may look at all the others for it.
const MAX_LOOPED: usize = 8 << 10;
/// The words an expression may come to beside true and false.
const WORDS: [&str; 3] = ["user_approval", "approved", "not_applicable"];
/// What an expression may know of the tool.
const TOOL_FIELDS: [&str; 4] = ["name", "group", "tags", "effect"];
/// Functions and methods there are, beside operators.
const FUNCTIONS: [&str; 12] =
    ["size", "contains", "startsWith", "endsWith", "string", "int", "uint", "double", "bytes", "type", "dyn", "bool"];

/// What an expression knows of the tool whose call it judges.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its group.
    pub group: Option<&'a str>,
    /// Its labels.
    pub tags: &'a [String],
    /// What a crash may do to a call.
    pub effect: &'a str,
}

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAnswer {
    /// A person is asked.
    Ask,
    /// The call may go on.
    Go,
    /// The call is refused, for this reason.
    Deny(String),
}

/// An expression that was checked.
#[derive(Clone)]
pub struct ApprovalRule {
    text: String,
    program: Arc<Program>,
    /// How much it judges, in bytes.
    most: usize,
}

impl PartialEq for ApprovalRule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ApprovalRule {}

impl std::fmt::Debug for ApprovalRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ApprovalRule").field(&self.text).finish()
    }
}

impl ApprovalRule {
    /// The expression as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads an expression. `schema` is the JSON Schema of the arguments it will see.
    pub(crate) fn read(text: &str, schema: Option<&Value>) -> Result<Self, String> {
        if text.len() > MAX_EXPRESSION {
            return Err(format!("it is longer than {MAX_EXPRESSION} bytes"));
        }
        let opening = |b: &u8| matches!(b, b'(' | b'[' | b'{' | b'!' | b'-' | b'?');
        if text.bytes().filter(opening).count() > 64 {
            return Err("it nests or negates more than 64 times".to_owned());
        }
        // The parser is other people's code fed with free text, so a panic in it is read as a refusal.
        let parsed = catch_unwind(|| Program::compile(text)).map_err(|_| "the parser gave up on it".to_owned())?;
        let program = parsed.map_err(|errors| match errors.errors.first() {
            Some(error) => {
                let words = error.msg.lines().next().unwrap_or_default();
                format!("{}: {words}", place(error.pos.0, error.pos.1))
            }
            None => "it can't be parsed".to_owned(),
        })?;
        let checker = Checker { text, program: &program, schema };
        checker.names(program.expression(), &mut Vec::new(), false)?;
        checker.comes_to_an_answer(program.expression())?;
        let most = if has_loop(program.expression()) { MAX_LOOPED } else { MAX_JUDGED };
        Ok(Self { text: text.to_owned(), program: Arc::new(program), most })
    }

    /// Judges a call by its arguments, each scalar in its declared type.
    ///
    /// # Errors
    /// Why no answer came out, such as a field that this call has not. Whoever asks takes that for a yes to asking
    /// a person.
    pub fn judge(&self, arguments: &Map<String, Value>, ctx: &Ctx, tool: ToolFacts<'_>) -> Result<RuleAnswer, String> {
        let size = size_of(&Value::Object(arguments.clone())) + size_of(&ctx.to_json());
        if size > self.most {
            return Err(format!(
                "the arguments are too large to be judged ({size} bytes, and at most {} are)",
                self.most
            ));
        }
        let mut context = Context::default();
        let tool = json!({ "name": tool.name, "group": tool.group, "tags": tool.tags, "effect": tool.effect });
        context.add_variable_from_value("args", cel_object(arguments));
        context.add_variable_from_value("ctx", cel_value(&ctx.to_json()));
        context.add_variable_from_value("tool", cel_value(&tool));
        let done = catch_unwind(AssertUnwindSafe(|| self.program.execute(&context)));
        let value = done.map_err(|_| "the expression could not be evaluated".to_owned())?.map_err(|e| e.to_string())?;
        answer_of(&value).ok_or_else(|| "it came to something that is no answer".to_owned())
    }
}

/// Roughly how many bytes a value has as text.
fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size_of(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size_of(value) + 4).sum::<usize>() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

fn has_loop(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Comprehension(_) => true,
        Expr::Select(select) => has_loop(&select.operand),
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).any(has_loop),
        Expr::List(list) => list.elements.iter().any(has_loop),
        Expr::Map(map) => entries(map).any(|(key, value)| has_loop(key) || has_loop(value)),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => false,
    }
}

fn answer_of(value: &cel::Value) -> Option<RuleAnswer> {
    match value {
        cel::Value::Bool(true) => Some(RuleAnswer::Ask),
        cel::Value::Bool(false) => Some(RuleAnswer::Go),
        cel::Value::String(word) => match word.as_str() {
            "user_approval" => Some(RuleAnswer::Ask),
            "approved" | "not_applicable" => Some(RuleAnswer::Go),
            _ => None,
        },
        cel::Value::Map(map) => match map.get(&cel::objects::Key::from("denied")) {
            Some(cel::Value::String(reason)) => Some(RuleAnswer::Deny(reason.to_string())),
            _ => None,
        },
        _ => None,
    }
}

fn cel_object(map: &Map<String, Value>) -> cel::Value {
    map.iter().map(|(key, value)| (key.clone(), cel_value(value))).collect::<HashMap<_, _>>().into()
}

fn cel_value(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => cel::Value::Int(number),
            (None, Some(number), _) => cel::Value::UInt(number),
            (None, None, number) => cel::Value::Float(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => cel::Value::from(text.as_str()),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(cel_value).collect())),
        Value::Object(map) => cel_object(map),
    }
}

/// A place in the expression: a column from 1, with its line when there is more than one.
fn place(line: isize, column: isize) -> String {
    if line > 1 { format!("line {line}, column {column}") } else { format!("column {column}") }
}

struct Checker<'a> {
    text: &'a str,
    program: &'a Program,
    schema: Option<&'a Value>,
}

impl Checker<'_> {
    fn wrong<T>(&self, at: &IdedExpr, message: impl std::fmt::Display) -> Result<T, String> {
        let offset = self.program.source_info().offset_for(at.id).map_or(0, |(start, _)| start as usize);
        let before: String = self.text.chars().take(offset).collect();
        let line = before.matches('\n').count() as isize + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as isize + 1;
        Err(format!("{}: {message}", place(line, column)))
    }

    /// Every name is known, and no loop runs inside another.
    fn names(&self, expr: &IdedExpr, bound: &mut Vec<String>, looping: bool) -> Result<(), String> {
        match &expr.expr {
            Expr::Ident(name) => self.variable(expr, name, bound),
            Expr::Select(select) => {
                self.field(expr, bound)?;
                self.names(&select.operand, bound, looping)
            }
            Expr::Call(call) => {
                let is_operator = !call.func_name.starts_with(|ch: char| ch.is_ascii_alphabetic());
                if !is_operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                    let hint = hint(&call.func_name, FUNCTIONS);
                    return self.wrong(expr, format!("there is no function {:?}{hint}", call.func_name));
                }
                let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
                parts.into_iter().try_for_each(|part| self.names(part, bound, looping))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|part| self.names(part, bound, looping)),
            Expr::Map(map) => entries(map).try_for_each(|(key, value)| {
                self.names(key, bound, looping)?;
                self.names(value, bound, looping)
            }),
            Expr::Comprehension(_) if looping => {
                self.wrong(expr, "a loop inside a loop can take for ever; write it flat")
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, bound, looping),
            Expr::Struct(_) => self.wrong(expr, "there are no messages here; write a map in braces"),
            Expr::Literal(_) | Expr::Unspecified => Ok(()),
        }
    }

    fn comprehension(&self, of: &ComprehensionExpr, bound: &mut Vec<String>, looping: bool) -> Result<(), String> {
        self.names(&of.iter_range, bound, looping)?;
        let before = bound.len();
        bound.extend([of.iter_var.clone(), of.accu_var.clone()]);
        bound.extend(of.iter_var2.clone());
        let inside = [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
        let done = inside.into_iter().try_for_each(|part| self.names(part, bound, true));
        bound.truncate(before);
        done
    }

    fn variable(&self, expr: &IdedExpr, name: &str, bound: &[String]) -> Result<(), String> {
        let known = ["args", "ctx", "tool"];
        if known.contains(&name) || bound.iter().any(|known| known == name) {
            return Ok(());
        }
        self.wrong(expr, format!("there is no variable {name:?}{}", hint(name, known)))
    }

    /// A field of `args`, `ctx` or `tool` is one they have.
    fn field(&self, expr: &IdedExpr, bound: &[String]) -> Result<(), String> {
        let Some(path) = path_of(expr) else { return Ok(()) };
        let (root, field) = (path[0], path[path.len() - 1]);
        if bound.iter().any(|known| known == root) {
            return Ok(());
        }
        let refuse = |known: Vec<&str>| {
            let hint = hint(field, known.iter().copied());
            self.wrong(expr, format!("{} has no field {field:?}{hint}", path[..path.len() - 1].join(".")))
        };
        match (root, path.len()) {
            ("ctx", 2) if CtxField::named(field).is_none() => refuse(CtxField::ALL.map(CtxField::as_str).to_vec()),
            ("tool", 2) if !TOOL_FIELDS.contains(&field) => refuse(TOOL_FIELDS.to_vec()),
            ("args", _) => match self.fields_of_arguments(&path[1..path.len() - 1]) {
                Some(known) if !known.contains(&field) => refuse(known),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The properties that the schema declares at a path; none when it declares none there.
    fn fields_of_arguments(&self, path: &[&str]) -> Option<Vec<&str>> {
        let mut schema = self.schema?;
        for name in path {
            schema = schema.get("properties")?.get(name)?;
        }
        let properties = schema.get("properties")?.as_object()?;
        // A tool without parameters has no field; an object without properties inside may hold anything.
        (path.is_empty() || !properties.is_empty()).then(|| properties.keys().map(String::as_str).collect())
    }

    /// The expression comes to true, false, one of the words, or a refusal, as far as that can be seen.
    fn comes_to_an_answer(&self, expr: &IdedExpr) -> Result<(), String> {
        let wants = "approval.when comes to true, false, \"user_approval\", \"approved\", \"not_applicable\" or \
                     {\"denied\": \"why\"}";
        match &expr.expr {
            Expr::Literal(LiteralValue::Boolean(_)) => Ok(()),
            Expr::Literal(LiteralValue::String(word)) if WORDS.contains(&word.inner()) => Ok(()),
            Expr::Literal(LiteralValue::String(word)) => {
                self.wrong(expr, format!("{wants}, not {:?}{}", word.inner(), hint(word.inner(), WORDS)))
            }
            Expr::Literal(_) => self.wrong(expr, format!("{wants}, not another value")),
            Expr::List(_) => self.wrong(expr, format!("{wants}, not a list")),
            Expr::Map(map) => {
                let keys: Vec<_> = entries(map).map(|(key, _)| &key.expr).collect();
                match keys.as_slice() {
                    [Expr::Literal(LiteralValue::String(key))] if key.inner() == "denied" => Ok(()),
                    _ => self.wrong(expr, format!("{wants}, not another map")),
                }
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::CONDITIONAL, [_, yes, no]) => {
                    self.comes_to_an_answer(yes)?;
                    self.comes_to_an_answer(no)
                }
                ("size" | "int" | "uint" | "double" | "bytes" | "type", _)
                | (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, _) => {
                    self.wrong(expr, format!("{wants}, not another value"))
                }
                _ => Ok(()),
            },
            Expr::Comprehension(comprehension) => match comprehension.accu_init.expr {
                Expr::List(_) => self.wrong(expr, format!("{wants}, not a list")),
                _ => Ok(()),
            },
            Expr::Ident(_) => self.wrong(expr, format!("{wants}, not a whole object")),
            Expr::Select(_) | Expr::Struct(_) | Expr::Unspecified => Ok(()),
        }
    }
}

/// The names of `a.b.c`, root first.
fn path_of(expr: &IdedExpr) -> Option<Vec<&str>> {
    match &expr.expr {
        Expr::Ident(name) => Some(vec![name]),
        Expr::Select(select) => {
            let mut path = path_of(&select.operand)?;
            path.push(&select.field);
            Some(path)
        }
        _ => None,
    }
}

fn entries(map: &MapExpr) -> impl Iterator<Item = (&IdedExpr, &IdedExpr)> {
    map.entries.iter().filter_map(|entry| match &entry.expr {
        EntryExpr::MapEntry(entry) => Some((&entry.key, &entry.value)),
        EntryExpr::StructField(_) => None,
    })
}

fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if known.is_empty() => String::new(),
        None => format!("; there are {}", known.join(", ")),
    }
}
