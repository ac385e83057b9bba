//! Values that people write in more than one way.

use serde::{Deserialize, Serialize};
use toolcrib_store::Location;

/// A switch: true, false, 1, 0, yes, no, on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Scalar::deserialize(deserializer)?.0.to_ascii_lowercase();
        match text.as_str() {
            "true" | "1" | "yes" | "on" => Ok(Flag(true)),
            "false" | "0" | "no" | "off" | "" => Ok(Flag(false)),
            other => Err(serde::de::Error::custom(format!("{other:?} is no switch: write true or false"))),
        }
    }
}

/// Where a database is. It is shown without its password.
#[derive(Clone)]
pub struct DatabaseUrl(pub Location);

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.shown())
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.shown())
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// A list, or text with commas.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct List(pub Vec<String>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = List;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list, or text with commas")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<List, E> {
                Ok(List(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<List, E> {
                Ok(List(vec![number.to_string()]))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<List, E> {
                Ok(List(vec![number.to_string()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<List, A::Error> {
                let mut list = Vec::new();
                while let Some(Scalar(text)) = seq.next_element()? {
                    list.push(text);
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A scalar as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number or a switch")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar(flag.to_string()))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
