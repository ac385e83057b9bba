//! What is wrong with a definition: every problem at once, each with a place, a code and a mend.

use std::fmt;

use serde::Serialize;

macro_rules! problem_codes {
    ($($variant:ident $code:literal $meaning:literal;)*) => {
        /// The stable code of a [`Problem`]. The part before the dot is the subject.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ProblemCode { $(#[doc = $meaning] $variant,)* }

        impl ProblemCode {
            /// Every code there is, in the order of the reference.
            pub const ALL: &'static [ProblemCode] = &[$(ProblemCode::$variant,)*];

            /// The code as it stands in answers and in the reference.
            pub fn as_str(self) -> &'static str {
                match self { $(ProblemCode::$variant => $code,)* }
            }

            /// One sentence on what the code means.
            pub fn meaning(self) -> &'static str {
                match self { $(ProblemCode::$variant => $meaning,)* }
            }
        }
    };
}

problem_codes! {
    Type "definition.type" "A key holds the wrong JSON type.";
    UnknownKey "definition.unknown_key" "A key is not part of a definition; the message proposes the nearest one.";
    Missing "definition.missing" "A required key is not there.";
    Conflict "definition.conflict" "Two keys say different things about the same part.";
    Name "name.invalid" "The name breaks the rule `^[a-z][a-z0-9_]*$` with 1 to 64 characters.";
    Description "description.blank" "The description is missing or blank; it is what the model reads.";
    Method "method.unknown" "The method is not GET, HEAD, POST, PUT, PATCH or DELETE.";
    Url "url.invalid" "The URL does not parse, or holds something a URL of a tool may not hold.";
    UrlScheme "url.scheme" "The URL does not begin with http:// or https://.";
    UrlHost "url.host" "The URL has no host, or a host that can't be one.";
    UrlUserinfo "url.userinfo" "The URL holds credentials; use a header named in secret_headers.";
    UrlFragment "url.fragment" "The URL holds a fragment, which is never sent.";
    HeaderName "header.name" "A header name is not a token of RFC 9110.";
    HeaderReserved "header.reserved" "A header is set by the HTTP client and can't be set by a tool.";
    HeaderDuplicate "header.duplicate" "A header stands twice; names have no case.";
    Body "body.invalid" "The body can't be what its Content-Type says.";
    PlaceholderUnknown "placeholder.unknown" "A placeholder names no parameter, context field or call value.";
    PlaceholderMisplaced "placeholder.misplaced" "A placeholder stands where its value may not go.";
    PlaceholderSecret "placeholder.secret" "{{secret.*}} stands outside a header named in secret_headers.";
    PlaceholderEnv "placeholder.env" "{{env.*}} is filled in manifests only, at ingestion.";
    SchemaKeyword "schema.keyword" "A JSON Schema keyword is outside the safe subset.";
    SchemaType "schema.type" "A schema has no type, or one outside the safe subset.";
    SchemaItems "schema.items" "An array has no items schema.";
    SchemaProperties "schema.properties" "properties is not an object of schemas.";
    SchemaRequired "schema.required" "required is not a list of declared property names.";
    SchemaEnum "schema.enum" "enum is not a non-empty list.";
    SchemaConstraint "schema.constraint" "The value of a schema keyword is not what the keyword takes.";
    SchemaName "schema.name" "A top-level parameter breaks the name rule; it is a placeholder too.";
    SugarEntry "sugar.entry" "An entry of the flat parameter list or text can't be read.";
    SugarType "sugar.type" "A flat parameter has a type the sugar does not have.";
    SugarDuplicate "sugar.duplicate" "A flat parameter stands twice.";
    SecretHeaderLiteral "secret_headers.literal" "A header named in secret_headers holds no {{secret.*}}.";
    SecretHeaderAbsent "secret_headers.absent" "secret_headers names a header that the request does not have.";
    Timeout "timeout.range" "The timeout is not a whole number of seconds from 1 to 600.";
    Path "path.invalid" "A path is neither RFC 9535 nor dotted names.";
    Extract "response.extract" "The extract is unknown, or its path does not fit it.";
    Halt "halt_when.invalid" "halt_when lacks a path, values, or has an unclear say.";
    Evidence "evidence.invalid" "The evidence declaration is not a kind or an object with one.";
    Approval "approval.invalid" "The approval is not never, always, once or {\"when\": CEL}.";
    EffectStatuses "effect.not_performed_on" "not_performed_on is no list of HTTP statuses from 300 to 599.";
    Effect "effect.transactional" "A sent request can't be rolled back, so a data tool is never transactional.";
    Protocol "protocol.invalid" "protocol and mcp do not go together, or the request is no call of the MCP tool.";
    IdempotencyHeader "idempotency.header" "idempotency_key_header is not a header the tool may send.";
    ManifestEndpoint "manifest.endpoint" "A manifest tool has neither a url nor the parts to build one.";
    ManifestEnv "manifest.env" "A {{env.*}} of the manifest has no value, or one that can't be used.";
    ManifestSecret "manifest.secret" "A {{secret.*}} of the manifest is not configured.";
    ManifestDuplicate "manifest.duplicate" "A manifest lists the same tool twice.";
    ShadowsCode "tool.shadows_code" "The name belongs to a tool compiled into the program, which wins every collision.";
    SkillFrontmatter "skill.frontmatter" "A SKILL.md has no frontmatter, or one that can't be read.";
    SkillName "skill.name" "The name of a skill is not that of its folder or row, or breaks the rule `^[a-z0-9][a-z0-9_-]*$` with 1 to 64 characters.";
    SkillDescription "skill.description" "A skill has no description; it is what the model reads to choose it.";
    SkillField "skill.field" "A field of a skill's frontmatter is not what it should be.";
    SkillBody "skill.body" "A skill has no text below its frontmatter, or one that is too long.";
    Pack "pack.invalid" "A pack has an unknown key, a part of the wrong type, or the same name twice.";
    AgentProfile "agent.profile" "An agent's profile has an unknown key or a value of the wrong type.";
}

/// One thing that is wrong, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// JSON Pointer (RFC 6901) into the input.
    pub pointer: String,
    /// The stable code.
    pub code: ProblemCode,
    /// A sentence for a person: what happened and how to mend it.
    pub message: String,
}

impl Serialize for Problem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = serializer.serialize_struct("Problem", 3)?;
        out.serialize_field("pointer", &self.pointer)?;
        out.serialize_field("code", self.code.as_str())?;
        out.serialize_field("message", &self.message)?;
        out.end()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "/" } else { &self.pointer };
        write!(f, "{place}: {} [{}]", self.message, self.code.as_str())
    }
}

/// Every problem of one definition; never empty when it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many problems there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn add(&mut self, pointer: impl Into<String>, code: ProblemCode, message: impl Into<String>) {
        self.0.push(Problem { pointer: pointer.into(), code, message: message.into() });
    }

    /// The same problems, seen from a document that holds the input at `prefix`.
    pub fn under(mut self, prefix: &str) -> Self {
        for problem in &mut self.0 {
            problem.pointer.insert_str(0, prefix);
        }
        self
    }

    /// `value` when nothing is wrong, else the problems.
    pub(crate) fn or<T>(self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                write!(f, "; ")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// The known name nearest to a mistyped one, when one is near enough to propose.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&typed, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
