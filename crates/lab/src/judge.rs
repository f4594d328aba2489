//! What came of a replay: a verdict with a witness.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::admissions;
use super::scheduler::{Act, ActorRecord, Scheduler};
use super::told::{NotInstalled, Several, Witness, words};
use ladder::{Answer, Invariant};
use seckill::model::VoucherId;
use seckill::purchase::audit::{OrderLives, VoucherAudit};

words! {
    /// What a cell came to, or is claimed to come to. What is unknown did not come to its end, and is never counted as
    /// either; what is skipped lacks something on this machine, and is no failure.
    #[derive(Copy, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub Outcome {
        Holds => "holds", "守住";
        Breaks => "breaks", "被打破";
        Unknown => "unknown", "没有结论";
        Skipped => "skipped", "跳过";
        Absent => "makes no sense here", "在这里没有意义";
    }
}

impl Outcome {
    /// A sign of one column, so that no colour is needed.
    pub const fn sign(self) -> char {
        match self {
            Self::Holds => '✓',
            Self::Breaks => '✗',
            Self::Unknown => '?',
            Self::Skipped => '–',
            Self::Absent => '·',
        }
    }

    /// What something is claimed to do.
    pub const fn infinitive(self) -> &'static str {
        if matches!(self, Self::Breaks) { "break" } else { "hold" }
    }
}

/// Why `error` says nothing about the ladder: this machine lacks something. The sentence says
/// what, and how to get it.
pub fn missing(error: &anyhow::Error) -> Option<String> {
    NotInstalled::of(error).map(|missing| missing.to_string())
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What was seen.
    pub(super) observed: Outcome,
    /// What shows it, or why nothing can be said.
    pub(super) witness: Option<Witness>,
}

impl Verdict {
    /// Kept.
    pub(super) const HOLDS: Self = Self { observed: Outcome::Holds, witness: None };

    /// Broken.
    pub(super) const fn breaks(witness: Witness) -> Self {
        Self { observed: Outcome::Breaks, witness: Some(witness) }
    }

    /// Nothing can be said.
    pub(super) const fn unknown(why: Witness) -> Self {
        Self { observed: Outcome::Unknown, witness: Some(why) }
    }

    /// Nothing was played.
    pub(super) const fn skipped(missing: NotInstalled) -> Self {
        Self { observed: Outcome::Skipped, witness: Some(Witness::Missing { missing }) }
    }

    /// What a replay that failed amounts to: what is not installed proves nothing.
    pub(super) fn of_failure(error: &anyhow::Error) -> Self {
        match NotInstalled::of(error) {
            Some(missing) => Self::skipped(missing),
            None => Self::unknown(format!("{error:#}").into()),
        }
    }
}

/// A promise that is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// The promise.
    pub invariant: Invariant,
    /// What shows it.
    pub witness: Witness,
}

/// The books of a voucher, as one statement reads them.
pub(super) struct Books {
    pub(super) audit: VoucherAudit,
    /// Live orders and their users, in the order in which they were written.
    pub(super) orders: Vec<(i64, i64)>,
    /// The same of orders that are cancelled or refunded.
    ended: Vec<(i64, i64)>,
    /// Orders whose time to pay is over, and nobody has ended them.
    overdue: i64,
}

impl Books {
    /// Reads them.
    pub(super) async fn of(scheduler: &Scheduler<'_>, voucher: i64) -> anyhow::Result<Self> {
        let row = sqlx::query_as::<_, (i32, i32, Vec<i64>, Vec<i64>, Vec<bool>, i64)>(
            "select initial_stock,
                    coalesce((select sum(g.stock) from stock_segments g
                              where g.voucher_id = s.voucher_id), stock)::int,
                    array(select id from orders o where o.voucher_id = s.voucher_id order by id),
                    array(select user_id from orders o where o.voucher_id = s.voucher_id order by id),
                    array(select status not in (4, 6) from orders o
                          where o.voucher_id = s.voucher_id order by id),
                    (select count(*) from orders o where o.voucher_id = s.voucher_id
                       and status = 1 and pay_by <= now())
             from seckill_vouchers s where voucher_id = $1",
        );
        let (initial_stock, stock, ids, users, live, overdue) =
            row.bind(voucher).fetch_one(&scheduler.database).await?;
        let written = ids.into_iter().zip(users).zip(live);
        let (live, ended): (Vec<_>, Vec<_>) = written.partition(|(_, is_live)| *is_live);
        let named =
            |orders: Vec<((i64, i64), bool)>| orders.into_iter().map(|(it, _)| it).collect();
        let (orders, ended): (Vec<(i64, i64)>, _) = (named(live), named(ended));
        let distinct: BTreeSet<i64> = orders.iter().map(|(_, user)| *user).collect();
        let audit = VoucherAudit {
            life: OrderLives::default(),
            voucher_id: VoucherId::try_from(voucher)?,
            initial_stock: initial_stock.into(),
            stock: stock.into(),
            orders: orders.len() as i64,
            distinct_users: distinct.len() as i64,
            holds: true,
            violations: Vec::new(),
        };
        Ok(Self { audit, orders, ended, overdue })
    }

    /// Why a promise is broken, as far as the books show it.
    fn broken(&self, invariant: Invariant, scheduler: &Scheduler<'_>) -> Option<Witness> {
        match invariant {
            Invariant::NoOversell => self.oversold(),
            Invariant::OnePerUser => self.twice().map(|(user, orders)| {
                let numbers = orders.iter().map(|order| self.number(*order, scheduler));
                let (user, count) = (user - scheduler.first_user + 1, orders.len());
                Witness::TheseOrders { user, count, orders: Several::Both(numbers.collect()) }
            }),
            Invariant::NoUndersell => self.undersold(scheduler),
            Invariant::NoLastingRefusal => self.refused(scheduler),
            Invariant::NoStuckStock => self.stuck(),
            Invariant::WithinRate => admissions::over_the_rate(scheduler),
            Invariant::LetInOnce => admissions::let_in_twice(scheduler),
            Invariant::FairOrder => self.passed(scheduler),
            _ => None,
        }
    }

    /// Orders against stock, not the stock column alone: lost updates hide there.
    pub(super) fn oversold(&self) -> Option<Witness> {
        let VoucherAudit { orders, initial_stock: initial, stock: column, .. } = self.audit;
        (self.audit.oversold() > 0).then_some(Witness::Oversold { orders, initial, column })
    }

    /// The first user who holds several orders, and these.
    pub(super) fn twice(&self) -> Option<(i64, Vec<i64>)> {
        let mut by_user: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (order, user) in &self.orders {
            by_user.entry(*user).or_default().push(*order);
        }
        by_user.into_iter().find(|(_, orders)| orders.len() > 1)
    }

    /// Which order it is, from 1: as the timeline counts them; where that names none, as they were
    /// written.
    fn number(&self, order: i64, scheduler: &Scheduler<'_>) -> usize {
        let written = || self.orders.iter().take_while(|(id, _)| *id != order).count() + 1;
        scheduler.log.number_of_order(order).unwrap_or_else(written)
    }

    /// Why a buyer should not have been told "sold out", or where vouchers have gone.
    pub(super) fn undersold(&self, scheduler: &Scheduler<'_>) -> Option<Witness> {
        let VoucherAudit { orders, initial_stock: initial, stock: left, .. } = self.audit;
        if orders + left != initial {
            return Some(Witness::OutOfBalance { orders, left, initial });
        }
        self.refused(scheduler)
    }

    /// The buyers who were told "sold out" though some were on sale from the request to the answer. Where Redis decides, what it
    /// has promised is still to be written: there only the end shows it.
    fn refused(&self, scheduler: &Scheduler<'_>) -> Option<Witness> {
        let at_the_end = Some(self.audit.stock).filter(|left| *left > 0);
        let mut most = 0;
        let mut sent_away = Vec::new();
        for (record, answer) in scheduler.answered() {
            let left = match scheduler.rung.decides_in_database() {
                true => record.refused_of,
                false => at_the_end.filter(|_| answer == Answer::SoldOut),
            };
            if let Some(left) = left.filter(|_| record.voucher == self.audit.voucher_id.get()) {
                most = left.max(most);
                sent_away.push(record.name);
            }
        }
        let buyers = Several::Listed(sent_away);
        (most > 0).then_some(Witness::SentAway { buyers, left: most })
    }

    /// Vouchers that nobody has paid for in time, and nobody can buy.
    pub(super) fn stuck(&self) -> Option<Witness> {
        let VoucherAudit { orders, initial_stock: initial, stock, .. } = self.audit;
        let gone = (initial - orders - stock).max(0);
        match (self.overdue, gone) {
            (0, 0) => None,
            (0, gone) => Some(Witness::NotOnSaleAgain { gone, initial }),
            (overdue, _) => Some(Witness::NotPaidInTime { overdue, initial }),
        }
    }

    /// A buyer who stood in line, and has no order, or a later one than somebody who came behind. Orders have rising
    /// numbers.
    fn passed(&self, scheduler: &Scheduler<'_>) -> Option<Witness> {
        let told =
            |order: i64| scheduler.answered().any(|(_, answer)| answer == Answer::Ordered(order));
        let written = || self.orders.iter().chain(&self.ended);
        // The order that was offered to one in line is the one of which nobody was told.
        let served = |record: &ActorRecord| match record.answer {
            Some(Act::Done(Answer::Ordered(order))) => Some(order),
            Some(Act::Done(Answer::InLine)) => written()
                .filter(|(order, user)| *user == record.user && !told(*order))
                .map(|(order, _)| *order)
                .min(),
            _ => None,
        };
        scheduler.actors.iter().find_map(|record| {
            let order = served(record)?;
            let ahead = record.behind.iter().map(|nth| &scheduler.actors[*nth]);
            let mut passed = ahead.filter(|ahead| served(ahead).is_none_or(|it| it > order));
            passed.next().map(|it| Witness::Passed { ahead: it.name, behind: record.name })
        })
    }

    /// Whether the user was written an order of this number, whatever became of it.
    fn has_written(&self, order: i64, user: i64) -> bool {
        self.orders.iter().chain(&self.ended).any(|written| *written == (order, user))
    }
}

/// A buyer that was told of an order, and has none: `no_broken_promise`. Of a rung that writes before it
/// answers this is `no_lost_order`, which no scenario may cost.
pub(super) fn lost(scheduler: &Scheduler<'_>, books: &[Books]) -> Option<(&'static str, i64)> {
    let is_written =
        |order: i64, user: i64| books.iter().any(|books| books.has_written(order, user));
    let mut seen = Vec::new();
    for (record, answer) in scheduler.answered() {
        let Answer::Ordered(order) = answer else { continue };
        // Where a buyer asks later, all of its attempts hear the same.
        let is_taken = !scheduler.rung.has_consumer() && seen.contains(&order);
        if is_taken || !is_written(order, record.user) {
            return Some((record.name, order));
        }
        seen.push(order);
    }
    None
}

/// The promises that a voucher's books and what every buyer was told break, in whatever order things happened.
/// No witness names an order: ids come out otherwise the next time.
pub(super) fn broken_promises(scheduler: &Scheduler<'_>, books: &Books) -> Vec<Breach> {
    // As the scenarios call it.
    let promise = match scheduler.rung.has_consumer() {
        true => Invariant::NoBrokenPromise,
        false => Invariant::NoLostOrder,
    };
    let of_books = [
        Invariant::NoOversell,
        Invariant::OnePerUser,
        Invariant::NoUndersell,
        Invariant::WithinRate,
        Invariant::LetInOnce,
        Invariant::FairOrder,
    ];
    let of_books = of_books.map(|invariant| (invariant, books.broken(invariant, scheduler)));
    let lost = lost(scheduler, std::slice::from_ref(books));
    let lost = (promise, lost.map(|(buyer, _)| Witness::NoSuchOrder { buyer }));
    let found = of_books.into_iter().chain([lost]).filter_map(|(invariant, witness)| {
        let witness = match witness? {
            Witness::TheseOrders { user, count, .. } => Witness::SeveralOrders { user, count },
            witness => witness,
        };
        Some(Breach { invariant, witness })
    });
    found.collect()
}

/// Judges one promise from the database, from what every buyer was told, and from what the
/// scenario itself saw.
pub(super) async fn judge(
    scheduler: &Scheduler<'_>,
    invariant: Invariant,
) -> anyhow::Result<Verdict> {
    let mut books = Vec::new();
    for voucher in &scheduler.vouchers {
        books.push(Books::of(scheduler, *voucher).await?);
    }
    let mut witnesses = scheduler.log.breaches().to_vec();
    let rung = scheduler.rung;
    match lost(scheduler, &books) {
        // No rung that writes before it answers may break this, but where its database loses what it has committed.
        Some((name, order)) if !rung.has_consumer() && invariant != Invariant::NoLostOrder => {
            let why = format!("no_lost_order: {name} was told of order {order}, and has none");
            return Ok(Verdict::unknown(why.into()));
        }
        Some((name, _)) => {
            let witness = Witness::NoOrder { buyer: name };
            if [Invariant::NoBrokenPromise, Invariant::NoLostOrder].contains(&invariant) {
                witnesses.push(witness);
            } else if rung.claims.contains(&Invariant::NoBrokenPromise) {
                return Ok(Verdict::unknown(format!("no_broken_promise: {witness}").into()));
            }
        }
        None => {}
    }
    for (nth, books) in (1..).zip(&books) {
        let of_voucher = |found| Witness::OfVoucher { voucher: nth, witness: Box::new(found) };
        witnesses.extend(books.broken(invariant, scheduler).map(of_voucher));
    }
    if invariant == Invariant::NoLostPayment {
        witnesses.extend(scheduler.lost_payments().await?);
    }
    Ok(match witnesses.is_empty() {
        true => Verdict::HOLDS,
        false => Verdict::breaks(Witness::All { witnesses: Several::Sentences(witnesses) }),
    })
}
