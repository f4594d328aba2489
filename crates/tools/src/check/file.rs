//! The file that says how to talk to a target, as serde and editors see it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;

/// A target of `seckill check`: how a purchase is requested, and how its answers are told apart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetFile {
    /// Begin with what is known of `seckill`, `hmdp` or `lab`. A table that you write replaces the preset's;
    /// of `[purchase]` each key that you write does.
    pub preset: Option<String>,
    /// The nodes, as `http://host:port`, with a path in front of all paths if there is one. Double clicks
    /// go to all of them at once.
    pub addresses: Located<Vec<String>>,
    /// The voucher that is on sale. Not needed where `[sale]` can put new ones on sale.
    pub voucher: Option<Located<IdText>>,
    /// Where there are no tokens, or `[tokens.login]` fetches them: the number that is the first `{user}`.
    pub first_user: Option<u64>,
    /// The request of a purchase.
    pub purchase: Located<RequestTable>,
    /// Where the buyers' tokens come from.
    pub tokens: Option<Located<TokensTable>>,
    /// How answers are told apart: the first rule that fits decides.
    #[serde(default)]
    pub answer: Vec<Located<AnswerTable>>,
    /// How a buyer asks later, who heard `accepted`.
    pub later: Option<Located<LaterTable>>,
    /// What the database says.
    pub books: Option<Located<BooksTable>>,
    /// What is known of the sale, and how new vouchers are put on sale.
    pub sale: Option<Located<SaleTable>>,
}

/// A request. `{token}`, `{user}` and `{voucher}` are filled in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestTable {
    /// `POST` unless it says otherwise; of what is only asked `GET`.
    pub method: Option<Located<String>>,
    /// The path, with the query if there is one.
    pub path: Located<String>,
    /// Headers by name.
    #[serde(default)]
    pub headers: BTreeMap<String, Located<String>>,
    /// The body; JSON unless a `content-type` header says otherwise.
    pub body: Option<Located<String>>,
}

/// Where tokens come from: one of the three.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensTable {
    /// A CSV file with a header, relative to this file.
    pub csv: Option<Located<String>>,
    /// The column with the user's id; default `user_id`.
    pub user_column: Option<String>,
    /// The column with the token; default `token`.
    pub token_column: Option<String>,
    /// A file with a token on each line. The users are the numbers of the lines.
    pub lines: Option<Located<String>>,
    /// A request per user, from `first_user` on.
    pub login: Option<Located<LoginTable>>,
}

/// A login.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginTable {
    /// The request, with `{user}`.
    pub request: Located<RequestTable>,
    /// Where in the answer the token is: a JSON pointer.
    pub token: String,
}

/// A rule. All conditions that it has must be met.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerTable {
    /// What an answer that fits means.
    pub is: Meaning,
    /// The HTTP status, or a list of them.
    pub status: Option<OneOrMany<u16>>,
    /// Where in the JSON body to look, such as `/data/code`.
    pub pointer: Option<String>,
    /// The value that is there.
    #[schemars(with = "Option<ScalarSchema>")]
    pub equals: Option<Value>,
    /// The values, of which one is there.
    #[schemars(with = "Option<Vec<ScalarSchema>>")]
    pub one_of: Option<Vec<Value>>,
    /// A text that is in the value there, or a list of such texts; without a pointer, in the whole body.
    pub contains: Option<OneOrMany<String>>,
    /// Whether there is a value that is not null.
    pub present: Option<bool>,
    /// Where in the JSON body the order's id is.
    pub order: Option<String>,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// Yes: the buyer has an order.
    Ordered,
    /// The request is queued: `[later]` says how to ask what became of it.
    Accepted,
    /// Nothing is left.
    SoldOut,
    /// The buyer has an order already.
    AlreadyBought,
    /// Another attempt of the same buyer is under way.
    OrderInProgress,
    /// The sale has not begun.
    SaleNotStarted,
    /// The sale is over.
    SaleEnded,
    /// The server is too busy to say.
    Unavailable,
}

/// Asking later.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaterTable {
    /// The request.
    pub request: Located<RequestTable>,
    /// How long buyers go on asking; default `30s`.
    pub within: Option<DurationText>,
    /// The rules. `accepted`, `unavailable` and `order_in_progress` mean: ask again.
    #[serde(default)]
    pub answer: Vec<Located<AnswerTable>>,
}

/// The books: a command or a request whose output is JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BooksTable {
    /// Run by `sh -c` in the directory of this file, with `VOUCHER` and `ADDRESS` in its environment. It
    /// prints `{"orders": 3, "users": 3, "stock": 97}`.
    pub command: Option<Located<String>>,
    /// A request to the first address in its place.
    pub request: Option<Located<RequestTable>>,
    /// Where the number of orders is; default `/orders`.
    pub orders: Option<String>,
    /// Where the number of different users among them is; default `/users`. It may be missing.
    pub users: Option<String>,
    /// Where the stock that is left is; default `/stock`. It may be missing.
    pub stock: Option<String>,
    /// Where a list of `{"order": …, "user": …}` is, for exact witnesses; default `/list`. It may be missing.
    pub list: Option<String>,
    /// How long they must stay as they are to be final; default `1s`.
    pub quiet: Option<DurationText>,
    /// How long they are waited for, and the longest that one look at them takes; default `30s`.
    pub within: Option<DurationText>,
}

/// The sale.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaleTable {
    /// The stock: of `voucher` as it was put on sale, or of each new one in the rush (default 100).
    pub stock: Option<Located<u32>>,
    /// Puts a voucher on sale and prints its id, a new one each time. Run by `sh -c` with `STOCK` and `ADDRESS`
    /// in its environment.
    pub command: Option<Located<String>>,
    /// A request to the first address in its place, with `{stock}`.
    pub request: Option<Located<RequestTable>>,
    /// Where in the answer to the request the id is; default `/data`.
    pub voucher: Option<String>,
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
        let id = load::answer_rules::id(&value);
        id.map(Self).ok_or_else(|| de::Error::custom("it is neither a text nor a whole number"))
    }
}

impl JsonSchema for IdText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "IdText".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
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

impl JsonSchema for DurationText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "DurationText".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)" })
    }
}

/// What a JSON value that is compared may be.
struct ScalarSchema;

impl JsonSchema for ScalarSchema {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ScalarSchema".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}
