//! What the answers of one voucher show by themselves, and beside a list of orders: users, orders and
//! times, as sentences.

use std::collections::{HashMap, HashSet};

use load::outcome::{NOT_SENT, SOLD_OUT};

use super::addresses::CheckNode;
use super::sale_record::{HeardAnswer, SaleRecord};

/// So many answers are shown of one kind.
const SHOWN: usize = 3;

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
    pub fn beyond(&self, capacity: i64) -> Vec<String> {
        let yeses: Vec<_> = self.sale.yeses().collect();
        let capacity = usize::try_from(capacity).unwrap_or(0);
        if yeses.len() <= capacity {
            return Vec::new();
        }
        let from = capacity.saturating_sub(1);
        let shown = yeses[from..].iter().take(SHOWN);
        shown.map(|answer| self.sentence(answer)).collect()
    }

    /// The answers to a buyer who was told of two orders.
    #[must_use]
    pub fn told_twice(&self) -> Option<Vec<String>> {
        let mut of_buyers: HashMap<usize, Vec<&HeardAnswer>> = HashMap::new();
        for answer in self.sale.yeses() {
            of_buyers.entry(answer.buyer).or_default().push(answer);
        }
        let twice = of_buyers.into_iter().filter(|(_, answers)| answers.len() > 1);
        let (_, answers) = twice.min_by_key(|(buyer, _)| *buyer)?;
        Some(answers.iter().take(SHOWN).map(|answer| self.sentence(answer)).collect())
    }

    /// Whether one of those who bought tried at least twice.
    #[must_use]
    pub fn tried_twice(&self) -> bool {
        let owners: HashSet<usize> = self.sale.yeses().map(|answer| answer.buyer).collect();
        let heard = self.sale.heard.iter();
        let of_owners = heard.filter(|it| owners.contains(&it.buyer) && it.outcome != NOT_SENT);
        of_owners.count() > owners.len()
    }

    /// Two buyers who were told of one order.
    #[must_use]
    pub fn shared_order(&self) -> Option<Vec<String>> {
        let mut owners: HashMap<&str, &HeardAnswer> = HashMap::new();
        for answer in self.sale.yeses() {
            let Some(order) = answer.order.as_deref() else { continue };
            if let Some(other) = owners.insert(order, answer)
                && other.buyer != answer.buyer
            {
                return Some(vec![self.sentence(other), self.sentence(answer)]);
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
        let after = self.sale.after.as_ref().and_then(|after| after.reading.list.as_ref());
        let is_booked = after.is_some_and(|list| list.iter().any(|booked| booked.order == order));
        (is_shared && !is_booked).then_some(order)
    }

    /// Whether the list knows none of the ids that were told, though it has as many orders. Then they are ids
    /// of something else.
    #[must_use]
    pub fn has_other_ids(&self) -> bool {
        let named = self.sale.yeses().filter(|answer| answer.order.is_some()).count();
        let has_all = self.sale.new_orders().is_some_and(|orders| orders >= self.sale.promised());
        named > 0 && has_all && self.not_in_list().is_some_and(|missing| missing.len() == named)
    }

    /// A user with two orders in the books' list, one of whom at least is new.
    #[must_use]
    pub fn booked_twice(&self) -> Option<String> {
        let list = self.sale.after.as_ref()?.reading.list.as_ref()?;
        let new: HashSet<&str> = self.sale.new_in_list()?.iter().map(|it| &*it.user).collect();
        let mut of_users: HashMap<&str, Vec<&str>> = HashMap::new();
        for booked in list.iter().filter(|booked| new.contains(&*booked.user)) {
            of_users.entry(&booked.user).or_default().push(&booked.order);
        }
        let twice = of_users.into_iter().filter(|(_, orders)| orders.len() > 1);
        let (user, orders) = twice.min()?;
        let more = match orders.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let orders = orders[..orders.len().min(SHOWN)].join(", ");
        Some(format!("user {user} has the orders {orders}{more} in the books"))
    }

    /// The yeses whose orders are not in the books' list; `None` without a list.
    #[must_use]
    pub fn not_in_list(&self) -> Option<Vec<&HeardAnswer>> {
        let list = self.sale.after.as_ref()?.reading.list.as_ref()?;
        let booked: HashSet<&str> = list.iter().map(|booked| booked.order.as_str()).collect();
        let missing = self
            .sale
            .yeses()
            .filter(|answer| answer.order.as_deref().is_some_and(|order| !booked.contains(order)));
        Some(missing.collect())
    }

    /// The orders in the books' list that nobody was told of.
    #[must_use]
    pub fn untold(&self) -> Vec<String> {
        let new = self.sale.new_in_list().unwrap_or_default();
        let told: HashSet<&str> = self.sale.yeses().filter_map(|it| it.order.as_deref()).collect();
        let untold = new.iter().filter(|booked| !told.contains(&*booked.order));
        let sentence = |booked: &&super::books::BookedOrder| {
            format!("order {} of user {} is in the books", booked.order, booked.user)
        };
        untold.take(SHOWN).map(sentence).collect()
    }

    /// Buyers who heard "sold out".
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        let refused = self.sale.heard.iter().filter(|answer| answer.outcome == SOLD_OUT);
        // The last ones: the longer ago, the more may have come back since.
        let mut refused: Vec<_> = refused.rev().take(SHOWN).collect();
        refused.reverse();
        refused.into_iter().map(|answer| self.sentence(answer)).collect()
    }

    /// Some answers as sentences.
    #[must_use]
    pub fn sentences(&self, answers: &[&HeardAnswer]) -> Vec<String> {
        answers.iter().take(SHOWN).map(|answer| self.sentence(answer)).collect()
    }

    fn sentence(&self, answer: &HeardAnswer) -> String {
        let HeardAnswer { user, crowd, node, outcome, order, at, is_later, .. } = answer;
        let order = order.as_ref().map_or_else(String::new, |order| format!(", order {order}"));
        let url = self.nodes.get(*node).map_or("", |node| &node.url);
        let ms = at.as_secs_f64() * 1e3;
        let since = match is_later {
            true => "when asking later, after",
            false => "after",
        };
        format!(
            "user {user} heard {outcome}{order} {since} {ms:.1} ms of the crowd \"{crowd}\" from {url}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use load::outcome::ORDERED;

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
            }));
            Evidence { sale: &sale, nodes: &[] }.tried_twice()
        };
        assert!(!tried_twice(&[]));
        assert!(!tried_twice(&[(0, ORDERED), (1, SOLD_OUT), (1, SOLD_OUT)]));
        assert!(!tried_twice(&[(0, ORDERED), (0, NOT_SENT)]));
        assert!(tried_twice(&[(0, ORDERED), (1, ORDERED), (1, SOLD_OUT)]));
    }
}
