//! One thing that was not as it should be: which promise it breaks, and what shows it.

use std::fmt;

use serde::Serialize;

use crate::told::{Outcomes, in_words};

/// A promise to buyers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Promise {
    /// Orders never exceed the stock.
    NoOversell,
    /// One user has at most one order.
    OnePerUser,
    /// Nobody hears "sold out" while stock is left.
    NoUndersell,
    /// Orders and stock left are the stock that was put on sale.
    BooksAddUp,
    /// Each yes is in the books.
    NoLostOrder,
    /// Each order in the books was told to its buyer.
    NoUntoldOrder,
    /// Each attempt is answered, by an answer that says something.
    EveryAttemptAnswered,
    /// Nothing is sold before a sale begins or after it ended.
    InItsWindow,
}

impl Promise {
    /// All of them, in the order in which they are told.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name in JSON and in the documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it says.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NoOversell => "nothing is sold that does not exist",
            Self::OnePerUser => "nobody is sold more than one may have",
            Self::NoUndersell => "nobody is refused while stock is left",
            Self::BooksAddUp => "orders and stock left add up",
            Self::NoLostOrder => "every yes is in the books",
            Self::NoUntoldOrder => "every order was told to its buyer",
            Self::EveryAttemptAnswered => "every attempt is answered",
            Self::InItsWindow => "nothing is sold outside its time",
        }
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
        /// Whether it is excused: see [`super::Expectations::excuses_one_in`].
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
    /// The promise that it breaks; `None` where none of them is about it: payments, and what only the reader of
    /// the books knows.
    #[must_use]
    pub fn promise(&self) -> Option<Promise> {
        match self {
            Self::Oversold(..) | Self::OversoldMeanwhile(_) => Some(Promise::NoOversell),
            Self::Duplicates { .. } => Some(Promise::OnePerUser),
            Self::Undersold(..) | Self::Withheld(_) => Some(Promise::NoUndersell),
            Self::Misbooked(_) => Some(Promise::BooksAddUp),
            Self::Lost { .. } => Some(Promise::NoLostOrder),
            Self::Untold(_) => Some(Promise::NoUntoldOrder),
            Self::Unexpected { .. } => Some(Promise::EveryAttemptAnswered),
            Self::Objection(_)
            | Self::NotAllPaid { .. }
            | Self::Unpaid(_)
            | Self::PaymentsDiffer { .. }
            | Self::LostPayments(_)
            | Self::PaymentsFailed(_) => None,
        }
    }

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

    /// What breaks this promise.
    #[must_use]
    pub fn against(&self, promise: Promise) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.promise() == Some(promise))
    }
}
