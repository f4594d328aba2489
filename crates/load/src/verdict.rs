//! The judge of a crowd: what the books of a sale say, held against what the buyers were told.
//!
//! Everybody who sends a crowd has the same judge. What differs is who reads the books, the
//! [`Expectations`], and how the [`Verdict`] is shown. The judge takes it that stock never comes back: what is left
//! in the end was there when a buyer was told "sold out".

mod books;
mod figures;
mod finding;

pub use books::Books;
pub use figures::{Counts, CrowdVerdict, Figures};
pub use finding::{Finding, Promise, StockColumn, Verdict};

use super::outcome::{
    ACCEPTED, ALREADY_BOUGHT, NOT_SENT, ORDER_IN_PROGRESS, ORDERED, REFUSED, SALE_ENDED,
    SALE_NOT_STARTED, SOLD_OUT, UNAVAILABLE,
};
use super::told::{Outcomes, Told};

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
    /// How many orders one user may have. `None`: as many as there are.
    pub per_user: Option<u32>,
}

impl Expectations {
    /// The crowd has the sale and its servers for itself, and nothing breaks.
    pub const ALONE: Self =
        Self { also_proper: &[], writes_later: false, excuses_one_in: None, per_user: Some(1) };

    /// People buy at the same sale. It may end while the crowd is there, and the server may refuse what
    /// is too much for it.
    pub const BESIDE_OTHERS: Self =
        Self { also_proper: &[SALE_NOT_STARTED, SALE_ENDED, REFUSED, UNAVAILABLE], ..Self::ALONE };

    fn is_proper(&self, code: &str) -> bool {
        [ORDERED, SOLD_OUT, ALREADY_BOUGHT, ORDER_IN_PROGRESS].contains(&code)
            || self.also_proper.contains(&code)
            || self.writes_later && code == ACCEPTED
    }
}

/// The outcomes that say whether the attempt made an order.
const DECIDED: [&str; 9] = [
    ORDERED,
    ACCEPTED,
    SOLD_OUT,
    ALREADY_BOUGHT,
    ORDER_IN_PROGRESS,
    SALE_NOT_STARTED,
    SALE_ENDED,
    REFUSED,
    NOT_SENT,
];

/// Judges the sale with these `books`, whose buyers were `told` this.
#[must_use]
pub fn judge(books: &Books, told: &Told, expected: &Expectations) -> Verdict {
    let Books { initial_stock, stock, orders, distinct_users, orders_of_crowd, .. } = *books;
    let column = StockColumn { orders, initial_stock, stock };
    let (unsold, left) = (books.unsold(), books.left());
    let improper = told.outcomes.iter().filter(|(code, _)| !expected.is_proper(code));
    let outcomes: Outcomes = improper.map(|(code, count)| (code.clone(), *count)).collect();
    let lost = lost(books, told, expected);
    let unknown = told.outcomes.iter().filter(|(code, _)| !DECIDED.contains(&code.as_str()));
    let unknown = number(unknown.map(|(_, count)| count).sum());
    // Each attempt with an unknown outcome may have made one.
    let untold = orders_of_crowd - promised(told) - unknown;
    let undersold = unsold - left + left.min(wanted(books, told, lost));
    let oversold = orders - initial_stock;
    let beyond = expected.per_user.map_or(0, |most| orders - distinct_users * i64::from(most));
    let mut findings = Vec::new();
    let mut find = |is_found: bool, finding: Finding| findings.extend(is_found.then_some(finding));
    find(oversold > 0, Finding::Oversold(oversold, column));
    let witness = books.twice.clone();
    let duplicates = Finding::Duplicates { beyond, orders, users: distinct_users, witness };
    find(beyond > 0, duplicates);
    find(undersold > 0, Finding::Undersold(undersold, column));
    find(orders + stock != initial_stock && left == unsold, Finding::Misbooked(column));
    let promised = expected.writes_later.then(|| promised(told));
    find(lost > 0, Finding::Lost { orders: lost, promised });
    find(untold > 0, Finding::Untold(untold));
    for why in &books.objections {
        find(true, Finding::Objection(why.clone()));
    }
    let is_excused = outcomes.values().sum::<u64>() == excused(books, told, expected);
    find(!outcomes.is_empty(), Finding::Unexpected { outcomes, is_excused });
    Verdict { findings }
}

/// Orders of which buyers were told, and that are not there.
fn lost(books: &Books, told: &Told, expected: &Expectations) -> i64 {
    match expected.writes_later {
        // "Accepted" names no order, so its orders can only be counted. Where orders were named, one that
        // nobody was told of makes up for none that is lost.
        true => books.lost.max(promised(told) - books.orders_of_crowd),
        false => books.lost,
    }
}

/// Buyers who went away without an order though they wanted one.
fn wanted(books: &Books, told: &Told, lost: i64) -> i64 {
    // "Sold out" is a lie while stock is left, whatever else the buyer heard. A buyer who heard nothing
    // but "in progress" was refused for the sake of an attempt that came to nothing.
    let refused = number(told.count_refused(|codes| {
        codes.contains(SOLD_OUT) || codes.iter().all(|code| code == ORDER_IN_PROGRESS)
    }));
    // "Already bought" is a lie to a buyer who has no order.
    let have_orders = books.orders_of_crowd.min(books.distinct_users);
    refused + (number(told.served) - have_orders - lost).max(0)
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

#[cfg(test)]
mod tests;
