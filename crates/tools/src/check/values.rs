//! Values of a target's file that are more than TOML has: ids, places, durations, each with where it stands.

use std::borrow::Cow;
use std::time::Duration;

use load::place::{AnswerPart, Place, id};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;

/// How many orders one buyer may have. `None`: any number.
#[derive(Debug, Clone, Copy)]
pub struct PerUser(pub Option<u32>);

/// The most that a limit may be.
const HIGHEST_LIMIT: u64 = 1_000;

impl<'de> Deserialize<'de> for PerUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match (value.as_str(), value.as_u64()) {
            (Some("none"), _) => Ok(Self(None)),
            (_, Some(most @ 1..=HIGHEST_LIMIT)) => Ok(Self(Some(most as u32))),
            _ => Err(de::Error::custom("it is neither a number from 1 to 1000 nor \"none\"")),
        }
    }
}

/// Ids, one by one or as a range of numbers.
#[derive(Debug, Clone)]
pub struct IdList(pub Vec<String>);

/// The most ids in a list.
const LONGEST_LIST: u64 = 10_000;

impl<'de> Deserialize<'de> for IdList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let range = |text: &str| {
            let (first, last) = text.split_once("..")?;
            let (first, last) =
                (first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
            let is_short = last.checked_sub(first).is_some_and(|more| more < LONGEST_LIST);
            is_short.then(|| (first..=last).map(|id| id.to_string()).collect())
        };
        let ids: Option<Vec<String>> = match &value {
            Value::Array(ids) => ids.iter().map(id).collect(),
            Value::String(text) => range(text),
            _ => None,
        };
        let ids = ids.filter(|ids| (1..=LONGEST_LIST).contains(&(ids.len() as u64)));
        ids.map(Self).ok_or_else(|| {
            de::Error::custom(
                "it is neither a list of 1 to 10000 ids nor a range such as \"1..60\"",
            )
        })
    }
}

/// Where in an answer a value stands: a JSON pointer as a text, or a table.
#[derive(Debug, Clone)]
pub struct PlaceText(pub Place);

/// The same as a table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceTable {
    /// In the body: a JSON pointer; the empty one is the whole body, also where it is no JSON.
    pub pointer: Option<String>,
    /// In this header.
    pub header: Option<String>,
    /// In the cookie of this name that the answer sets.
    pub cookie: Option<String>,
    /// The value begins behind this text.
    pub after: Option<String>,
    /// The value ends before this text.
    pub until: Option<String>,
}

impl<'de> Deserialize<'de> for PlaceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = match Value::deserialize(deserializer)? {
            Value::String(pointer) => serde_json::json!({ "pointer": pointer }),
            table => table,
        };
        let table = serde_json::from_value::<PlaceTable>(table).map_err(de::Error::custom)?;
        let PlaceTable { pointer, header, cookie, after, until } = table;
        let part = match (pointer, header, cookie) {
            (Some(pointer), None, None) if pointer.is_empty() || pointer.starts_with('/') => {
                AnswerPart::Pointer(pointer)
            }
            (Some(pointer), None, None) => {
                let why = format!("{pointer:?} is no JSON pointer: it begins with a slash");
                return Err(de::Error::custom(why));
            }
            (None, Some(header), None) => {
                let name = header.parse();
                let why = || de::Error::custom(format!("{header:?} is no name of a header"));
                AnswerPart::Header(name.map_err(|_| why())?)
            }
            (None, None, Some(cookie)) => AnswerPart::Cookie(cookie),
            _ => return Err(de::Error::custom("it needs one of pointer, header and cookie")),
        };
        Ok(Self(Place { part, after, until }))
    }
}

/// A value, and the bytes of the file that it stands in.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The offset at which it begins.
    pub at: usize,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        let at = spanned.span().start;
        Ok(Self { value: spanned.into_inner(), at })
    }
}

impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// One value, or a list.
#[derive(Debug, Clone)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = match Value::deserialize(deserializer)? {
            Value::Array(values) => values,
            one => vec![one],
        };
        let all = values.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        all.map(Self).map_err(de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (one, many) = (generator.subschema_for::<T>(), generator.subschema_for::<Vec<T>>());
        json_schema!({ "anyOf": [one, many] })
    }
}

/// A text or a whole number that names something.
#[derive(Debug, Clone)]
pub struct IdText(pub String);

impl<'de> Deserialize<'de> for IdText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let id = id(&value);
        id.map(Self).ok_or_else(|| de::Error::custom("it is neither a text nor a whole number"))
    }
}

/// A duration such as `30s`.
#[derive(Debug, Clone, Copy)]
pub struct DurationText(pub Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = humantime::parse_duration(&text)
            .map_err(|_| de::Error::custom(format!("{text:?} is no duration such as \"30s\"")))?;
        Ok(Self(duration))
    }
}

/// What a JSON value that is compared may be.
pub struct ScalarSchema;

/// A schema that stands where it is used.
macro_rules! inline_schema {
    ($type:ident, $generator:ident => $schema:expr) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

inline_schema!(PerUser, _generator => json_schema!({ "anyOf": [
    { "type": "integer", "minimum": 1, "maximum": HIGHEST_LIMIT }, { "const": "none" }
] }));
inline_schema!(IdList, _generator => json_schema!({ "anyOf": [
    { "type": "array", "items": { "type": ["string", "integer"] }, "minItems": 1 },
    { "type": "string", "pattern": "^[0-9]+ *\\.\\. *[0-9]+$" }
] }));
inline_schema!(PlaceText, generator => json_schema!({ "anyOf": [
    { "type": "string", "pattern": "^(/|$)" }, generator.subschema_for::<PlaceTable>()
] }));
inline_schema!(IdText, _generator => json_schema!({ "type": ["string", "integer"] }));
inline_schema!(DurationText, _generator => {
    json_schema!({ "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)" })
});
inline_schema!(ScalarSchema, _generator => json_schema!({ "type": ["string", "number", "boolean"] }));
