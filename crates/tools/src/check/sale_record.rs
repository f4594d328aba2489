//! What happened to one voucher: everything that buyers heard, and the books before and after.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use load::outcome::{ACCEPTED, ALREADY_BOUGHT, NOT_SENT, ORDERED};
use tokio::time::Instant;

use super::books::{BookedOrder, BooksReading, QuietBooks};

/// The outcome of a yes that names no order, beside another yes of the same buyer. Whether it made an order of
/// its own is not known.
pub const UNNAMED: &str = "ordered_without_id";

/// One answer to one attempt.
#[derive(Debug, Clone)]
pub struct HeardAnswer {
    /// Index into the buyers.
    pub buyer: usize,
    /// The user's name.
    pub user: Arc<str>,
    /// The crowd that the attempt was part of.
    pub crowd: &'static str,
    /// The node that it was sent to.
    pub node: usize,
    /// The outcome.
    pub outcome: Cow<'static, str>,
    /// The order, where it was named.
    pub order: Option<Arc<str>>,
    /// From the beginning of its crowd until the answer.
    pub at: Duration,
    /// Whether it was heard later, after `accepted`.
    pub is_later: bool,
    /// When the attempt was about to be sent.
    pub asked: Instant,
    /// When it was answered or given up.
    pub answered: Instant,
    /// The beginning of the answer's body.
    pub said: Option<Arc<str>>,
}

/// A buyer who heard `accepted`, and nothing more so far.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Undecided {
    /// Index into the buyers.
    pub buyer: usize,
    /// The order that is asked after, where orders are asked after one by one.
    pub order: Option<Arc<str>>,
    /// The node that said it.
    pub node: usize,
}

/// What an attempt came to in the end: by its buyer, and its order where orders are asked after.
pub type Decided = HashMap<(usize, Option<Arc<str>>), (Cow<'static, str>, Option<Arc<str>>)>;

/// One voucher.
#[derive(Debug)]
pub struct SaleRecord {
    /// What it was for.
    pub name: String,
    /// Its id.
    pub voucher: String,
    /// The stock that was there when the crowd came, where that is known.
    pub capacity: Option<i64>,
    /// The books before the crowd came.
    pub before: Option<BooksReading>,
    /// The books in the end.
    pub after: Option<QuietBooks>,
    /// Why there are none, where they could not be read.
    pub unread: Option<String>,
    /// Whether users have the same names here and in the books.
    pub knows_users: bool,
    /// After so long an order that is not paid may be cancelled.
    pub expire: Option<Duration>,
    /// Whether buyers ask after their orders one by one.
    pub by_order: bool,
    /// Whether it must sell nothing.
    pub is_closed: bool,
    /// All that buyers heard.
    pub heard: Vec<HeardAnswer>,
    /// Buyers who asked later, and whose last answer fitted no rule.
    pub unfit: HashSet<usize>,
}

impl SaleRecord {
    /// A voucher that nobody has heard of yet.
    #[must_use]
    pub fn new(name: String, voucher: String) -> Self {
        let heard = Vec::new();
        let (before, after, unread, capacity, expire) = (None, None, None, None, None);
        let (knows_users, by_order, is_closed) = (true, false, false);
        let unfit = HashSet::new();
        Self {
            name,
            voucher,
            capacity,
            before,
            after,
            unread,
            knows_users,
            expire,
            by_order,
            is_closed,
            heard,
            unfit,
        }
    }

    /// Every yes that told of an order the buyer had not been told of before, in the order of the crowds.
    pub fn yeses(&self) -> impl Iterator<Item = &HeardAnswer> {
        self.heard.iter().filter(|answer| answer.outcome == ORDERED)
    }

    /// How many.
    #[must_use]
    pub fn promised(&self) -> i64 {
        i64::try_from(self.yeses().count()).unwrap_or(i64::MAX)
    }

    /// Buyers whose attempts may have reached a server.
    #[must_use]
    pub fn asked(&self) -> i64 {
        let sent = self.heard.iter().filter(|answer| answer.outcome != NOT_SENT);
        let buyers: HashSet<usize> = sent.map(|answer| answer.buyer).collect();
        i64::try_from(buyers.len()).unwrap_or(i64::MAX)
    }

    /// Orders that the books must have in the end, at least, beside those that may have been cancelled since.
    #[must_use]
    pub fn expected(&self) -> i64 {
        let before = self.before.as_ref().map_or(0, |before| before.orders + before.cancelled);
        let is_old = |answer: &&HeardAnswer| {
            self.expire.is_some_and(|expire| answer.answered.elapsed() >= expire)
        };
        before + self.promised() - self.yeses().filter(is_old).count() as i64
    }

    /// Whether the order of this yes may have been cancelled before the books were read.
    #[must_use]
    pub fn may_be_expired(&self, answer: &HeardAnswer) -> bool {
        let read_at = self.after.as_ref().map(|after| after.read_at);
        self.expire
            .zip(read_at)
            .is_some_and(|(expire, read_at)| read_at >= answer.answered + expire)
    }

    /// Orders that were cancelled since the crowd came, as far as that is told; or that may have been.
    #[must_use]
    pub fn cancelled(&self) -> i64 {
        let Some(after) = &self.after else { return 0 };
        let before = self.before.as_ref().map_or(0, |before| before.cancelled);
        let told = after.reading.cancelled - before;
        let old = self.yeses().filter(|answer| self.may_be_expired(answer)).count() as i64;
        let missing = self.promised() - self.live_orders().unwrap_or(0);
        told.max(missing.min(old)).max(0)
    }

    /// Whether orders may be cancelled by time.
    #[must_use]
    pub fn cancels(&self) -> bool {
        self.expire.is_some() || self.cancelled() > 0
    }

    /// Orders in the books that were not there before the crowd, with those that were cancelled since; `None` without
    /// books.
    #[must_use]
    pub fn new_orders(&self) -> Option<i64> {
        Some(self.live_orders()? + self.cancelled())
    }

    /// The same without those that were cancelled.
    #[must_use]
    pub fn live_orders(&self) -> Option<i64> {
        let after = &self.after.as_ref()?.reading;
        Some(after.orders - self.before.as_ref().map_or(0, |before| before.orders))
    }

    /// The orders in the list that were not there before the crowd; `None` without a list.
    #[must_use]
    pub fn new_in_list(&self) -> Option<Vec<&BookedOrder>> {
        let after = &self.after.as_ref()?.reading;
        let list = after.list.as_ref()?.iter().chain(&after.cancelled_list);
        let before = self.before.iter();
        let before = before.flat_map(|it| it.list.iter().flatten().chain(&it.cancelled_list));
        let old: HashSet<&str> = before.map(|it| it.order.as_str()).collect();
        Some(list.filter(|booked| !old.contains(booked.order.as_str())).collect())
    }

    /// Those of the new orders that are of the crowd's users, where the books tell users apart; otherwise all.
    #[must_use]
    pub fn orders_of_crowd(&self) -> Option<i64> {
        let orders = self.new_orders()?;
        let Some(new) = self.new_in_list().filter(|_| self.knows_users) else {
            return Some(orders);
        };
        match self.has_other_names() {
            true => Some(orders),
            false => i64::try_from(self.of_crowd(&new)).ok(),
        }
    }

    fn of_crowd(&self, booked: &[&BookedOrder]) -> usize {
        let crowd: HashSet<&str> = self.heard.iter().map(|answer| &*answer.user).collect();
        booked.iter().filter(|booked| crowd.contains(booked.user.as_str())).count()
    }

    /// Whether the books name users otherwise than the file does: an order has another user there than the
    /// one who was told of it, or none of the buyers is there at all.
    #[must_use]
    pub fn has_other_names(&self) -> bool {
        let Some(new) = self.new_in_list().filter(|_| self.knows_users) else { return false };
        let users: HashMap<&str, &str> =
            new.iter().map(|booked| (booked.order.as_str(), booked.user.as_str())).collect();
        let has_other_name = |answer: &HeardAnswer| {
            let user = answer.order.as_deref().and_then(|order| users.get(order));
            user.is_some_and(|user| *user != &*answer.user)
        };
        self.yeses().any(has_other_name)
            || self.yeses().next().is_some() && !new.is_empty() && self.of_crowd(&new) == 0
    }

    /// Counts a yes that repeats what the same buyer was told before as "already bought": many servers
    /// answer a repeated request as they answered the first. A yes that names no order may repeat any other
    /// yes of its buyer, and may be one of its own: see [`UNNAMED`].
    pub fn count_repeated_yeses(&mut self) {
        let mut named: HashMap<usize, HashSet<Arc<str>>> = HashMap::new();
        for answer in self.heard.iter_mut().filter(|answer| answer.outcome == ORDERED) {
            if let Some(order) = &answer.order
                && !named.entry(answer.buyer).or_default().insert(order.clone())
            {
                answer.outcome = ALREADY_BOUGHT.into();
            }
        }
        let mut unnamed = HashSet::new();
        for answer in self.heard.iter_mut().filter(|answer| answer.outcome == ORDERED) {
            let is_unnamed = answer.order.is_none();
            if is_unnamed && (named.contains_key(&answer.buyer) || !unnamed.insert(answer.buyer)) {
                answer.outcome = UNNAMED.into();
            }
        }
    }

    /// Buyers who heard `accepted` and nothing more, each once; where orders are asked after, each order once.
    #[must_use]
    pub fn undecided(&self) -> Vec<Undecided> {
        let accepted = self.heard.iter().filter(|answer| answer.outcome == ACCEPTED);
        let undecided = accepted.map(|answer| {
            let (buyer, order) = self.question(answer);
            Undecided { buyer, order, node: answer.node }
        });
        let mut undecided: Vec<_> = undecided.collect();
        undecided.sort_unstable();
        undecided.dedup_by(|a, b| (a.buyer, &a.order) == (b.buyer, &b.order));
        undecided
    }

    /// After what is asked.
    fn question(&self, answer: &HeardAnswer) -> (usize, Option<Arc<str>>) {
        (answer.buyer, answer.order.clone().filter(|_| self.by_order))
    }

    /// Puts what buyers heard later in the place of `accepted`.
    pub fn decide(&mut self, decided: &Decided, at: Duration) {
        let mut seen = HashSet::new();
        for index in 0..self.heard.len() {
            let question = self.question(&self.heard[index]);
            let answer = &mut self.heard[index];
            if answer.outcome != ACCEPTED {
                continue;
            }
            let Some((outcome, order)) = decided.get(&question) else { continue };
            answer.is_later = true;
            answer.at = at;
            answer.answered = Instant::now();
            answer.order = order.clone().or_else(|| question.1.clone());
            answer.outcome = match (seen.insert(question), outcome.as_ref()) {
                (false, ORDERED) => ALREADY_BOUGHT.into(),
                _ => outcome.clone(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(orders: &[Option<&str>]) -> Vec<Cow<'static, str>> {
        let mut sale = SaleRecord::new(String::new(), String::new());
        sale.heard.extend(orders.iter().map(|order| HeardAnswer {
            buyer: 0,
            user: "u".into(),
            crowd: "",
            node: 0,
            outcome: ORDERED.into(),
            order: order.map(Arc::from),
            at: Duration::ZERO,
            is_later: false,
            asked: Instant::now(),
            answered: Instant::now(),
            said: None,
        }));
        sale.count_repeated_yeses();
        sale.heard.into_iter().map(|answer| answer.outcome).collect()
    }

    #[test]
    fn a_yes_without_an_id_is_an_order_only_where_no_other_yes_can_be_meant() {
        assert_eq!(outcomes(&[None]), [ORDERED]);
        assert_eq!(outcomes(&[None, None]), [ORDERED, UNNAMED]);
        assert_eq!(outcomes(&[None, Some("a")]), [UNNAMED, ORDERED]);
        assert_eq!(outcomes(&[Some("a"), None, Some("a")]), [ORDERED, UNNAMED, ALREADY_BOUGHT]);
        assert_eq!(outcomes(&[Some("a"), None, Some("b")]), [ORDERED, UNNAMED, ORDERED]);
    }
}
