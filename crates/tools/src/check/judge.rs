//! The judge of a check: the counts are those of `load::verdict`, the witnesses those of the answers.

use std::collections::{BTreeMap, BTreeSet};

use load::outcome::{ACCEPTED, ALREADY_BOUGHT, NO_ANSWER, NOT_SENT, ORDERED, unknown_status};
use load::told::{Outcomes, RefusedBuyers, Told, in_words};
use load::verdict::{Books, Expectations, Promise, Verdict, judge};

use super::addresses::CheckNode;
use super::evidence::Evidence;
use super::promises::Ruling;
use super::sale_record::SaleRecord;

/// What a buyer has heard who was accepted and then nothing more: an order may come of it.
const UNDECIDED: &str = "undecided";

const NO_BOOKS: &str =
    "the answers alone cannot say: give [books], a command that prints orders, users and stock";
const STILL_MOVING: &str =
    "the books still changed when the time was up: give [books] a longer within";
const NO_STOCK: &str = "the stock is not known: print \"stock\" in [books], or give [sale] stock";
const NO_USERS: &str = "the users are not known: print \"users\" in [books]";
const NO_STOCK_LEFT: &str = "the stock left is not known: print \"stock\" in [books]";
const OTHER_IDS: &str = "none of the orders that buyers were told of is in the list, and the counts agree: let \
                         `order` point at the id that the list prints";
const NO_LATER: &str = "what became of accepted buyers is not known: give [later]";

/// One voucher, and how its crowd was counted.
pub struct Judge<'a> {
    evidence: Evidence<'a>,
    /// `None` without books.
    verdict: Option<Verdict>,
    has_later: bool,
}

impl<'a> Judge<'a> {
    /// Counts what happened to `sale`.
    #[must_use]
    pub fn new(sale: &'a SaleRecord, nodes: &'a [CheckNode], has_later: bool) -> Self {
        let evidence = Evidence { sale, nodes };
        let verdict = books(&evidence);
        let expected = Expectations::BESIDE_OTHERS;
        let verdict = verdict.map(|books| judge(&books, &told(sale, &books), &expected));
        Self { evidence, verdict, has_later }
    }

    /// What this voucher says of a promise.
    #[must_use]
    pub fn ruling(&self, promise: Promise) -> Ruling {
        match promise {
            Promise::NoOversell => self.oversold(),
            Promise::OnePerUser => self.twice(),
            Promise::NoUndersell => self.undersold(),
            Promise::BooksAddUp => self.misbooked(),
            Promise::NoLostOrder => self.lost(),
            Promise::NoUntoldOrder => self.untold(),
            Promise::EveryAttemptAnswered => self.unanswered(),
        }
    }

    /// What the judge of all crowds finds against a promise.
    fn found(&self, promise: Promise) -> Option<String> {
        self.verdict.as_ref()?.against(promise).map(ToString::to_string)
    }

    /// Why the books decide nothing.
    fn doubt(&self) -> Option<Ruling> {
        let sale = self.evidence.sale;
        let why = match (&sale.after, &sale.unread) {
            (Some(after), _) if after.is_quiet => return None,
            (Some(_), _) => STILL_MOVING.to_owned(),
            (None, Some(why)) => why.clone(),
            (None, None) => NO_BOOKS.to_owned(),
        };
        Some(Ruling::Unknown(why))
    }

    fn stock_left(&self) -> Option<i64> {
        self.evidence.sale.after.as_ref()?.reading.stock
    }

    /// Whether anybody bought.
    fn untested(&self) -> Option<Ruling> {
        let sale = self.evidence.sale;
        let nobody = sale.promised() == 0 && sale.new_orders().unwrap_or(0) == 0;
        nobody.then(|| Ruling::Untested("nobody was sold anything: look at the answers".to_owned()))
    }

    fn oversold(&self) -> Ruling {
        let sale = self.evidence.sale;
        let Some(capacity) = sale.capacity else { return Ruling::Unknown(NO_STOCK.to_owned()) };
        let beyond = self.evidence.beyond(capacity);
        match self.found(Promise::NoOversell) {
            Some(sentence) => return broken(sentence, beyond),
            None if !beyond.is_empty() => {
                let yeses = sale.promised();
                return broken(
                    format!("{yeses} buyers heard yes for a stock of {capacity}"),
                    beyond,
                );
            }
            None => {}
        }
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        match sale.new_orders() {
            Some(orders) if orders < capacity => Ruling::Untested(format!(
                "the stock was not sold out, {orders} of {capacity}: give more --users, or less stock"
            )),
            Some(_) if sale.asked() <= capacity => Ruling::Untested(format!(
                "not more buyers asked than the stock of {capacity}: give more --users, or less stock"
            )),
            _ => Ruling::Holds,
        }
    }

    fn twice(&self) -> Ruling {
        let told = self.evidence.told_twice();
        if let Some(doubt) = self.doubt() {
            return told.map_or(doubt, told_of_two);
        }
        let after = self.evidence.sale.after.as_ref();
        if after.is_none_or(|after| after.reading.users.is_none()) {
            return told.map_or(Ruling::Unknown(NO_USERS.to_owned()), told_of_two);
        }
        match (self.found(Promise::OnePerUser), told) {
            (Some(sentence), told) => {
                let booked = self.evidence.booked_twice();
                broken(sentence, booked.into_iter().chain(told.into_iter().flatten()).collect())
            }
            (None, Some(told)) => told_of_two(told),
            (None, None) => self.untested().unwrap_or_else(|| match self.evidence.tried_twice() {
                true => Ruling::Holds,
                false => Ruling::Untested("nobody who bought tried a second time".to_owned()),
            }),
        }
    }

    fn undersold(&self) -> Ruling {
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        if self.evidence.sale.capacity.is_none() {
            return Ruling::Unknown(NO_STOCK.to_owned());
        }
        if let Some(sentence) = self.found(Promise::NoUndersell) {
            return broken(sentence, self.evidence.refused());
        }
        self.untested().unwrap_or(Ruling::Holds)
    }

    fn misbooked(&self) -> Ruling {
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        match (self.evidence.sale.capacity, self.stock_left()) {
            (None, _) => Ruling::Unknown(NO_STOCK.to_owned()),
            (_, None) => Ruling::Unknown(NO_STOCK_LEFT.to_owned()),
            _ => match self.found(Promise::BooksAddUp) {
                Some(sentence) => broken(sentence, Vec::new()),
                None => self.untested().unwrap_or(Ruling::Holds),
            },
        }
    }

    fn lost(&self) -> Ruling {
        let sale = self.evidence.sale;
        if let Some(order) = self.evidence.one_id_for_all() {
            return Ruling::Unknown(format!(
                "every yes names the order {order}: let `order` point at the order's own id"
            ));
        }
        if let Some(shared) = self.evidence.shared_order() {
            return broken("two buyers were told of one order".to_owned(), shared);
        }
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        let orders = sale.new_orders().unwrap_or(0);
        let promised = sale.promised();
        let lost = self.verdict.as_ref().map_or(0, |verdict| verdict.counts().lost);
        if lost > 0 {
            let missing = self.evidence.not_in_list().unwrap_or_default();
            let sentence =
                format!("{lost} told and not in the books: {promised} told, {orders} new orders");
            return broken(sentence, self.evidence.sentences(&missing));
        }
        if self.evidence.has_other_ids() {
            return Ruling::Unknown(OTHER_IDS.to_owned());
        }
        let undecided = sale.undecided().len() as i64;
        if undecided > 0 && !self.has_later && orders < promised + undecided {
            return Ruling::Unknown(NO_LATER.to_owned());
        }
        self.untested().unwrap_or(Ruling::Holds)
    }

    fn untold(&self) -> Ruling {
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        let untold = self.verdict.as_ref().map_or(0, |verdict| verdict.counts().untold);
        if untold > 0 {
            let sentence = format!(
                "{untold} orders in the books that no buyer was told of, unless somebody else bought \
                 meanwhile"
            );
            return broken(sentence, self.evidence.untold());
        }
        self.untested().unwrap_or(Ruling::Holds)
    }

    fn unanswered(&self) -> Ruling {
        let sale = self.evidence.sale;
        let (mut failed, mut unread) = (Outcomes::new(), Outcomes::new());
        for answer in &sale.heard {
            let outcome = answer.outcome.as_ref();
            let counted = match unknown_status(outcome) {
                Some(500..=599) => &mut failed,
                Some(_) => &mut unread,
                None if [NO_ANSWER, NOT_SENT].contains(&outcome) => &mut failed,
                None => continue,
            };
            *counted.entry(outcome.to_owned()).or_default() += 1;
        }
        if !failed.is_empty() {
            let sentence = format!("attempts without a proper answer: {}", in_words(&failed));
            return broken(sentence, Vec::new());
        }
        let mut undecided = sale.undecided();
        let all = undecided.len();
        undecided.retain(|(buyer, _)| !sale.unfit.contains(buyer));
        let unfit = all - undecided.len();
        let undecided = undecided.len();
        if undecided > 0 && self.has_later {
            let sentence =
                format!("{undecided} accepted buyers asked, and heard nothing more in time");
            return broken(sentence, Vec::new());
        }
        if unfit > 0 {
            return Ruling::Unknown(format!(
                "{unfit} accepted buyers asked, and the answers fit no [[later.answer]]: see the examples"
            ));
        }
        if !unread.is_empty() {
            let sentence = format!(
                "answers that fit no rule: {}; give an [[answer]] for each, see the examples",
                in_words(&unread)
            );
            return Ruling::Unknown(sentence);
        }
        Ruling::Holds
    }
}

fn told_of_two(witness: Vec<String>) -> Ruling {
    broken("a buyer was told of two orders".to_owned(), witness)
}

fn broken(sentence: String, witness: Vec<String>) -> Ruling {
    Ruling::Broken([vec![sentence], witness].concat())
}

/// The books of what happened while the crowd was there.
fn books(evidence: &Evidence<'_>) -> Option<Books> {
    let sale = evidence.sale;
    let after = &sale.after.as_ref()?.reading;
    let orders = sale.new_orders()?;
    let old_users = sale.before.as_ref().and_then(|before| before.users).unwrap_or(0);
    // Without a capacity nothing is unsold, and without users nobody has two.
    let initial_stock = sale.capacity.unwrap_or(orders);
    let promised = sale.promised();
    let lost = match evidence.not_in_list() {
        Some(missing) if !evidence.has_other_ids() => (missing.len() as i64).max(promised - orders),
        _ => promised - orders,
    };
    Some(Books {
        initial_stock,
        stock: after.stock.filter(|_| sale.capacity.is_some()).unwrap_or(initial_stock - orders),
        orders,
        distinct_users: after.users.map_or(orders, |users| users - old_users),
        orders_of_crowd: sale.orders_of_crowd()?,
        lost: lost.max(0),
        twice: None,
        objections: Vec::new(),
    })
}

/// What buyers were told of a voucher.
fn told(sale: &SaleRecord, books: &Books) -> Told {
    let had_orders = sale.before.as_ref().is_some_and(|before| before.orders > 0);
    let mut told = Told::default();
    let mut of_buyers: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for answer in &sale.heard {
        let code = match answer.outcome.as_ref() {
            ACCEPTED => UNDECIDED,
            code => code,
        };
        *told.outcomes.entry(code.to_owned()).or_default() += 1;
        of_buyers.entry(answer.buyer).or_default().insert(code.to_owned());
    }
    for codes in of_buyers.into_values() {
        if codes.contains(ORDERED) || codes.contains(ALREADY_BOUGHT) && !had_orders {
            told.served += 1;
        } else if codes.contains(ALREADY_BOUGHT) {
            // The order may be one of those that were there before.
        } else {
            match told.refused_buyers.iter_mut().find(|group| group.codes == codes) {
                Some(group) => group.buyers += 1,
                None => told.refused_buyers.push(RefusedBuyers { codes, buyers: 1 }),
            }
        }
    }
    if had_orders {
        // A buyer who had an order before and was sold another one is no new user in the books.
        told.served = told.served.min(u64::try_from(books.distinct_users).unwrap_or(0));
    }
    told
}
