//! Any JSON Schema in the safe subset.
//!
//! Tools of MCP servers come with schemas of every kind; providers and people take a small part of
//! JSON Schema. [`lower`] derives from an *original* the parameters that a model is shown. It only
//! ever **widens**: what the original accepts has a form that the lowered schema accepts, and
//! [`Lowered::restore`] gives exactly the original instance back. Each step is in the report.
//!
//! The way: the original is read into a shape (which kinds of JSON values there may be, and
//! what is known of each), in which `$ref`, `allOf`, `anyOf` and `oneOf` are gone; the shape is written
//! as a schema of the subset together with a codec that says how values of it are written.
//!
//! | original | lowered |
//! |---|---|
//! | local `$ref` | inlined; a recursion is cut after [`MAX_RECURSION`] rounds to a free object |
//! | `anyOf`, `oneOf`, type lists with null | the type alone, and the property is not required |
//! | `anyOf`, `oneOf` of objects | one object with all properties; those common to all are required |
//! | `const`, tags | `enum` |
//! | unions of scalars | a string; `5` and `true` in it are read as what they are |
//! | unions with lists or objects, `{}` | a string of JSON |
//! | `allOf`, keywords beside `$ref` | merged |
//! | tuples | a list |
//! | missing `items`, `properties` | filled |
//! | every other keyword | dropped |
//!
//! ```
//! use toolcrib_definition::lowering::lower;
//!
//! let original = toolcrib_definition::json::parse(br#"{
//!     "type": "object",
//!     "properties": {"id": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
//!     "required": ["id"]
//! }"#)?;
//! let lowered = lower(&original);
//! assert_eq!(lowered.parameters()["properties"]["id"]["type"], "string");
//! let sent = toolcrib_definition::json::parse(br#"{"id": "5"}"#)?;
//! let restored = lowered.restore(sent.as_object().unwrap());
//! assert_eq!(restored["id"], 5);
//! # Ok::<(), toolcrib_definition::json::JsonError>(())
//! ```

mod codec;
mod original;
mod read;
mod report;
mod shape;
mod write;

use serde_json::{Map, Value};

use self::codec::Codec;
use self::read::Reader;
use self::report::Steps;
use self::shape::Kinds;
use self::write::Writer;

pub(crate) use self::original::Original;
pub use self::original::compiles;
pub use self::report::{LoweringStep, StepKind};

/// How often a schema may contain itself before the rest is a free object.
pub const MAX_RECURSION: usize = 3;
/// How many schemas are read of one original; what is beyond is any value. A small text of references
/// can stand for a schema of any size.
pub const MAX_SCHEMAS: usize = 10_000;

/// A lowered schema, and the way back.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    parameters: Map<String, Value>,
    codec: Codec,
    steps: Vec<LoweringStep>,
}

/// Lowers the `inputSchema` of a tool. Never fails: what can't be read is any value, and the report
/// says so.
pub fn lower(original: &Value) -> Lowered {
    let mut steps = Steps::default();
    let mut shape = Reader::new(original, &mut steps).read_root();
    shape.kinds = Kinds { object: true, ..Kinds::none() };
    let (parameters, codec) = Writer::new(&mut steps).write_root(shape);
    Lowered { parameters, codec, steps: steps.into_list() }
}

impl Lowered {
    /// The schema in the safe subset.
    pub fn parameters(&self) -> &Map<String, Value> {
        &self.parameters
    }

    /// What was done, in the order of the original.
    pub fn steps(&self) -> &[LoweringStep] {
        &self.steps
    }

    /// The arguments as the original takes them. What is not in a lowered form is left as it is, for the
    /// original schema to judge.
    pub fn restore(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        match self.codec.restore(&Value::Object(arguments.clone())) {
            Value::Object(map) => map,
            _ => arguments.clone(),
        }
    }

    /// The other way: an instance of the original in its lowered form.
    pub fn encode(&self, instance: &Map<String, Value>) -> Map<String, Value> {
        match self.codec.encode(&Value::Object(instance.clone())) {
            Value::Object(map) => map,
            _ => instance.clone(),
        }
    }

    /// Whether arguments go on as they come.
    pub fn changes_nothing(&self) -> bool {
        self.codec == Codec::Same
    }
}
