//! A voucher that is put on sale, and what changes of one: what may be said, as JSON and otherwise.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::draw::{BEACON, Beacon};
use super::line::check_hours;
use super::schemas::{Amount, PayWithin, SaleInstant, Subtitle, Terms, Title};
use super::whole_number::{maybe_whole_number, whole_number};

/// The longest title and subtitle, in characters.
const MAX_LINE: usize = 200;
/// The longest terms, in characters.
const MAX_TERMS: usize = 2000;
/// The highest price or value: a JavaScript number holds a thousand times as much.
pub(super) const MAX_AMOUNT: i64 = 1_000_000_000_000;
/// How long a buyer has to pay when nothing is said: 15 minutes.
pub const DEFAULT_PAY_WITHIN_S: i32 = 900;
/// The longest time to pay within: 30 days.
pub const MAX_PAY_WITHIN_S: i32 = 2_592_000;
/// How many entries a sale may have at most, and the default. To read as many for a draw took five seconds on a busy machine.
pub const MAX_ENTRIES: i32 = 1_000_000;
/// How long a sale lasts when nothing is said.
const DEFAULT_SALE: TimeDelta = TimeDelta::hours(24);

/// A voucher to put on sale.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = VoucherCreationBody)]
#[serde(deny_unknown_fields)]
pub struct NewVoucher {
    /// The name of the voucher.
    #[schema(value_type = Title)]
    pub title: String,
    /// A second line, of at most 200 characters.
    #[schema(value_type = Option<Subtitle>)]
    pub subtitle: Option<String>,
    /// The conditions, of at most 2000 characters.
    #[schema(value_type = Option<Terms>)]
    pub terms: Option<String>,
    /// What the voucher is worth, in the currency's smallest unit: for people.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub value: Option<i64>,
    /// What it costs, in the currency's smallest unit; nothing when left out.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub price: Option<i64>,
    /// An order that is not paid after so many seconds is cancelled; 900 when left out.
    #[schema(value_type = Option<PayWithin>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub pay_within_s: Option<i32>,
    /// How many.
    #[schema(minimum = 0, maximum = 2_147_483_647, example = 100)]
    #[serde(deserialize_with = "whole_number")]
    pub stock: i32,
    /// First instant of the sale; now when left out.
    #[schema(value_type = Option<SaleInstant>)]
    #[serde(default, deserialize_with = "maybe_instant")]
    pub begin_time: Option<DateTime<Utc>>,
    /// First instant after the sale, later than the first; 24 hours after it when left out.
    #[schema(value_type = Option<SaleInstant>)]
    #[serde(default, deserialize_with = "maybe_instant")]
    pub end_time: Option<DateTime<Utc>>,
    /// True: once it is sold out, buyers may stand in line for what comes back.
    pub line: Option<bool>,
    /// When the entries of a draw close, within the sale. Left out: whoever comes first is served first.
    #[schema(value_type = Option<SaleInstant>)]
    #[serde(default, deserialize_with = "maybe_instant")]
    pub draw_time: Option<DateTime<Utc>>,
    /// The source of a public number that goes into the draw, and the moment after `draw_time` at which it publishes it:
    /// `drand:quicknet:ROUND` or `NAME@TIME`.
    #[schema(value_type = Option<Subtitle>, example = "the lottery@2026-11-12T21:15:00+08:00")]
    pub draw_beacon: Option<String>,
    /// How many may enter its draw or stand in line, those who left included; 1000000 when left out.
    #[schema(minimum = 1, maximum = 1_000_000)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub max_entries: Option<i32>,
    /// Offers to its line, and to those whom a draw found, are made between these times of day, with the offset from UTC; at any time when left
    /// out. The time to pay begins with the offer.
    #[schema(value_type = Option<Subtitle>, example = "08:00-22:00+08:00")]
    pub offer_between: Option<String>,
}

/// What is to change of a voucher. What is left out, or null, stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = VoucherChangeBody)]
#[serde(deny_unknown_fields)]
pub struct VoucherChange {
    /// The name of the voucher.
    #[schema(value_type = Option<Title>)]
    pub title: Option<String>,
    /// A second line, of at most 200 characters.
    #[schema(value_type = Option<Subtitle>)]
    pub subtitle: Option<String>,
    /// The conditions, of at most 2000 characters.
    #[schema(value_type = Option<Terms>)]
    pub terms: Option<String>,
    /// What the voucher is worth, in the currency's smallest unit: for people.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub value: Option<i64>,
    /// What an order costs from now on, in the currency's smallest unit. Orders that were placed cost what
    /// they cost.
    #[schema(value_type = Option<Amount>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub price: Option<i64>,
    /// How many seconds the buyer of an order has to pay from now on.
    #[schema(value_type = Option<PayWithin>)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub pay_within_s: Option<i32>,
    /// How many are put on sale in all, those that are sold included. The same request twice adds nothing.
    #[schema(minimum = 0, maximum = 2_147_483_647, example = 150)]
    #[serde(default, deserialize_with = "maybe_whole_number")]
    pub initial_stock: Option<i32>,
    /// So many more, or fewer of those that are not sold. No client may say it: the same request twice counts twice.
    #[serde(skip)]
    pub more_stock: i32,
    /// First instant of the sale.
    #[schema(value_type = Option<SaleInstant>)]
    #[serde(default, deserialize_with = "maybe_instant")]
    pub begin_time: Option<DateTime<Utc>>,
    /// First instant after the sale.
    #[schema(value_type = Option<SaleInstant>)]
    #[serde(default, deserialize_with = "maybe_instant")]
    pub end_time: Option<DateTime<Utc>>,
    /// True stops the sale for a while, false lets it go on.
    pub paused: Option<bool>,
}

/// `at` as the database will keep it: what it would round away makes no sale longer.
pub fn to_the_microsecond(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap_or(at)
}

fn maybe_instant<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(to_the_microsecond))
}

impl NewVoucher {
    /// A voucher that costs nothing.
    pub fn free(
        title: impl Into<String>,
        stock: i32,
        begin_time: DateTime<Utc>,
        end_time: DateTime<Utc>,
    ) -> Self {
        let (begin_time, end_time) = (Some(begin_time), Some(end_time));
        Self { title: title.into(), stock, begin_time, end_time, ..Self::default() }
    }

    /// The first instant of its sale, and the first after it, if it is put on sale at `now`.
    pub fn window(&self, now: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
        let begin = self.begin_time.unwrap_or(now);
        let usual_end = || begin.checked_add_signed(DEFAULT_SALE).unwrap_or(begin);
        (begin, self.end_time.unwrap_or_else(usual_end))
    }

    /// Checks it as the database does, and that people can read it; says in one sentence what is wrong.
    pub fn check(&self, now: DateTime<Utc>) -> Result<(), &'static str> {
        if self.draw_beacon.is_some() && self.draw_time.is_none() {
            return Err("draw_beacon needs a draw_time");
        }
        if self.line == Some(false) && self.draw_time.is_some() {
            return Err("a draw has a line: line must not be false");
        }
        let (begin, end) = self.window(now);
        if self.draw_time.is_some_and(|time| time <= begin || time >= end) {
            return Err("draw_time must lie between begin_time and end_time");
        }
        if let Some(text) = self.draw_beacon.as_deref().filter(|text| !text.is_empty()) {
            let is_readable = text.chars().count() <= MAX_LINE && !text.contains(is_unseen);
            let beacon = Beacon::read(text).filter(|_| is_readable).ok_or(BEACON)?;
            if Some(beacon.at) <= self.draw_time || beacon.at >= end {
                return Err("the moment of draw_beacon must lie between draw_time and end_time");
            }
        }
        if self.max_entries.is_some_and(|most| !(1..=MAX_ENTRIES).contains(&most)) {
            return Err("max_entries must be 1 to 1000000");
        }
        if let Some(hours) = self.offer_between.as_deref() {
            if self.line != Some(true) && self.draw_time.is_none() {
                return Err("offer_between needs a line or a draw_time");
            }
            check_hours(hours)?;
        }
        check_texts(Some(&self.title), self.subtitle.as_deref(), self.terms.as_deref())?;
        check_numbers([self.price, self.value], self.pay_within_s, Some(self.stock))?;
        check_window(Some(begin), Some(end))
    }
}

impl VoucherChange {
    /// Checks it as the database does, and says in one sentence what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        check_texts(self.title.as_deref(), self.subtitle.as_deref(), self.terms.as_deref())?;
        check_numbers([self.price, self.value], self.pay_within_s, self.initial_stock)?;
        check_window(self.begin_time, self.end_time)
    }
}

/// The first and the last of the characters that nobody sees, or that turn what stands around them: two titles that differ in
/// such characters look alike. The control characters come first.
pub(super) const UNSEEN: [(char, char); 13] = [
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{e0000}', '\u{e0fff}'),
];

pub(super) fn is_unseen(c: char) -> bool {
    UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Checks why an entry is removed, which is published.
pub fn check_reason(reason: &str) -> Result<(), &'static str> {
    let is_readable = !reason.trim().is_empty()
        && reason.chars().count() <= MAX_LINE
        && !reason.contains(is_unseen);
    is_readable.then_some(()).ok_or(
        "reason must have 1 to 200 characters, none of which is a control, zero-width or direction-changing one",
    )
}

fn check_texts(
    title: Option<&str>,
    subtitle: Option<&str>,
    terms: Option<&str>,
) -> Result<(), &'static str> {
    let is_long = |text: Option<&str>, most| text.is_some_and(|text| text.chars().count() > most);
    if title.is_some_and(|title| title.trim().is_empty()) || is_long(title, MAX_LINE) {
        return Err("title must have 1 to 200 characters");
    }
    if is_long(subtitle, MAX_LINE) {
        return Err("subtitle must have at most 200 characters");
    }
    if is_long(terms, MAX_TERMS) {
        return Err("terms must have at most 2000 characters");
    }
    // PostgreSQL takes no NUL; no other control character can be read, and a terminal obeys some.
    if title.is_some_and(|title| title.contains(is_unseen)) {
        return Err("title must not contain a control, zero-width or direction-changing character");
    }
    if subtitle.is_some_and(|subtitle| subtitle.contains(is_unseen)) {
        return Err(
            "subtitle must not contain a control, zero-width or direction-changing character",
        );
    }
    let is_wrong = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if terms.is_some_and(|terms| terms.contains(is_wrong)) {
        return Err("terms must not contain a control character but line breaks and tabs");
    }
    Ok(())
}

fn check_numbers(
    [price, value]: [Option<i64>; 2],
    pay_within_s: Option<i32>,
    stock: Option<i32>,
) -> Result<(), &'static str> {
    let is_amount = |amount: Option<i64>| amount.is_none_or(|it| (0..=MAX_AMOUNT).contains(&it));
    if !is_amount(price) {
        return Err("price must be 0 to 1000000000000");
    }
    if !is_amount(value) {
        return Err("value must be 0 to 1000000000000");
    }
    if pay_within_s.is_some_and(|seconds| !(1..=MAX_PAY_WITHIN_S).contains(&seconds)) {
        return Err("pay_within_s must be 1 to 2592000 (30 days)");
    }
    if stock.is_some_and(|stock| stock < 0) {
        return Err("stock must not be negative");
    }
    Ok(())
}

fn check_window(
    begin: Option<DateTime<Utc>>,
    end: Option<DateTime<Utc>>,
) -> Result<(), &'static str> {
    let sensible = DateTime::<Utc>::UNIX_EPOCH.timestamp()..253_402_300_800;
    if [begin, end].into_iter().flatten().any(|at| !sensible.contains(&at.timestamp())) {
        return Err("begin_time and end_time must lie between the years 1970 and 9999");
    }
    if begin.zip(end).is_some_and(|(begin, end)| begin >= end) {
        return Err("begin_time must lie before end_time");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_only_what_people_see() {
        let title = |text: &str| {
            VoucherChange { title: Some(text.to_owned()), ..VoucherChange::default() }.check()
        };
        for unseen in UNSEEN.into_iter().flat_map(|(first, last)| [first, last]).chain(['\n']) {
            let answer = title(&format!("a{unseen}b"));
            let is_told = |why: &&str| why.contains("zero-width or direction-changing");
            assert!(answer.as_ref().is_err_and(is_told), "{unseen:?}: {answer:?}");
        }
        // Their neighbours.
        let seen = "\u{115e}\u{1161}\u{200a}\u{2010}\u{202f}\u{205f}\u{2070}\u{3163}\u{3165}\u{fefe}\u{fe0f}\u{ff9f}\
                    \u{ffa1}\u{dffff}\u{e1000}";
        for seen in seen.chars() {
            assert_eq!(title(&format!("a{seen}b")), Ok(()), "{seen:?}");
        }
        for (text, is_right) in [("", false), (" \t\n", false), ("x", true)] {
            assert_eq!(title(text).is_ok(), is_right, "{text:?}");
        }
        for character in ["x", "优", "🎫"] {
            assert_eq!(title(&character.repeat(200)), Ok(()));
            assert!(title(&character.repeat(201)).is_err());
        }
    }

    #[test]
    fn null_counts_as_left_out_and_no_client_adds_stock() {
        let change = |json: &str| serde_json::from_str::<VoucherChange>(json).ok();
        let nothing =
            r#"{"title":null,"price":null,"initial_stock":null,"end_time":null,"paused":null}"#;
        assert_eq!(change(nothing), Some(VoucherChange::default()));
        let more = VoucherChange { initial_stock: Some(100), ..VoucherChange::default() };
        assert_eq!(change(r#"{"initial_stock":100.0}"#), Some(more));
        assert_eq!(change(r#"{"more_stock":1}"#), None);
        let new =
            r#"{"title":"x","stock":1.0,"price":null,"terms":null,"begin_time":null,"line":null}"#;
        let now = DateTime::UNIX_EPOCH;
        let new = serde_json::from_str::<NewVoucher>(new).ok();
        assert!(new.is_some_and(
            |new| new.check(now) == Ok(()) && new.window(now) == (now, now + DEFAULT_SALE)
        ));
    }

    #[test]
    fn texts_and_numbers_have_their_bounds() {
        let same = VoucherChange::default;
        let text = |text: &str| Some(text.to_owned());
        for (wrong, word) in [
            (VoucherChange { subtitle: text(&"x".repeat(MAX_LINE + 1)), ..same() }, "subtitle"),
            (VoucherChange { subtitle: text("a\tb"), ..same() }, "subtitle"),
            (VoucherChange { subtitle: text("a\u{200b}b"), ..same() }, "subtitle"),
            (VoucherChange { terms: text(&"x".repeat(MAX_TERMS + 1)), ..same() }, "terms"),
            (VoucherChange { terms: text("a\0b"), ..same() }, "terms"),
            (VoucherChange { terms: text("a\u{7}b"), ..same() }, "terms"),
            (VoucherChange { terms: text("a\u{b}b"), ..same() }, "terms"),
            (VoucherChange { price: Some(-1), ..same() }, "price"),
            (VoucherChange { price: Some(MAX_AMOUNT + 1), ..same() }, "price"),
            (VoucherChange { value: Some(-1), ..same() }, "value"),
            (VoucherChange { pay_within_s: Some(0), ..same() }, "pay_within_s"),
            (VoucherChange { pay_within_s: Some(MAX_PAY_WITHIN_S + 1), ..same() }, "pay_within_s"),
            (VoucherChange { initial_stock: Some(-1), ..same() }, "stock"),
        ] {
            assert!(wrong.check().is_err_and(|why| why.starts_with(word)), "{wrong:?}");
        }
        let most = VoucherChange {
            subtitle: text(&"x".repeat(MAX_LINE)),
            terms: text("two\r\n\tlines"),
            value: Some(0),
            price: Some(MAX_AMOUNT),
            pay_within_s: Some(MAX_PAY_WITHIN_S),
            initial_stock: Some(i32::MAX),
            ..same()
        };
        assert_eq!(most.check(), Ok(()));
    }
}
