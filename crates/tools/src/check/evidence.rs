//! What the answers of one voucher show by themselves, and beside a list of orders: users, orders and
//! times, as sentences.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use load::outcome::{
    ALREADY_BOUGHT, NOT_SENT, ORDER_IN_PROGRESS, ORDERED, REFUSED, SALE_ENDED, SALE_NOT_STARTED,
    SOLD_OUT,
};
use load::told::Outcomes;
use serde::Serialize;

use super::addresses::CheckNode;
use super::books::BookedOrder;
use super::command::shorten;
use super::sale_record::{HeardAnswer, SaleRecord};

/// So many answers are shown of one kind.
const SHOWN: usize = 3;

/// What shows that a promise was broken: an answer that was heard, or orders in the books.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Witness {
    /// The sentence.
    pub text: String,
    /// The buyer whom it is about.
    pub user: Arc<str>,
    /// The orders.
    pub orders: Vec<Arc<str>>,
    /// Of an answer: its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'static, str>>,
    /// Of an answer: its crowd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crowd: Option<&'static str>,
    /// Of an answer: the node that gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Of an answer: from the beginning of its crowd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<f64>,
    /// Of an answer: the beginning of its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Arc<str>>,
}

/// Looks for witnesses in what happened to one voucher.
pub struct Evidence<'a> {
    /// The voucher.
    pub sale: &'a SaleRecord,
    /// The nodes, for their names.
    pub nodes: &'a [CheckNode],
}

impl Evidence<'_> {
    /// The yeses beyond the stock, and the last one within it.
    #[must_use]
    pub fn beyond(&self, capacity: i64) -> Vec<Witness> {
        let yeses: Vec<_> = self.sale.yeses().collect();
        let capacity = usize::try_from(capacity).unwrap_or(0);
        if yeses.len() <= capacity {
            return Vec::new();
        }
        let from = capacity.saturating_sub(1);
        let shown = yeses[from..].iter().take(SHOWN);
        shown.map(|answer| self.sentence(answer)).collect()
    }

    /// The answers to a buyer who was told of more orders than one may have.
    #[must_use]
    pub fn told_beyond(&self, most: u32) -> Option<Vec<Witness>> {
        let mut of_buyers: HashMap<usize, Vec<&HeardAnswer>> = HashMap::new();
        for answer in self.sale.yeses() {
            of_buyers.entry(answer.buyer).or_default().push(answer);
        }
        let twice = of_buyers.into_iter().filter(|(_, answers)| answers.len() > most as usize);
        let (_, answers) = twice.min_by_key(|(buyer, _)| *buyer)?;
        Some(answers.iter().take(SHOWN).map(|answer| self.sentence(answer)).collect())
    }

    /// Whether one of those who bought tried more often than one may buy.
    #[must_use]
    pub fn tried_beyond(&self, most: u32) -> bool {
        let mut tries: HashMap<usize, u32> =
            self.sale.yeses().map(|answer| (answer.buyer, 0)).collect();
        for answer in self.sale.heard.iter().filter(|answer| answer.outcome != NOT_SENT) {
            if let Some(tries) = tries.get_mut(&answer.buyer) {
                *tries += 1;
            }
        }
        tries.into_values().any(|tries| tries > most)
    }

    /// Two buyers who were told of one order.
    #[must_use]
    pub fn shared_order(&self) -> Option<(Arc<str>, Vec<Witness>)> {
        let mut owners: HashMap<&str, &HeardAnswer> = HashMap::new();
        for answer in self.sale.yeses() {
            let Some(order) = &answer.order else { continue };
            if let Some(other) = owners.insert(order, answer)
                && other.buyer != answer.buyer
            {
                let witnesses = vec![self.sentence(other), self.sentence(answer)];
                return Some((Arc::clone(order), witnesses));
            }
        }
        None
    }

    /// The id that every yes names, where there are several buyers and the list does not know it. Then it is
    /// no order's id.
    #[must_use]
    pub fn one_id_for_all(&self) -> Option<&str> {
        let mut named = self.sale.yeses().filter_map(|it| Some((it.order.as_deref()?, it.buyer)));
        let (order, buyer) = named.next()?;
        let mut is_shared = false;
        for (other, of) in named {
            if other != order {
                return None;
            }
            is_shared |= of != buyer;
        }
        (is_shared && !self.is_listed(order)).then_some(order)
    }

    /// Whether the books' list has this order.
    #[must_use]
    pub fn is_listed(&self, order: &str) -> bool {
        let after = self.sale.after.as_ref().and_then(|after| after.reading.list.as_ref());
        after.is_some_and(|list| list.iter().any(|booked| booked.order == order))
    }

    /// Whether the list knows none of the ids that were told, though it has as many orders. Then they are ids
    /// of something else.
    #[must_use]
    pub fn has_other_ids(&self) -> bool {
        let named = self.sale.yeses().filter(|answer| answer.order.is_some()).count();
        let has_all = self.sale.new_orders().is_some_and(|orders| orders >= self.sale.promised());
        named > 0 && has_all && self.not_in_list().is_some_and(|missing| missing.len() == named)
    }

    /// A user with more orders in the books' list than one may have, of which one at least is new.
    #[must_use]
    pub fn booked_beyond(&self, most: u32) -> Option<Witness> {
        let list = self.sale.after.as_ref()?.reading.list.as_ref()?;
        let new: HashSet<&str> = self.sale.new_in_list()?.iter().map(|it| &*it.user).collect();
        let mut of_users: HashMap<&str, Vec<&str>> = HashMap::new();
        for booked in list.iter().filter(|booked| new.contains(&*booked.user)) {
            of_users.entry(&booked.user).or_default().push(&booked.order);
        }
        let twice = of_users.into_iter().filter(|(_, orders)| orders.len() > most as usize);
        let (user, orders) = twice.min()?;
        let more = match orders.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let orders = &orders[..orders.len().min(SHOWN)];
        let text = format!("user {user} has the orders {}{more} in the books", orders.join(", "));
        Some(booked(text, user, orders))
    }

    /// The yeses whose orders are not in the books' list; `None` without a list.
    #[must_use]
    pub fn not_in_list(&self) -> Option<Vec<&HeardAnswer>> {
        let list = self.sale.after.as_ref()?.reading.list.as_ref()?;
        let gone = &self.sale.after.as_ref()?.reading.cancelled_list;
        let booked: HashSet<&str> = list.iter().chain(gone).map(|it| it.order.as_str()).collect();
        let missing = self.sale.yeses().filter(|answer| {
            let order = answer.order.as_deref();
            order.is_some_and(|order| !booked.contains(order)) && !self.sale.may_be_expired(answer)
        });
        Some(missing.collect())
    }

    /// The orders in the books' list that nobody was told of.
    #[must_use]
    pub fn untold(&self) -> Vec<Witness> {
        let new = self.sale.new_in_list().unwrap_or_default();
        let told: HashSet<&str> = self.sale.yeses().filter_map(|it| it.order.as_deref()).collect();
        let untold = new.iter().filter(|booked| !told.contains(&*booked.order));
        let witness = |it: &&BookedOrder| {
            let text = format!("order {} of user {} is in the books", it.order, it.user);
            booked(text, &it.user, &[&it.order])
        };
        untold.take(SHOWN).map(witness).collect()
    }

    /// Buyers who heard "sold out".
    #[must_use]
    pub fn refused(&self) -> Vec<Witness> {
        let refused = self.sale.heard.iter().filter(|answer| answer.outcome == SOLD_OUT);
        // The last ones: the longer ago, the more may have come back since.
        let mut refused: Vec<_> = refused.rev().take(SHOWN).collect();
        refused.reverse();
        refused.into_iter().map(|answer| self.sentence(answer)).collect()
    }

    /// Some answers as sentences.
    #[must_use]
    pub fn sentences(&self, answers: &[&HeardAnswer]) -> Vec<Witness> {
        answers.iter().take(SHOWN).map(|answer| self.sentence(answer)).collect()
    }

    /// Answers that say nothing: see `outcomes`.
    #[must_use]
    pub fn of_outcomes(&self, outcomes: &Outcomes) -> Vec<Witness> {
        let heard = self.sale.heard.iter();
        let of_these = heard.filter(|answer| outcomes.contains_key(answer.outcome.as_ref()));
        of_these.take(SHOWN).map(|answer| self.sentence(answer)).collect()
    }

    /// A buyer who heard "sold out", and another who asked after that and was served: the refusal was not true.
    /// Stock that an attempt under way holds for a moment is no stock, so nobody but those who bought, and those who
    /// were refused likewise, may have been under way.
    #[must_use]
    pub fn refused_before_one_was_served(&self) -> Option<Vec<Witness>> {
        let last = self.sale.yeses().max_by_key(|answer| answer.asked)?;
        let holders: Vec<&HeardAnswer> = self
            .sale
            .heard
            .iter()
            .filter(|it| ![ORDERED, SOLD_OUT, NOT_SENT].contains(&it.outcome.as_ref()))
            .collect();
        let is_held = |refused: &HeardAnswer| {
            holders.iter().any(|it| {
                // An attempt without a clear answer may never end.
                let is_over = CLEAR.contains(&it.outcome.as_ref()) && it.answered < refused.asked;
                it.asked <= refused.answered && !is_over
            })
        };
        let mut refused = self.sale.heard.iter().filter(|answer| answer.outcome == SOLD_OUT);
        let refused = refused.find(|refused| refused.answered < last.asked && !is_held(refused))?;
        Some(vec![self.sentence(refused), self.sentence(last)])
    }

    fn sentence(&self, answer: &HeardAnswer) -> Witness {
        let HeardAnswer { user, crowd, node, outcome, order, at, is_later, said, .. } = answer;
        let named = order.as_ref().map_or_else(String::new, |order| format!(", order {order}"));
        let url = self.nodes.get(*node).map_or("", |node| &node.url);
        let ms = (at.as_secs_f64() * 1e4).round() / 10.0;
        let since = match is_later {
            true => "when asking later, after",
            false => "after",
        };
        let body = said.as_ref().filter(|said| !said.is_empty() && !is_later);
        let body = body.map_or_else(String::new, |said| format!(": {}", shorten(said)));
        let text = format!(
            "user {user} heard {outcome}{named} {since} {ms:.1} ms of the crowd \"{crowd}\" from {url}{body}"
        );
        Witness {
            text,
            user: Arc::clone(user),
            orders: order.iter().cloned().collect(),
            outcome: Some(outcome.clone()),
            crowd: Some(crowd),
            address: Some(url.to_owned()),
            after_ms: Some(ms),
            said: said.clone(),
        }
    }
}

/// Outcomes of attempts that made no order and are over.
const CLEAR: [&str; 5] = [ALREADY_BOUGHT, ORDER_IN_PROGRESS, REFUSED, SALE_NOT_STARTED, SALE_ENDED];

fn booked(text: String, user: &str, orders: &[&str]) -> Witness {
    let orders = orders.iter().map(|order| (*order).into()).collect();
    Witness { text, user: user.into(), orders, ..Witness::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_second_try_is_one_of_a_buyer_who_bought_and_that_was_sent() {
        let tried_twice = |heard: &[(usize, &'static str)]| {
            let mut sale = SaleRecord::new(String::new(), String::new());
            sale.heard.extend(heard.iter().map(|&(buyer, outcome)| HeardAnswer {
                buyer,
                user: "u".into(),
                crowd: "",
                node: 0,
                outcome: outcome.into(),
                order: None,
                at: Duration::ZERO,
                is_later: false,
                asked: Instant::now(),
                answered: Instant::now(),
                said: None,
            }));
            Evidence { sale: &sale, nodes: &[] }.tried_beyond(1)
        };
        assert!(!tried_twice(&[]));
        assert!(!tried_twice(&[(0, ORDERED), (1, SOLD_OUT), (1, SOLD_OUT)]));
        assert!(!tried_twice(&[(0, ORDERED), (0, NOT_SENT)]));
        assert!(tried_twice(&[(0, ORDERED), (1, ORDERED), (1, SOLD_OUT)]));
    }
}
