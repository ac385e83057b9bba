//! The JSON Schema of a Rust type, in the safe subset.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Derives the schema of an argument type: everything inlined, an `Option` as its inner type (it is
/// left out of `required` already), and no `$schema`.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.push(Box::new(WithoutNull));
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Drops `null` from unions, since a null argument is an absent one.
#[derive(Debug, Clone)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(map) = schema.as_object_mut() else { return };
        if let Some(Value::Array(types)) = map.get("type") {
            let kept: Vec<&Value> = types.iter().filter(|kind| *kind != "null").collect();
            if let [one] = kept.as_slice() {
                let one = (*one).clone();
                map.insert("type".into(), one);
            }
        }
        if let Some(Value::Array(variants)) = map.get("anyOf") {
            let is_null = |variant: &Value| variant.get("type").is_some_and(|kind| kind == "null");
            let kept: Vec<&Value> = variants.iter().filter(|variant| !is_null(variant)).collect();
            if let [Value::Object(one)] = kept.as_slice() {
                let one = one.clone();
                map.remove("anyOf");
                for (key, value) in one {
                    map.entry(key).or_insert(value);
                }
            }
        }
        if map.get("enum").and_then(Value::as_array).is_some_and(|values| values.contains(&Value::Null))
            && let Some(Value::Array(values)) = map.get_mut("enum")
        {
            values.retain(|value| !value.is_null());
        }
        if map.get("default") == Some(&Value::Null) {
            map.remove("default");
        }
    }
}
