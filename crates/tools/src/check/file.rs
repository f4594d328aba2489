//! The file that says how to talk to a target, as serde and editors see it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::values::{
    DurationText, IdList, IdText, Located, OneOrMany, PerUser, PlaceText, ScalarSchema,
};

/// A target of `seckill check`: how a purchase is requested, and how its answers are told apart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetFile {
    /// Begin with what is known of `seckill`, `hmdp` or `lab`. A table that you write replaces the preset's;
    /// of `[purchase]` and `[later]` each key that you write does, and your rules come before the preset's.
    pub preset: Option<String>,
    /// The nodes, as `http://host:port`, with a path in front of all paths if there is one. Double clicks
    /// go to all of them at once.
    pub addresses: Located<Vec<String>>,
    /// The voucher that is on sale. Not needed where `[sale]` can put new ones on sale.
    pub voucher: Option<Located<IdText>>,
    /// Where there are no tokens, or `[tokens.login]` fetches them: the number that is the first `{user}`.
    pub first_user: Option<u64>,
    /// How many orders one buyer may have: a number, or `"none"` where there is no such rule; default 1.
    pub per_user: Option<Located<PerUser>>,
    /// Vouchers that must sell nothing: their sale is over, or has not begun.
    #[serde(default)]
    pub closed: Vec<IdText>,
    /// How long the buyers wait before each crowd, where a shop limits how often one may try.
    pub pause: Option<DurationText>,
    /// The requests that come before `[purchase]` in every attempt, in their order.
    #[serde(default)]
    pub step: Vec<Located<RequestTable>>,
    /// The request of a purchase: the last of an attempt, whose answer decides.
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

/// A request. `{token}`, `{user}`, `{voucher}` and what earlier steps take are filled in.
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
    /// In a `[[step]]`: what the answer gives to later requests, and where it stands, as `{ code = "/data/code" }`
    /// for `{code}`.
    #[serde(default)]
    pub take: BTreeMap<String, Located<PlaceText>>,
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
    /// Where in the answer the token is: a JSON pointer, a header or a cookie.
    pub token: PlaceText,
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
    /// The header to look at, such as `location`.
    pub header: Option<String>,
    /// The value that is there.
    #[schemars(with = "Option<ScalarSchema>")]
    pub equals: Option<Value>,
    /// The values, of which one is there.
    #[schemars(with = "Option<Vec<ScalarSchema>>")]
    pub one_of: Option<Vec<Value>>,
    /// A text that is in the value there, or a list of such texts; without pointer and header, in the whole body.
    pub contains: Option<OneOrMany<String>>,
    /// Whether there is a value that is not null.
    pub present: Option<bool>,
    /// Where the order's id is: a JSON pointer, a header or a cookie. In `[later]` it is `{order}`.
    pub order: Option<PlaceText>,
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
    /// No, for a reason that says nothing of stock and orders: a limit of the rate, a captcha.
    Refused,
    /// The buyer's order was made, and cancelled by time.
    Cancelled,
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
    /// Where a list of `{"order": …, "user": …}` is, for exact witnesses; default `/list`. It may be
    /// missing. A cancelled order, which does not count, has `"state": "cancelled"`.
    pub list: Option<String>,
    /// Where the number of cancelled orders is, which are not among `orders`; default `/cancelled`. It may be missing.
    pub cancelled: Option<String>,
    /// After so long an order that is not paid may be cancelled: such an order is not lost.
    pub expire: Option<DurationText>,
    /// How long they must stay as they are to be final; default `1s`, and `10s` where there is `[later]` or orders
    /// come behind the answers.
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
    /// Or vouchers that are on sale already, of which each crowd gets one: a list, or `"1..60"`. A shop's items.
    pub vouchers: Option<Located<IdList>>,
}
