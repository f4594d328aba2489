//! The judge of a check: the counts are those of `load::verdict`, the witnesses those of the answers.

use load::outcome::{NO_ANSWER, NOT_SENT, unknown_status};
use load::told::{Outcomes, in_words};
use load::verdict::{Expectations, Finding, Promise, StockColumn, Verdict, judge};

use super::counts::{books, told};
use super::evidence::{Evidence, Witness};
use super::promises::Ruling;
use super::sale_record::SaleRecord;
use super::target::CheckTarget;

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
    per_user: Option<u32>,
    /// What the file probably says wrongly, so that answers mean something else than it says.
    mistake: Option<String>,
}

impl<'a> Judge<'a> {
    /// Counts what happened to `sale`.
    #[must_use]
    pub fn new(sale: &'a SaleRecord, target: &'a CheckTarget) -> Self {
        let evidence = Evidence { sale, nodes: &target.nodes };
        let (has_later, per_user) = (target.later.is_some(), target.per_user);
        let expected = Expectations { per_user, ..Expectations::BESIDE_OTHERS };
        let verdict = books(&evidence);
        let verdict = verdict.map(|books| judge(&books, &told(sale, &books), &expected));
        let mistake = evidence.mistake();
        Self { evidence, verdict, has_later, per_user, mistake }
    }

    /// Whether this voucher can say something of a promise that the file makes.
    #[must_use]
    pub fn is_about(&self, promise: Promise) -> bool {
        match promise {
            Promise::InItsWindow => self.evidence.sale.is_closed,
            Promise::EveryAttemptAnswered => true,
            Promise::OnePerUser => !self.evidence.sale.is_closed && self.per_user.is_some(),
            _ => !self.evidence.sale.is_closed,
        }
    }

    /// What this voucher says of a promise.
    #[must_use]
    pub fn ruling(&self, promise: Promise) -> Ruling {
        let is_of_answers =
            ![Promise::BooksAddUp, Promise::EveryAttemptAnswered].contains(&promise);
        if let Some(mistake) = self.mistake.as_ref().filter(|_| is_of_answers) {
            // What the books say by themselves stands.
            let by_books = [Promise::NoOversell, Promise::OnePerUser].contains(&promise);
            let found = self.found(promise).filter(|_| by_books && self.doubt().is_none());
            return match found {
                Some(sentence) => Ruling::Broken(sentence, Vec::new()),
                None => Ruling::Unknown(mistake.clone()),
            };
        }
        match promise {
            Promise::NoOversell => self.oversold(),
            Promise::OnePerUser => self.twice(),
            Promise::NoUndersell => self.undersold(),
            Promise::BooksAddUp => self.misbooked(),
            Promise::NoLostOrder => self.lost(),
            Promise::NoUntoldOrder => self.untold(),
            Promise::EveryAttemptAnswered => self.unanswered(),
            Promise::InItsWindow => self.sold_outside(),
        }
    }

    /// Of a voucher that must sell nothing.
    fn sold_outside(&self) -> Ruling {
        let sale = self.evidence.sale;
        let yeses: Vec<_> = sale.yeses().collect();
        let orders = sale.new_orders().unwrap_or(0);
        if !yeses.is_empty() || orders > 0 {
            let told = yeses.len();
            let sentence =
                format!("nothing may be sold now: {told} heard yes, {orders} new orders");
            let booked = self.evidence.untold();
            return Ruling::Broken(sentence, [self.evidence.sentences(&yeses), booked].concat());
        }
        self.doubt().unwrap_or(Ruling::Holds)
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
        // What is cancelled may be sold again.
        let (found, beyond) = match (sale.cancels(), sale.live_orders()) {
            (true, Some(orders)) if orders > capacity => {
                (Some(format!("{orders} orders for a stock of {capacity}")), Vec::new())
            }
            (true, _) => (None, Vec::new()),
            (false, _) => (self.found(Promise::NoOversell), self.evidence.beyond(capacity)),
        };
        match found {
            Some(sentence) => return Ruling::Broken(sentence, beyond),
            None if !beyond.is_empty() => {
                let yeses = sale.promised();
                let sentence = format!("{yeses} buyers heard yes for a stock of {capacity}");
                return Ruling::Broken(sentence, beyond);
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
        let Some(most) = self.per_user else { unreachable!("the promise is not made") };
        let told = self.evidence.told_beyond(most);
        let told_of_two = |witness| told_beyond(most, witness);
        if let Some(doubt) = self.doubt() {
            return told.map_or(doubt, told_of_two);
        }
        let after = self.evidence.sale.after.as_ref();
        if after.is_none_or(|after| after.reading.users.is_none()) {
            return told.map_or(Ruling::Unknown(NO_USERS.to_owned()), told_of_two);
        }
        let booked = self.evidence.booked_beyond(most);
        match (self.found(Promise::OnePerUser), booked, told) {
            (Some(sentence), booked, told) => Ruling::Broken(
                sentence,
                booked.into_iter().chain(told.into_iter().flatten()).collect(),
            ),
            (None, Some(booked), told) => {
                let witnesses = std::iter::once(booked).chain(told.into_iter().flatten()).collect();
                Ruling::Broken(format!("a buyer has more orders than {most}"), witnesses)
            }
            (None, None, Some(told)) => told_of_two(told),
            (None, None, None) => {
                self.untested().unwrap_or_else(|| match self.evidence.tried_beyond(most) {
                    true => Ruling::Holds,
                    false => Ruling::Untested(
                        "nobody who bought tried more often than one may buy".to_owned(),
                    ),
                })
            }
        }
    }

    fn undersold(&self) -> Ruling {
        let sale = self.evidence.sale;
        if !self.has_later
            && !sale.cancels()
            && !self.has_strangers()
            && let Some(witnesses) = self.evidence.refused_before_one_was_served()
        {
            let sentence = "a buyer was refused, and one who asked after that was served";
            return Ruling::Broken(sentence.to_owned(), witnesses);
        }
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        if self.evidence.sale.capacity.is_none() {
            return Ruling::Unknown(NO_STOCK.to_owned());
        }
        if let Some(sentence) = self.found(Promise::NoUndersell) {
            return Ruling::Broken(sentence, self.evidence.refused());
        }
        self.untested().unwrap_or(Ruling::Holds)
    }

    fn misbooked(&self) -> Ruling {
        if let Some(doubt) = self.doubt() {
            return doubt;
        }
        let sale = self.evidence.sale;
        match (sale.capacity, self.stock_left(), sale.live_orders()) {
            (None, ..) => Ruling::Unknown(NO_STOCK.to_owned()),
            (_, None, _) => Ruling::Unknown(NO_STOCK_LEFT.to_owned()),
            (Some(initial_stock), Some(stock), Some(orders)) if orders + stock != initial_stock => {
                let column = StockColumn { orders, initial_stock, stock };
                Ruling::Broken(Finding::Misbooked(column).to_string(), Vec::new())
            }
            _ => self.untested().unwrap_or(Ruling::Holds),
        }
    }

    /// Whether somebody else bought, who may have given something back, too.
    fn has_strangers(&self) -> bool {
        let sale = self.evidence.sale;
        sale.new_orders() != sale.orders_of_crowd()
    }

    fn lost(&self) -> Ruling {
        let sale = self.evidence.sale;
        if let Some(order) = self.evidence.one_id_for_all() {
            return Ruling::Unknown(format!(
                "every yes names the order {order}: let `order` point at the order's own id"
            ));
        }
        let has_all = self.doubt().is_none() && sale.new_orders() >= Some(sale.promised());
        if let Some((order, shared)) = self.evidence.shared_order() {
            if has_all && !self.evidence.is_listed(&order) {
                return Ruling::Unknown(format!(
                    "two buyers were told of the order {order}, and the books have an order for each yes: \
                     let `order` point at the order's own id"
                ));
            }
            let sentence = "two buyers were told of one order".to_owned();
            return Ruling::Broken(sentence, shared);
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
            return Ruling::Broken(sentence, self.evidence.sentences(&missing));
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
            return Ruling::Broken(sentence, self.evidence.untold());
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
            return Ruling::Broken(sentence, self.evidence.of_outcomes(&failed));
        }
        let mut undecided = sale.undecided();
        let all = undecided.len();
        undecided.retain(|it| !sale.unfit.contains(&it.buyer));
        let unfit = all - undecided.len();
        let undecided = undecided.len();
        if undecided > 0 && self.has_later {
            let sentence =
                format!("{undecided} accepted buyers asked, and heard nothing more in time");
            return Ruling::Broken(sentence, Vec::new());
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

fn told_beyond(most: u32, witnesses: Vec<Witness>) -> Ruling {
    Ruling::Broken(format!("a buyer was told of more orders than {most}"), witnesses)
}
