//! Signs that a file says something wrongly: that its answers mean something else than its rules take them for. Such a
//! target is not accused.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use load::outcome::{ALREADY_BOUGHT, ORDER_IN_PROGRESS, ORDERED};

use super::command::shorten;
use super::evidence::Evidence;
use super::sale_record::{HeardAnswer, UNNAMED};

/// So many buyers who are taken for one are no chance.
const ALIKE: usize = 5;

impl Evidence<'_> {
    /// What the file probably says wrongly.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let after = self.sale.after.as_ref().filter(|after| after.is_quiet)?;
        let orders = usize::try_from(self.sale.new_orders()?).ok()?;
        let old_users = self.sale.before.as_ref().map_or(Some(0), |before| before.users);
        let users = after.reading.users.zip(old_users).map(|(after, before)| after - before);
        self.too_wide(orders)
            .or_else(|| self.one_buyer(users))
            .or_else(|| self.ids_of_requests(orders))
    }

    /// A rule for `ordered` that fits refusals, too: its answers are of several kinds, and the books have as many
    /// orders as there are answers of one of them.
    fn too_wide(&self, orders: usize) -> Option<String> {
        let yes =
            |it: &&HeardAnswer| [ORDERED, UNNAMED].contains(&it.outcome.as_ref()) && !it.is_later;
        let mut kinds: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for answer in self.sale.heard.iter().filter(yes) {
            let said = answer.said.as_deref()?;
            kinds.entry(kind(said)).or_insert((0, said)).0 += 1;
        }
        let told: usize = kinds.values().map(|(count, _)| count).sum();
        let has_all = kinds.len() > 1 && kinds.values().any(|(count, _)| *count == orders);
        let promised = usize::try_from(self.sale.promised()).unwrap_or(0);
        if orders == 0 || promised <= orders || !has_all {
            return None;
        }
        // Where half of the buyers were served, each kind has as many: a refusal says less than an order.
        let by_order = |(count, said): &&(usize, &str)| (*count == orders, said.len());
        let (count, other) = kinds.values().min_by_key(by_order)?;
        Some(format!(
            "the rule for ordered is too wide: it fits {told} answers, and the books have {orders} orders; \
             {count} of the answers are like {}",
            shorten(other)
        ))
    }

    /// All buyers are one to the target.
    fn one_buyer(&self, users: Option<i64>) -> Option<String> {
        let mut only_refused: HashMap<usize, bool> = HashMap::new();
        for answer in &self.sale.heard {
            let has = [ALREADY_BOUGHT, ORDER_IN_PROGRESS].contains(&answer.outcome.as_ref());
            *only_refused.entry(answer.buyer).or_insert(true) &= has;
        }
        let refused = only_refused.values().filter(|is_refused| **is_refused).count();
        (users == Some(1) && refused >= ALIKE).then(|| {
            format!(
                "{refused} buyers hear that they bought, and all orders are of one user: does each of them \
                 come with a token of their own?"
            )
        })
    }

    /// Each answer names something else to the same buyer, and the books have one order for each of them.
    fn ids_of_requests(&self, orders: usize) -> Option<String> {
        let mut named: HashMap<usize, HashSet<&Arc<str>>> = HashMap::new();
        for answer in self.sale.yeses() {
            named.entry(answer.buyer).or_default().extend(&answer.order);
        }
        let is_several = named.values().any(|orders| orders.len() > 1);
        let is_listed =
            self.sale.yeses().filter_map(|it| it.order.as_deref()).any(|it| self.is_listed(it));
        let is_own = |it: &HeardAnswer| it.order.as_deref() == Some(&*it.user);
        let are_own = named.len() > 1 && self.sale.yeses().all(is_own);
        let is_told = named.len() == orders && is_several && !is_listed;
        (is_told || are_own && !is_listed).then(|| {
            "the ids that buyers are told are those of requests or users, and not of the orders in the books: \
             let `order` point at the order's own id"
                .to_owned()
        })
    }
}

/// An answer's body without what is different in each answer: numbers, and texts that are ids.
fn kind(said: &str) -> String {
    let is_id = |word: &&str| word.bytes().any(|byte| byte.is_ascii_digit());
    let words = said.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(|word| if is_id(&word) { "#" } else { word })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_one_kind_that_differ_in_numbers_and_ids() {
        let yes = kind(r#"{"success":true,"data":1}"#);
        assert_eq!(yes, kind(r#"{"success":true,"data":"9a-7"}"#.replace("-7", "").as_str()));
        assert_ne!(yes, kind(r#"{"success":false,"errorMsg":"sold out"}"#));
        assert_eq!(kind(""), "");
    }
}
