//! What buyers were told: the half of a verdict that does not stand in the books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::outcome::{ACCEPTED, ALREADY_BOUGHT, ORDERED};
use super::rush::RequestAnswer;

/// Attempts by outcome (see [`outcome`](super::outcome)).
pub type Outcomes = BTreeMap<String, u64>;

/// "3 no_answer, 2 http_500".
#[must_use]
pub fn in_words(outcomes: &Outcomes) -> String {
    let outcomes = outcomes.iter().map(|(code, count)| format!("{count} {code}"));
    outcomes.collect::<Vec<_>>().join(", ")
}

/// What buyers were told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Attempts by outcome.
    pub outcomes: Outcomes,
    /// The orders, one for every 201.
    pub acknowledged: Vec<AcknowledgedOrder>,
    /// Buyers of whose attempts one at least was `ordered`, `accepted` or `already_bought`.
    pub served: u64,
    /// The other buyers, counted by the set of outcomes they got.
    pub refused_buyers: Vec<RefusedBuyers>,
}

/// An order that the server has acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedOrder {
    /// [`Buyer::user_id`](super::crowd::Buyer::user_id).
    pub user_id: Arc<str>,
    /// The order; `null` when the 201 had no `order_id` that is a string.
    pub order_id: Option<String>,
}

/// Buyers who went away with the same answers, and without an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBuyers {
    /// The outcomes that each of them got.
    pub codes: BTreeSet<String>,
    /// The number of them.
    pub buyers: u64,
}

impl Told {
    /// Attempts with this outcome.
    #[must_use]
    pub fn count(&self, code: &str) -> u64 {
        self.outcomes.get(code).copied().unwrap_or(0)
    }

    /// The numbers of the user and of the order of every 201. What is not a number becomes -1, which no
    /// user and no order has.
    #[must_use]
    pub fn acknowledged_ids(&self) -> Vec<(i64, i64)> {
        let number = |text: &str| text.parse().unwrap_or(-1);
        let ids = |told: &AcknowledgedOrder| {
            (number(&told.user_id), told.order_id.as_deref().map_or(-1, number))
        };
        self.acknowledged.iter().map(ids).collect()
    }

    /// Refused buyers whose outcomes `is` is true of.
    #[must_use]
    pub fn count_refused(&self, is: impl Fn(&BTreeSet<String>) -> bool) -> u64 {
        self.refused_buyers.iter().filter(|group| is(&group.codes)).map(|group| group.buyers).sum()
    }

    /// Adds one buyer, with the answers to all attempts.
    pub(super) fn add_buyer(&mut self, user_id: &Arc<str>, answers: &[RequestAnswer]) {
        for answer in answers {
            *self.outcomes.entry(answer.outcome.to_string()).or_default() += 1;
            if answer.outcome == ORDERED {
                let (user_id, order_id) = (Arc::clone(user_id), answer.order_id.clone());
                self.acknowledged.push(AcknowledgedOrder { user_id, order_id });
            }
        }
        let codes: BTreeSet<String> = answers.iter().map(|it| it.outcome.to_string()).collect();
        match [ORDERED, ACCEPTED, ALREADY_BOUGHT].iter().any(|code| codes.contains(*code)) {
            true => self.served += 1,
            false => self.refuse(codes, 1),
        }
    }

    fn refuse(&mut self, codes: BTreeSet<String>, buyers: u64) {
        match self.refused_buyers.iter_mut().find(|group| group.codes == codes) {
            Some(group) => group.buyers += buyers,
            None => self.refused_buyers.push(RefusedBuyers { codes, buyers }),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.served += other.served;
        for (code, count) in &other.outcomes {
            *self.outcomes.entry(code.clone()).or_default() += count;
        }
        self.acknowledged.extend_from_slice(&other.acknowledged);
        for group in &other.refused_buyers {
            self.refuse(group.codes.clone(), group.buyers);
        }
        self
    }
}
