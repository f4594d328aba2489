//! What came of a rush.

use std::collections::BTreeMap;

use serde::Serialize;

use super::later::WrittenLater;
use crate::world::USERS_PER_CELL;
use ladder::{Invariant, LockKind, Rung};
use load::crowd::CrowdReport;
use load::latency::LatencyMs;
use load::outcome::ACCEPTED;
use seckill::purchase::audit::VoucherAudit;

/// What a buyer may be told by a rung; everything else is no proper answer.
const EXPECTED: [&str; 5] =
    ["ordered", ACCEPTED, "sold_out", "already_bought", "order_in_progress"];

/// What a rung says when its servers do not answer.
const UNAVAILABLE: &str = "unavailable";

/// Of so many attempts one may be refused because the lock's one server was late.
const EXCUSED_OF: u64 = 4;

/// What came of a rush.
#[derive(Debug, Clone, Serialize)]
pub struct RushReport {
    /// The rung.
    pub rung: &'static str,
    /// Buyers.
    pub users: u32,
    /// What the order of their attempts was drawn from.
    pub seed: u64,
    /// Orders in the database.
    pub orders: i64,
    /// Vouchers at the beginning.
    pub stock: i64,
    /// What the stock column says in the end.
    pub remaining: i64,
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Orders beyond one per user.
    pub duplicates: i64,
    /// Vouchers that vanished, or stayed unsold though somebody without one was told that
    /// they are sold out.
    pub undersold: i64,
    /// Orders acknowledged that the database does not hold.
    pub lost: i64,
    /// Attempts without a proper answer: `http_500`, `unavailable`, `no_answer`, `not_sent`.
    /// See [`RushReport::as_claimed`] for those that have an excuse.
    pub unexpected: u64,
    /// Attempts by what they were told.
    pub outcomes: BTreeMap<String, u64>,
    /// From the first attempt to the last answer.
    pub elapsed_ms: f64,
    /// Orders a second.
    pub orders_per_s: f64,
    /// Answers of any kind a second.
    pub answers_per_s: f64,
    /// Of all answers.
    pub latency_ms: Option<LatencyMs>,
    /// Of a rung that answers first: how far its orders are behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_later: Option<WrittenLater>,
    /// The promises that were not kept, of those that a rush can judge: `no_oversell`,
    /// `one_per_user`, `no_undersell`, `no_lost_order`, `no_broken_promise`.
    pub broken: Vec<Invariant>,
    /// What is wrong, a sentence each.
    pub witnesses: Vec<String>,
    /// Whether every promise was kept, and what came of every attempt can be judged.
    pub holds: bool,
    /// Whether every promise was kept that the rung claims, or that no scenario is said to
    /// break it in, and what came of every attempt can be judged.
    ///
    /// An attempt without a proper answer cannot, with one exception: `unavailable`, from a
    /// rung whose lock is on servers that on a busy machine do not answer in time, is an
    /// honest refusal as long as nothing was left that its hearer could have bought, and as not
    /// more than a quarter of all hear it where the lock is on one server.
    pub as_claimed: bool,
}

/// What the database says.
#[derive(Debug)]
pub(super) struct SaleResult {
    pub(super) books: VoucherAudit,
    /// AcknowledgedOrder orders that are not there.
    pub(super) lost: i64,
    /// The buyer with most orders, if more than one, and the orders.
    pub(super) twice: Option<(i64, Vec<i64>)>,
}

impl RushReport {
    pub(super) fn new(
        rung: &'static Rung,
        terms: RushOptions,
        seed: u64,
        sale: &SaleResult,
        crowd: CrowdReport,
    ) -> Self {
        let books = &sale.books;
        let sent_away = i64::try_from(crowd.refused_buyers_told("sold_out")).unwrap_or(i64::MAX);
        let improper = |code: &&String| !EXPECTED.contains(&code.as_str());
        let unexpected = crowd.outcomes.keys().filter(improper).map(|code| crowd.outcomes[code]);
        let accepted = crowd.outcomes.get(ACCEPTED).copied().unwrap_or_default();
        let told = crowd.acknowledged.len() as u64 + accepted;
        let untold = books.orders - i64::try_from(told).unwrap_or(i64::MAX);
        let vanished = (books.initial_stock - books.orders - books.stock).max(0);
        let mut rush = Self {
            rung: rung.id,
            users: terms.users,
            seed,
            orders: books.orders,
            stock: books.initial_stock,
            remaining: books.stock,
            oversold: books.oversold(),
            duplicates: books.duplicates(),
            undersold: vanished + books.stock.min(sent_away).max(0),
            lost: sale.lost,
            unexpected: unexpected.sum(),
            elapsed_ms: crowd.elapsed_ms,
            orders_per_s: (books.orders as f64 / crowd.elapsed_ms * 10_000.0).round() / 10.0,
            answers_per_s: crowd.answers_per_s,
            latency_ms: crowd.latency_ms,
            written_later: None,
            outcomes: crowd.outcomes,
            broken: Vec::new(),
            witnesses: Vec::new(),
            holds: false,
            as_claimed: false,
        };
        for (invariant, witness) in rush.breaches(sale.twice.as_ref(), sent_away) {
            if rung.has_consumer() && invariant == Invariant::NoLostOrder {
                // Its name there is `no_broken_promise`: see `with`.
                continue;
            }
            rush.broken.push(invariant);
            rush.witnesses.push(witness);
        }
        if rush.unexpected > 0 {
            let told = rush.outcomes.iter().filter(|(code, _)| improper(code));
            let told: Vec<String> = told.map(|(code, n)| format!("{n} {code}")).collect();
            rush.witnesses.push(format!("attempts without a proper answer: {}", told.join(", ")));
        }
        // A buyer without an answer may well have an order.
        let is_odd = untold > i64::try_from(rush.unexpected).unwrap_or(i64::MAX);
        if is_odd {
            rush.witnesses.push(format!("{untold} orders that nobody was told of"));
        }
        let is_excusable = matches!(rung.lock, LockKind::Redis(_) | LockKind::ZooKeeper | LockKind::Stream)
                // The database decides there, and Redis is asked later.
                && rung.id != "r23_outbox";
        // One server is late now and then; of several, some server always is.
        let attempts: u64 = rush.outcomes.values().sum();
        let has_one = matches!(rung.lock, LockKind::Redis(1) | LockKind::Stream);
        let most = if has_one { attempts / EXCUSED_OF } else { attempts };
        let excused = match rush.outcomes.get(UNAVAILABLE) {
            Some(refused) if is_excusable && books.stock <= 0 && *refused <= most => *refused,
            _ => 0,
        };
        let is_judged = rush.unexpected == excused && !is_odd;
        rush.holds = rush.broken.is_empty() && is_judged;
        rush.as_claimed = !rush.broken.iter().any(|broken| is_claimed(rung, *broken)) && is_judged;
        rush
    }

    /// Each promise that was not kept, and what shows it.
    fn breaches(
        &self,
        twice: Option<&(i64, Vec<i64>)>,
        sent_away: i64,
    ) -> Vec<(Invariant, String)> {
        let Self { orders, stock, remaining, oversold, duplicates, undersold, lost, .. } = self;
        let mut found = Vec::new();
        if *oversold > 0 {
            let why =
                format!("{orders} orders for a stock of {stock}; the column says {remaining}");
            found.push((Invariant::NoOversell, why));
        }
        if *duplicates > 0 {
            let who = twice.map(|(user, ids)| {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                format!("; user {user} holds {}", ids.join(" and "))
            });
            let why = format!("{duplicates} orders beyond one per user{}", who.unwrap_or_default());
            found.push((Invariant::OnePerUser, why));
        }
        if orders + remaining != *stock {
            let why = format!("{orders} orders and {remaining} in stock, of {stock}");
            found.push((Invariant::NoUndersell, why));
        } else if *undersold > 0 {
            let why = format!("{sent_away} buyers told sold out, and {remaining} in stock");
            found.push((Invariant::NoUndersell, why));
        }
        if *lost > 0 {
            let why = format!("{lost} acknowledged orders are not in the database");
            found.push((Invariant::NoLostOrder, why));
        }
        found
    }
}

pub(super) fn is_claimed(rung: &Rung, broken: Invariant) -> bool {
    rung.claims.contains(&broken)
        || !rung.breaks.iter().any(|scenario| scenario.invariant() == broken)
}

/// Every so many buyers one comes twice, once to each process.
const TWICE: usize = 4;
/// Every so many one comes a third time, to the first of the two again.
const THRICE: usize = 8;

/// The stock, and the number of buyers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RushOptions {
    /// Buyers, at most [`RushOptions::MAX_USERS`]. Every fourth comes twice, once to each process;
    /// every eighth a third time, to the first of the two again.
    pub users: u32,
    /// Vouchers.
    pub stock: i32,
}

impl RushOptions {
    /// The most buyers there may be.
    pub const MAX_USERS: u32 = USERS_PER_CELL as u32;

    /// How often buyer number `i` comes.
    pub(super) const fn attempts(i: usize) -> usize {
        if i.is_multiple_of(THRICE) {
            3
        } else if i.is_multiple_of(TWICE) {
            2
        } else {
            1
        }
    }

    /// Attempts of all buyers together.
    pub fn attempts_of_all(self) -> u64 {
        (0..self.users as usize).map(Self::attempts).sum::<usize>() as u64
    }
}

impl Default for RushOptions {
    /// The same for every rung: a hundred vouchers, two thousand buyers.
    fn default() -> Self {
        Self { users: 2_000, stock: 100 }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use ladder;
    use load::crowd::{AcknowledgedOrder, RefusedBuyers};
    use seckill::model::VoucherId;

    /// A rush of 20 buyers for 10 vouchers.
    fn rushed(
        rung: &str,
        (orders, users, left): (i64, i64, i64),
        lost: i64,
        outcomes: &[(&str, u64)],
    ) -> RushReport {
        let books = VoucherAudit {
            voucher_id: VoucherId::new(1).unwrap(),
            initial_stock: 10,
            stock: left,
            orders,
            distinct_users: users,
            holds: false,
            violations: Vec::new(),
        };
        let told = |code: &str| outcomes.iter().find(|(told, _)| *told == code).map_or(0, |t| t.1);
        let acknowledged = AcknowledgedOrder { user_id: "1".into(), order_id: Some("1".into()) };
        let crowd = CrowdReport {
            sent: 20,
            outcomes: outcomes.iter().map(|(code, n)| ((*code).to_owned(), *n)).collect(),
            outcomes_by_path: BTreeMap::new(),
            acknowledged: vec![acknowledged; told("ordered") as usize],
            connections: 1,
            elapsed_ms: 1000.0,
            answers_per_s: 20.0,
            latency_ms: None,
            latency_ordered_ms: None,
            refused_buyers: vec![RefusedBuyers {
                codes: vec!["sold_out".to_owned()],
                buyers: told("sold_out"),
            }],
        };
        let twice = (orders > users).then(|| (7, vec![3, 4]));
        let rung = ladder::find(rung).unwrap();
        RushReport::new(
            rung,
            RushOptions { users: 20, stock: 10 },
            1,
            &SaleResult { books, lost, twice },
            crowd,
        )
    }

    const ALL_SOLD: &[(&str, u64)] = &[("ordered", 10), ("sold_out", 10)];

    #[test]
    fn a_rush_that_sold_everything_once_holds() {
        let good = rushed("r18", (10, 10, 0), 0, ALL_SOLD);
        assert!(good.holds && good.as_claimed && good.witnesses.is_empty(), "{good:?}");
        assert_eq!(good.orders_per_s, 10.0);
        let nobody_left = &[("ordered", 8), ("already_bought", 12)];
        assert!(rushed("r18", (8, 8, 2), 0, nobody_left).holds);
    }

    #[test]
    fn every_broken_promise_is_named_and_only_a_claimed_one_held_against_the_rung() {
        use Invariant::*;
        let sold_twelve = &[("ordered", 12), ("sold_out", 8)];
        let sold_nine = &[("ordered", 9), ("sold_out", 11)];
        for (rung, books, lost, told, broken, as_claimed) in [
            ("r01", (12, 12, -2), 0, sold_twelve, NoOversell, true),
            ("r04", (12, 12, -2), 0, sold_twelve, NoOversell, false),
            ("r05", (10, 9, 0), 0, &[("ordered", 10), ("sold_out", 10)], OnePerUser, true),
            ("r18", (10, 9, 0), 0, &[("ordered", 10), ("sold_out", 10)], OnePerUser, false),
            ("r03", (9, 9, 1), 0, sold_nine, NoUndersell, true),
            ("r04", (9, 9, 1), 0, sold_nine, NoUndersell, false),
            // Sold out, and yet not all sold: one vanished. And one that sold itself.
            ("r04", (9, 9, 0), 0, sold_nine, NoUndersell, false),
            ("r04", (10, 10, 1), 0, &[("ordered", 10), ("sold_out", 10)], NoUndersell, false),
            // No scenario takes it from any rung.
            ("r01", (10, 10, 0), 1, &[("ordered", 10), ("sold_out", 10)], NoLostOrder, false),
        ] {
            let rush = rushed(rung, books, lost, told);
            assert_eq!(rush.broken, [broken], "{rush:?}");
            assert_eq!((rush.holds, rush.as_claimed), (false, as_claimed), "{rush:?}");
            assert_eq!(rush.witnesses.len(), 1);
        }
    }

    #[test]
    fn a_promise_that_is_never_written_is_held_against_a_rung_that_claims_to_keep_it() {
        let later = |missing| WrittenLater {
            promised: 10,
            answered_per_s: 10.0,
            durable_per_s: 8.0,
            behind: 9,
            behind_s: 1.0,
            missing,
        };
        let told = &[("accepted", 10), ("sold_out", 10)];
        for (id, as_claimed) in [("r21", true), ("r22", true), ("r23", false)] {
            let rung = ladder::find(id).unwrap();
            let kept = rushed(id, (10, 10, 0), 0, told).with(rung, Some(later(0)));
            assert!(kept.holds && kept.as_claimed, "{kept:?}");
            let broken = rushed(id, (8, 8, 2), 0, told).with(rung, Some(later(2)));
            assert!(broken.broken.contains(&Invariant::NoBrokenPromise), "{broken:?}");
            assert!(!broken.holds, "{broken:?}");
            let only_that = rushed(id, (10, 10, 0), 0, told).with(rung, Some(later(2)));
            assert_eq!(only_that.as_claimed, as_claimed, "{only_that:?}");
        }
    }

    #[test]
    fn an_attempt_without_a_proper_answer_is_held_against_every_rung() {
        for code in ["unavailable", "http_500", "no_answer", "not_sent", "rung_not_found"] {
            let rush = rushed("r01", (10, 10, 0), 0, &[("ordered", 10), (code, 10)]);
            assert_eq!((rush.unexpected, rush.broken.len()), (10, 0));
            assert!(!rush.holds && !rush.as_claimed, "{rush:?}");
        }
    }

    #[test]
    fn a_lock_server_that_was_late_is_an_excuse_as_long_as_nothing_was_left() {
        let told = &[("ordered", 10), ("unavailable", 10)];
        for (rung, orders, excused) in
            // Half of them, from one server: that is no accident.
            [
                ("r15", 10, true),
                ("r17", 10, true),
                ("r15", 9, false),
                ("r13", 10, false),
                ("r18", 10, false),
            ]
        {
            let rush = rushed(rung, (orders, orders, 10 - orders), 0, told);
            assert_eq!((rush.holds, rush.as_claimed), (excused, excused), "{rush:?}");
            assert!(rush.witnesses[0].contains("10 unavailable"), "{rush:?}");
        }
        let told = &[("ordered", 10), ("unavailable", 9), ("http_500", 1)];
        assert!(!rushed("r15", (10, 10, 0), 0, told).as_claimed);
    }

    #[test]
    fn an_order_that_nobody_was_told_of_is_held_against_every_rung() {
        let rush = rushed("r01", (10, 10, 0), 0, &[("ordered", 9), ("sold_out", 11)]);
        assert!(!rush.holds && !rush.as_claimed, "{rush:?}");
        // Unless somebody was left without an answer, who may have it.
        let told = &[("ordered", 9), ("sold_out", 10), ("no_answer", 1)];
        let rush = rushed("r01", (10, 10, 0), 0, told);
        assert!(rush.witnesses.iter().all(|why| !why.contains("nobody")), "{rush:?}");
    }
}
