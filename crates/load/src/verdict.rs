//! The judge of a crowd: what the books of a sale say, held against what the buyers were told.
//!
//! Everybody who sends a crowd has the same judge. What differs is who reads the books, the
//! [`Expectations`], and how the [`Verdict`] is shown. The judge takes it that stock never comes back: what is left in the end was there
//! when a buyer was told "sold out".

#[cfg(test)]
mod cases;

use std::fmt;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::outcome::{
    ACCEPTED, ALREADY_BOUGHT, NOT_SENT, ORDER_IN_PROGRESS, ORDERED, SALE_ENDED, SALE_NOT_STARTED,
    SOLD_OUT, UNAVAILABLE,
};
use super::told::{Outcomes, Told, in_words};

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
    /// A user with several orders, and these, where the reader of the books looks for one.
    pub twice: Option<(i64, Vec<i64>)>,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that vanished, or stayed unsold though buyers went away without one.
    pub undersold: i64,
    /// Orders acknowledged, or promised, that are not there.
    pub lost: i64,
    /// Orders that no buyer was told of, beyond the attempts that may have made them unheard.
    #[serde(default)]
    pub untold: i64,
    /// Attempts answered with something no buyer should hear, or not at all.
    pub unexpected: u64,
}

/// Of several sales together.
impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.oversold += other.oversold;
        self.duplicates += other.duplicates;
        self.undersold += other.undersold;
        self.lost += other.lost;
        self.untold += other.untold;
        self.unexpected += other.unexpected;
    }
}

/// Orders and stock, as the books have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockColumn {
    /// Orders.
    pub orders: i64,
    /// Vouchers as they were put on sale.
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
}

/// One thing that was not as it should be, with the figures that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// So many orders more than vouchers.
    Oversold(i64, StockColumn),
    /// More than one order of one user.
    Duplicates {
        /// Orders beyond one per user.
        beyond: i64,
        /// Orders.
        orders: i64,
        /// Different users among them.
        users: i64,
        /// One of the users, and the orders.
        witness: Option<(i64, Vec<i64>)>,
    },
    /// So many vouchers vanished, or stayed though they were wanted.
    Undersold(i64, StockColumn),
    /// Orders and stock do not add up, though no voucher vanished.
    Misbooked(StockColumn),
    /// An order is missing of which a buyer was told.
    Lost {
        /// How many are.
        orders: i64,
        /// Where orders are written later: how many buyers were promised one.
        promised: Option<i64>,
    },
    /// No buyer was told of so many orders.
    Untold(i64),
    /// Something else is wrong with the books, or never came to an end.
    Objection(String),
    /// Answers that are not proper ones.
    Unexpected {
        /// What the attempts were told.
        outcomes: Outcomes,
        /// Whether it is excused: see [`Expectations::excuses_one_in`].
        is_excused: bool,
    },
    /// So many orders more than vouchers at the worst time, and fewer in the end.
    OversoldMeanwhile(i64),
    /// So many vouchers were left while buyers were told that nothing is.
    Withheld(i64),
    /// Not every voucher is paid for once.
    NotAllPaid {
        /// Orders that are paid.
        paid: i64,
        /// Vouchers as they were put on sale.
        stock: i64,
    },
    /// So many orders are unpaid in the end.
    Unpaid(i64),
    /// There is another number of payments than of paid orders.
    PaymentsDiffer {
        /// Payments that were confirmed.
        payments: i64,
        /// Payments whose money went back.
        refunds: i64,
        /// Orders that are paid.
        paid: i64,
    },
    /// So many payments of which buyers were told paid for no order of theirs.
    LostPayments(i64),
    /// Answers to payments that are not proper ones.
    PaymentsFailed(Outcomes),
}

impl fmt::Display for StockColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { orders, initial_stock, stock } = self;
        write!(f, "{orders} orders for a stock of {initial_stock}, and the column says {stock}")
    }
}

/// The finding as a sentence.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold(beyond, column) => {
                write!(f, "{beyond} sold that did not exist: {column}")
            }
            Self::Duplicates { beyond, orders, users, witness } => {
                write!(f, "{beyond} sold twice to one buyer: {orders} orders of {users}")?;
                let Some((user, orders)) = witness else { return Ok(()) };
                let orders: Vec<String> = orders.iter().map(ToString::to_string).collect();
                write!(f, "; user {user} holds {}", orders.join(" and "))
            }
            Self::Undersold(left, column) => {
                write!(f, "{left} left unsold while buyers wanted them: {column}")
            }
            Self::Misbooked(column) => write!(f, "the books do not add up: {column}"),
            Self::Lost { orders, promised: Some(promised) } => {
                write!(f, "{promised} buyers were promised an order, and {orders} have none")
            }
            Self::Lost { orders, promised: None } => {
                write!(f, "{orders} acknowledged orders lost")
            }
            Self::Untold(orders) => write!(f, "{orders} orders that no buyer was told of"),
            Self::Objection(why) => f.write_str(why),
            Self::Unexpected { outcomes, .. } => {
                let attempts: u64 = outcomes.values().sum();
                write!(f, "{attempts} attempts without a proper answer: {}", in_words(outcomes))
            }
            Self::OversoldMeanwhile(beyond) => {
                write!(f, "{beyond} sold that did not exist, before the end")
            }
            Self::Withheld(left) => {
                write!(f, "{left} left while buyers were told that nothing is")
            }
            Self::NotAllPaid { paid, stock } => {
                write!(f, "{paid} paid orders for a stock of {stock}")
            }
            Self::Unpaid(orders) => write!(f, "{orders} orders are unpaid"),
            Self::PaymentsDiffer { payments, refunds, paid } => {
                write!(f, "{payments} payments, less {refunds} given back, of {paid} paid orders")
            }
            Self::LostPayments(payments) => write!(
                f,
                "{payments} payments that buyers were told of paid for no order of theirs"
            ),
            Self::PaymentsFailed(outcomes) => {
                write!(f, "payments without a proper answer: {}", in_words(outcomes))
            }
        }
    }
}

impl Finding {
    /// Whether it is no fault.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        matches!(self, Self::Unexpected { is_excused: true, .. })
    }
}

/// What was found of one sale.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// What was not as it should be.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether every promise was kept, and what came of every attempt is known.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.findings.iter().all(Finding::is_excused)
    }

    /// What was not as it should be, a sentence each.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.findings.iter().map(ToString::to_string).collect()
    }

    /// The same as figures.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.findings {
            match finding {
                Finding::Oversold(beyond, _) | Finding::OversoldMeanwhile(beyond) => {
                    counts.oversold = counts.oversold.max(*beyond);
                }
                Finding::Duplicates { beyond, .. } => counts.duplicates += beyond,
                Finding::Undersold(left, _) | Finding::Withheld(left) => counts.undersold += left,
                Finding::Lost { orders, .. } => counts.lost += orders,
                Finding::Untold(orders) => counts.untold += orders,
                Finding::Unexpected { outcomes, .. } => {
                    counts.unexpected += outcomes.values().sum::<u64>();
                }
                // The figures of payments are not the judge's.
                _ => {}
            }
        }
        counts
    }
}

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
    let (oversold, beyond) = (orders - initial_stock, orders - distinct_users);
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
