//! What a voucher that is put on sale or changed may say.

use chrono::{DateTime, Utc};

/// The longest subtitle and terms, in characters.
const MAX_SUBTITLE: usize = 200;
const MAX_TERMS: usize = 2000;
/// The highest price or value: a JavaScript number holds a thousand times as much.
pub const MAX_AMOUNT: i64 = 1_000_000_000_000;
/// How long a buyer has to pay when nothing is said: 15 minutes.
pub const DEFAULT_PAY_WITHIN_S: i32 = 900;
/// The longest time to pay within: 30 days.
pub const MAX_PAY_WITHIN_S: i32 = 2_592_000;

/// A voucher that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewVoucher {
    /// The name of the voucher.
    pub title: String,
    /// A second line for people; may be empty.
    pub subtitle: String,
    /// The conditions, for people; may be empty.
    pub terms: String,
    /// What it is worth, for people.
    pub value: Option<i64>,
    /// In the currency's smallest unit; 0: free.
    pub price: i64,
    /// An order that is not paid after so many seconds is cancelled.
    pub pay_within_s: i32,
    /// How many, not negative.
    pub stock: i32,
    /// First instant of the sale.
    pub begin_time: DateTime<Utc>,
    /// First instant after the sale; after `begin_time`.
    pub end_time: DateTime<Utc>,
    /// Whether buyers may stand in line once it is sold out. A draw has a line.
    pub has_line: bool,
    /// How it is drawn, where it is.
    pub draw: Option<NewDraw>,
}

/// A draw that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewDraw {
    /// When the entries close; after the beginning of the sale and before its end.
    pub time: DateTime<Utc>,
    /// The source and the time of a public number that goes into it; empty: there is none.
    pub beacon: String,
}

impl NewVoucher {
    /// A voucher that costs nothing.
    pub fn free(
        title: impl Into<String>,
        stock: i32,
        begin_time: DateTime<Utc>,
        end_time: DateTime<Utc>,
    ) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            terms: String::new(),
            value: None,
            price: 0,
            pay_within_s: DEFAULT_PAY_WITHIN_S,
            stock,
            begin_time,
            end_time,
            has_line: false,
            draw: None,
        }
    }

    /// Checks it as the database does, and that people can read it; says in one sentence what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let Self { begin_time, end_time, .. } = *self;
        if let Some(NewDraw { time, beacon }) = &self.draw {
            if *time <= begin_time || *time >= end_time {
                return Err("draw_time must lie between begin_time and end_time");
            }
            if beacon.chars().count() > MAX_SUBTITLE || beacon.contains(is_unseen) {
                return Err(
                    "draw_beacon must have at most 200 characters, none of which is a control, zero-width or \
                            direction-changing one",
                );
            }
        }
        VoucherChange {
            title: Some(self.title.clone()),
            subtitle: Some(self.subtitle.clone()),
            terms: Some(self.terms.clone()),
            value: self.value,
            price: Some(self.price),
            pay_within_s: Some(self.pay_within_s),
            stock: Some(StockChange::InitialStock(self.stock)),
            begin_time: Some(begin_time),
            end_time: Some(end_time),
            paused: None,
        }
        .check()
    }
}

/// How the stock of a voucher changes. What is sold stays sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StockChange {
    /// So many were put on sale in all.
    InitialStock(i32),
    /// So many more, or fewer of those that are not sold.
    By(i32),
}

/// What changes of a voucher. What is `None` stays.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)] // as those of `Voucher`
pub struct VoucherChange {
    pub title: Option<String>,
    pub subtitle: Option<String>,
    pub terms: Option<String>,
    pub value: Option<i64>,
    pub price: Option<i64>,
    pub pay_within_s: Option<i32>,
    pub stock: Option<StockChange>,
    pub begin_time: Option<DateTime<Utc>>,
    pub end_time: Option<DateTime<Utc>>,
    pub paused: Option<bool>,
}

/// Whether nobody sees `c`, or it turns what stands around it: two titles that differ in such characters look alike.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}')
}

impl VoucherChange {
    /// Checks it as the database does, and says in one sentence what is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let sensible = DateTime::<Utc>::UNIX_EPOCH.timestamp()..253_402_300_800;
        let is_long = |text: &Option<String>, most| {
            text.as_ref().is_some_and(|text| text.chars().count() > most)
        };
        let is_amount =
            |amount: Option<i64>| amount.is_none_or(|it| (0..=MAX_AMOUNT).contains(&it));
        if self.title.as_ref().is_some_and(|title| title.trim().is_empty())
            || is_long(&self.title, 200)
        {
            return Err("title must have 1 to 200 characters");
        }
        if is_long(&self.subtitle, MAX_SUBTITLE) {
            return Err("subtitle must have at most 200 characters");
        }
        if is_long(&self.terms, MAX_TERMS) {
            return Err("terms must have at most 2000 characters");
        }
        // PostgreSQL takes no NUL; no other control character can be read, and a terminal obeys some.
        let holds = |text: &Option<String>, is_wrong: fn(char) -> bool| {
            text.as_ref().is_some_and(|text| text.contains(is_wrong))
        };
        if holds(&self.title, is_unseen) {
            return Err(
                "title must not contain a control, zero-width or direction-changing character",
            );
        }
        if holds(&self.subtitle, is_unseen) {
            return Err(
                "subtitle must not contain a control, zero-width or direction-changing character",
            );
        }
        if holds(&self.terms, |c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            return Err("terms must not contain a control character but line breaks and tabs");
        }
        if !is_amount(self.price) {
            return Err("price must be 0 to 1000000000000");
        }
        if !is_amount(self.value) {
            return Err("value must be 0 to 1000000000000");
        }
        if self.pay_within_s.is_some_and(|seconds| !(1..=MAX_PAY_WITHIN_S).contains(&seconds)) {
            return Err("pay_within_s must be 1 to 2592000 (30 days)");
        }
        if matches!(self.stock, Some(StockChange::InitialStock(stock)) if stock < 0) {
            return Err("stock must not be negative");
        }
        let times = [self.begin_time, self.end_time];
        if times.into_iter().flatten().any(|at| !sensible.contains(&at.timestamp())) {
            return Err("begin_time and end_time must lie between the years 1970 and 9999");
        }
        if self.begin_time.zip(self.end_time).is_some_and(|(begin, end)| begin >= end) {
            return Err("begin_time must lie before end_time");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_only_what_people_see() {
        let title = |text: &str| {
            VoucherChange { title: Some(text.to_owned()), ..VoucherChange::default() }.check()
        };
        // At the bounds of what nobody sees.
        for unseen in [
            '\0', '\u{1f}', '\n', '\u{7f}', '\u{9f}', '\u{200b}', '\u{200f}', '\u{202a}',
            '\u{202e}', '\u{2060}', '\u{206f}', '\u{feff}',
        ] {
            let answer = title(&format!("a{unseen}b"));
            let is_told = |why: &&str| why.contains("zero-width or direction-changing");
            assert!(answer.as_ref().is_err_and(is_told), "{unseen:?}: {answer:?}");
        }
        for seen in
            ['\u{200a}', '\u{2010}', '\u{202f}', '\u{205f}', '\u{2070}', '\u{fefe}', '\u{fe0f}']
        {
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
    fn texts_and_numbers_have_their_bounds() {
        let same = VoucherChange::default;
        let text = |text: &str| Some(text.to_owned());
        let stock = |stock| Some(StockChange::InitialStock(stock));
        for (wrong, word) in [
            (VoucherChange { subtitle: text(&"x".repeat(MAX_SUBTITLE + 1)), ..same() }, "subtitle"),
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
            (VoucherChange { stock: stock(-1), ..same() }, "stock"),
        ] {
            assert!(wrong.check().is_err_and(|why| why.starts_with(word)), "{wrong:?}");
        }
        let most = VoucherChange {
            subtitle: text(&"x".repeat(MAX_SUBTITLE)),
            terms: text("two\r\n\tlines"),
            value: Some(0),
            price: Some(MAX_AMOUNT),
            pay_within_s: Some(MAX_PAY_WITHIN_S),
            stock: stock(i32::MAX),
            ..same()
        };
        assert_eq!(most.check(), Ok(()));
    }
}
