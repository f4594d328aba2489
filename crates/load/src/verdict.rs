//! The judge of a crowd: what the books of a sale say, held against what the buyers were told.
//!
//! Everybody who sends a crowd has the same judge. What differs is who reads the books, and the
//! [`Expectations`]. The judge takes it that stock never comes back: what is left in the end was there
//! when a buyer was told "sold out".

#[cfg(test)]
mod cases;

use std::ops::AddAssign;

use serde::Serialize;

use super::outcome::{
    ACCEPTED, ALREADY_BOUGHT, NOT_SENT, ORDER_IN_PROGRESS, ORDERED, SALE_ENDED, SALE_NOT_STARTED,
    SOLD_OUT, UNAVAILABLE,
};
use super::told::Told;

/// What the books say of one sale, once nothing more is to come.
#[derive(Debug, Clone)]
pub struct Books {
    /// Vouchers as they were put on sale.
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
    /// Orders.
    pub orders: i64,
    /// Different users among them.
    pub distinct_users: i64,
    /// Orders of the crowd's buyers: all orders, where the crowd was alone.
    pub orders_of_crowd: i64,
    /// Orders acknowledged with a 201 that are not there.
    pub lost: i64,
    /// What else is wrong with the books, a sentence each.
    pub objections: Vec<String>,
}

impl Books {
    /// Vouchers without an order.
    fn unsold(&self) -> i64 {
        (self.initial_stock - self.orders).max(0)
    }

    /// Those of them that can still be sold. The stock column may say more than there is.
    fn left(&self) -> i64 {
        self.stock.clamp(0, self.unsold())
    }
}

/// What is expected of the answers.
#[derive(Debug, Clone, Copy)]
pub struct Expectations {
    /// Proper answers beside "ordered", "sold out", "already bought" and "order in progress".
    pub also_proper: &'static [&'static str],
    /// Whether an answer is a promise whose order is written later. Then "accepted" is proper, too.
    pub writes_later: bool,
    /// One of so many attempts may hear "unavailable", on one condition: nothing was left that its
    /// buyer could have bought.
    pub excuses_one_in: Option<u64>,
}

impl Expectations {
    /// The crowd has the sale and its servers for itself, and nothing breaks.
    pub const ALONE: Self = Self { also_proper: &[], writes_later: false, excuses_one_in: None };

    /// People buy at the same sale. It may end while the crowd is there, and the server may refuse what
    /// is too much for it.
    pub const BESIDE_OTHERS: Self =
        Self { also_proper: &[SALE_NOT_STARTED, SALE_ENDED, UNAVAILABLE], ..Self::ALONE };

    fn is_proper(&self, code: &str) -> bool {
        [ORDERED, SOLD_OUT, ALREADY_BOUGHT, ORDER_IN_PROGRESS].contains(&code)
            || self.also_proper.contains(&code)
            || self.writes_later && code == ACCEPTED
    }
}

/// The outcomes that say whether the attempt made an order.
const DECIDED: [&str; 8] = [
    ORDERED,
    ACCEPTED,
    SOLD_OUT,
    ALREADY_BOUGHT,
    ORDER_IN_PROGRESS,
    SALE_NOT_STARTED,
    SALE_ENDED,
    NOT_SENT,
];

/// What was counted against the promises: all 0, where they were kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that vanished, or stayed unsold though buyers went away without one.
    pub undersold: i64,
    /// Orders acknowledged, or promised, that are not there.
    pub lost: i64,
    /// Orders that no buyer was told of, beyond the attempts that may have made them unheard.
    pub untold: i64,
    /// Attempts answered with something no buyer should hear, or not at all.
    pub unexpected: u64,
}

/// Of several sales together.
impl AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        self.oversold += other.oversold;
        self.duplicates += other.duplicates;
        self.undersold += other.undersold;
        self.lost += other.lost;
        self.untold += other.untold;
        self.unexpected += other.unexpected;
    }
}

/// In which way a sale was not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// More orders than vouchers.
    Oversold,
    /// More than one order of one user.
    Duplicates,
    /// A voucher vanished, or stayed though it was wanted.
    Undersold,
    /// Orders and stock do not add up, though no voucher vanished.
    Misbooked,
    /// An order is missing of which a buyer was told.
    Lost,
    /// No buyer was told of an order.
    Untold,
    /// Something else is wrong with the books.
    Objection,
    /// An answer is not a proper one.
    Unexpected,
}

/// One thing that was not as it should be.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What it is.
    pub breach: Breach,
    /// The same as a sentence, with the figures that show it.
    pub sentence: String,
    /// Whether it is excused: see [`Expectations::excuses_one_in`].
    pub is_excused: bool,
}

/// What was found of one sale.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The counts.
    pub counts: Findings,
    /// What was not as it should be.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether every promise was kept, and what came of every attempt is known.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_excused)
    }

    /// What was not as it should be, a sentence each.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.findings.iter().map(|finding| finding.sentence.clone()).collect()
    }
}

/// Judges the sale with these `books`, whose buyers were `told` this.
#[must_use]
pub fn judge(books: &Books, told: &Told, expected: &Expectations) -> Verdict {
    let counts = count(books, told, expected);
    let Books { initial_stock, stock, orders, distinct_users, .. } = books;
    let Findings { oversold, duplicates, undersold, lost, untold, unexpected } = counts;
    let mut findings = Vec::new();
    let mut find = |is_found: bool, breach, sentence| {
        if is_found {
            findings.push(Finding { breach, sentence, is_excused: false });
        }
    };
    let column =
        format!("{orders} orders for a stock of {initial_stock}, and the column says {stock}");
    let words = format!("{oversold} sold that did not exist: {column}");
    find(oversold > 0, Breach::Oversold, words);
    let words =
        format!("{duplicates} sold twice to one buyer: {orders} orders of {distinct_users}");
    find(duplicates > 0, Breach::Duplicates, words);
    let words = format!("{undersold} left unsold while buyers wanted them: {column}");
    find(undersold > 0, Breach::Undersold, words);
    let has_vanished = books.left() < books.unsold();
    let words = format!("the books do not add up: {column}");
    find(orders + stock != *initial_stock && !has_vanished, Breach::Misbooked, words);
    let words = match expected.writes_later {
        true => format!("{} buyers were promised an order, and {lost} have none", promised(told)),
        false => format!("{lost} acknowledged orders lost"),
    };
    find(lost > 0, Breach::Lost, words);
    find(untold > 0, Breach::Untold, format!("{untold} orders that no buyer was told of"));
    for why in &books.objections {
        find(true, Breach::Objection, why.clone());
    }
    if unexpected > 0 {
        let improper = told.outcomes.iter().filter(|(code, _)| !expected.is_proper(code));
        let improper: Vec<_> = improper.map(|(code, count)| format!("{count} {code}")).collect();
        let improper = improper.join(", ");
        let sentence = format!("{unexpected} attempts without a proper answer: {improper}");
        let is_excused = unexpected == excused(books, told, expected);
        findings.push(Finding { breach: Breach::Unexpected, sentence, is_excused });
    }
    Verdict { counts, findings }
}

fn count(books: &Books, told: &Told, expected: &Expectations) -> Findings {
    let Books { initial_stock, orders, distinct_users, orders_of_crowd, lost, .. } = *books;
    let lost = match expected.writes_later {
        // "Accepted" names no order, so its orders can only be counted. Where orders were named, one that
        // nobody was told of makes up for none that is lost.
        true => lost.max(promised(told) - orders_of_crowd),
        false => lost,
    };
    let (unsold, left) = (books.unsold(), books.left());
    // "Sold out" is a lie while stock is left, whatever else the buyer heard. A buyer who heard nothing
    // but "in progress" was refused for the sake of an attempt that came to nothing.
    let refused = number(told.count_refused(|codes| {
        codes.contains(SOLD_OUT) || codes.iter().all(|code| code == ORDER_IN_PROGRESS)
    }));
    // "Already bought" is a lie to a buyer who has no order.
    let lied_to = (number(told.served) - orders_of_crowd.min(distinct_users) - lost).max(0);
    let unknown = told.outcomes.iter().filter(|(code, _)| !DECIDED.contains(&code.as_str()));
    let unknown = number(unknown.map(|(_, count)| count).sum());
    let improper = told.outcomes.iter().filter(|(code, _)| !expected.is_proper(code));
    Findings {
        oversold: (orders - initial_stock).max(0),
        duplicates: orders - distinct_users,
        undersold: unsold - left + left.min(refused + lied_to),
        lost,
        // Each attempt with an unknown outcome may have made one.
        untold: (orders_of_crowd - promised(told) - unknown).max(0),
        unexpected: improper.map(|(_, count)| count).sum(),
    }
}

/// Orders of which buyers were told.
fn promised(told: &Told) -> i64 {
    number(told.count(ORDERED) + told.count(ACCEPTED))
}

/// Attempts without a proper answer that are no fault.
fn excused(books: &Books, told: &Told, expected: &Expectations) -> u64 {
    let Some(one_in) = expected.excuses_one_in.filter(|_| books.stock <= 0) else { return 0 };
    let attempts: u64 = told.outcomes.values().sum();
    let refused = told.count(UNAVAILABLE);
    if refused.saturating_mul(one_in) <= attempts { refused } else { 0 }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
