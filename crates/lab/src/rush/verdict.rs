//! What came of a rush: the judge's findings as promises, and whether the rung claims those.

use ladder::{Capability, Invariant, LockKind, Rung};
use load::crowd::CrowdReport;
use load::outcome::REFUSED;
use load::rungs::{self, WrittenLater};
use load::verdict::{Books, CrowdVerdict, Expectations, Figures, Finding, Promise, Verdict, judge};

/// Of so many attempts one may be refused because the lock's one server was late.
const EXCUSED_OF: u64 = 4;

/// What came of a rush.
pub type RushReport = rungs::RushReport<Invariant>;

/// What the database says.
#[derive(Debug)]
pub(super) struct SaleResult {
    pub(super) books: Books,
    /// Of a rung that answers first.
    pub(super) written_later: Option<WrittenLater>,
}

/// What is expected of a rung that has the crowd and its servers for itself.
fn expectations(rung: &Rung) -> Expectations {
    let excuses_one_in = match rung.lock {
        // The database decides there, and Redis is asked later.
        _ if rung.can(Capability::Relay) => None,
        LockKind::NoLock if rung.asks_redis_first() => Some(EXCUSED_OF),
        LockKind::NoLock | LockKind::Database | LockKind::Mutex => None,
        // One server is late now and then; of several, some server always is.
        LockKind::Redis(1) | LockKind::Stream => Some(EXCUSED_OF),
        LockKind::Redis(_) | LockKind::ZooKeeper => Some(1),
    };
    let lets_in = rung.can(Capability::Rate) || rung.can(Capability::Token);
    let also_proper: &'static [&'static str] = match lets_in {
        true => &[REFUSED],
        _ if rung.can(Capability::Draw) => &["draw_open"],
        _ if rung.can(Capability::Line) => &["line_open"],
        false => &[],
    };
    let writes_later = rung.has_consumer();
    Expectations { writes_later, excuses_one_in, also_proper, ..Expectations::ALONE }
}

/// The promise of the rung that a finding breaks. `None`: what came of the attempts cannot be judged.
fn invariant(rung: &Rung, finding: &Finding) -> Option<Invariant> {
    match finding.promise()? {
        Promise::NoOversell => Some(Invariant::NoOversell),
        Promise::OnePerUser => Some(Invariant::OnePerUser),
        Promise::NoUndersell | Promise::BooksAddUp => Some(Invariant::NoUndersell),
        Promise::NoLostOrder if rung.has_consumer() => Some(Invariant::NoBrokenPromise),
        Promise::NoLostOrder => Some(Invariant::NoLostOrder),
        Promise::NoUntoldOrder | Promise::EveryAttemptAnswered | Promise::InItsWindow => None,
    }
}

/// The report on a rush, and what was found, as values.
pub(super) fn report(
    rung: &'static Rung,
    terms: RushOptions,
    seed: u64,
    sale: &SaleResult,
    crowd: &CrowdReport,
) -> (RushReport, Verdict) {
    let SaleResult { books, written_later } = sale;
    let verdict = judge(books, &crowd.told(), &expectations(rung));
    let faults = verdict.findings.iter().filter(|finding| !finding.is_excused());
    let faults: Vec<_> = faults.map(|finding| invariant(rung, finding)).collect();
    let mut broken: Vec<Invariant> = faults.iter().copied().flatten().collect();
    broken.dedup();
    let mut figures = Figures::new(terms.users.into(), books, &verdict);
    figures.found.lost = books.lost;
    let report = RushReport {
        rung: rung.id.to_owned(),
        seed,
        crowd: CrowdVerdict::new(figures, crowd, verdict.holds()),
        written_later: *written_later,
        as_claimed: faults.iter().all(|it| it.is_some_and(|broken| !is_claimed(rung, broken))),
        broken,
        witnesses: verdict.sentences(),
    };
    (report, verdict)
}

fn is_claimed(rung: &Rung, broken: Invariant) -> bool {
    rung.claims.contains(&broken)
        || !rung.breaks.iter().any(|scenario| scenario.invariant() == broken)
}

/// Every so many buyers one comes twice, once to each process.
const TWICE: usize = 4;
/// Every so many one comes a third time, to the first of the two again.
const THRICE: usize = 8;

/// The stock, the number of buyers, and for how long they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RushOptions {
    /// Buyers, at most [`RushOptions::MAX_USERS`].
    pub users: u32,
    /// How often each of them comes, to both processes in turn. `None`: every fourth comes twice, once to
    /// each process; every eighth a third time, to the first of the two again.
    pub attempts: Option<u32>,
    /// Vouchers.
    pub stock: i32,
    /// After so many seconds nobody comes any more, whoever is left. `None`: all come, all at once.
    pub seconds: Option<u32>,
}

impl RushOptions {
    /// The most buyers there may be.
    pub const MAX_USERS: u32 = 500_000;

    /// How often buyer number `i` comes.
    pub(super) const fn attempts_of(self, i: usize) -> usize {
        if let Some(attempts) = self.attempts {
            attempts as usize
        } else if i.is_multiple_of(THRICE) {
            3
        } else if i.is_multiple_of(TWICE) {
            2
        } else {
            1
        }
    }

    /// Attempts of all buyers together.
    pub fn attempts_of_all(self) -> u64 {
        (0..self.users as usize).map(|i| self.attempts_of(i)).sum::<usize>() as u64
    }
}

impl Default for RushOptions {
    /// The same for every rung: a hundred vouchers, two thousand buyers.
    fn default() -> Self {
        Self { users: 2_000, attempts: None, stock: 100, seconds: None }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use load::told::{RefusedBuyers, Told};

    /// A rush for 10 vouchers, on the rung whose name begins so. Each attempt is a buyer's only one.
    fn rushed(
        rung: &str,
        (orders, distinct_users, stock): (i64, i64, i64),
        lost: i64,
        outcomes: &[(&str, u64)],
    ) -> RushReport {
        let mut told = Told::default();
        for (code, buyers) in outcomes {
            told.outcomes.insert((*code).to_owned(), *buyers);
            match ["ordered", "accepted"].contains(code) {
                true => told.served += buyers,
                false => told
                    .refused_buyers
                    .push(RefusedBuyers { codes: [(*code).to_owned()].into(), buyers: *buyers }),
            }
        }
        let crowd = CrowdReport {
            told_at: [("/".into(), told)].into(),
            connections: 1,
            elapsed_ms: 1000.0,
            answers_per_s: 20.0,
            latency_ms: None,
        };
        let sale = SaleResult {
            books: Books {
                initial_stock: 10,
                stock,
                orders,
                distinct_users,
                orders_of_crowd: orders,
                lost,
                twice: (orders > distinct_users).then(|| (7, vec![3, 4])),
                objections: Vec::new(),
            },
            written_later: None,
        };
        let terms = RushOptions { users: 20, stock: 10, ..RushOptions::default() };
        report(ladder::find(rung).unwrap(), terms, 1, &sale, &crowd).0
    }

    const ALL_SOLD: &[(&str, u64)] = &[("ordered", 10), ("sold_out", 10)];
    const NINE_SOLD: &[(&str, u64)] = &[("ordered", 9), ("sold_out", 11)];

    #[test]
    fn a_broken_promise_is_held_against_a_rung_that_claims_to_keep_it() {
        use Invariant::*;
        let twelve_sold = &[("ordered", 12), ("sold_out", 8)];
        let accepted = &[("accepted", 10)];
        for (rung, books, lost, told, broken, as_claimed) in [
            ("r18a", (10, 10, 0), 0, ALL_SOLD, &[][..], true),
            ("r01", (12, 12, -2), 0, twelve_sold, &[NoOversell], true),
            ("r04", (12, 12, -2), 0, twelve_sold, &[NoOversell], false),
            ("r01", (12, 12, 3), 0, twelve_sold, &[NoOversell, NoUndersell], false),
            ("r05a", (10, 9, 0), 0, ALL_SOLD, &[OnePerUser], true),
            ("r18a", (10, 9, 0), 0, ALL_SOLD, &[OnePerUser], false),
            ("r03", (9, 9, 1), 0, NINE_SOLD, &[NoUndersell], true),
            ("r04", (9, 9, 1), 0, NINE_SOLD, &[NoUndersell], false),
            ("r04", (10, 10, 1), 0, ALL_SOLD, &[NoUndersell], false),
            // No scenario takes it from any rung.
            ("r01", (10, 10, 0), 1, ALL_SOLD, &[NoLostOrder], false),
            // A rung that writes later breaks another promise, and some rungs do not make that one.
            ("r22", (10, 10, 0), 0, accepted, &[], true),
            ("r22", (8, 8, 2), 0, accepted, &[NoBrokenPromise], true),
            ("r21a", (10, 10, 0), 2, ALL_SOLD, &[NoBrokenPromise], true),
            ("r23a", (10, 10, 0), 2, ALL_SOLD, &[NoBrokenPromise], false),
        ] {
            let rush = rushed(rung, books, lost, told);
            assert_eq!(rush.broken, broken, "{rush:?}");
            assert_eq!(
                (rush.crowd.holds, rush.as_claimed),
                (broken.is_empty(), as_claimed),
                "{rush:?}"
            );
        }
        let twice = rushed("r05a", (10, 9, 0), 0, ALL_SOLD).witnesses;
        assert_eq!(twice, ["1 sold twice to one buyer: 10 orders of 9; user 7 holds 3 and 4"]);
    }

    #[test]
    fn what_cannot_be_judged_is_held_against_every_rung_but_for_a_lock_that_was_late() {
        for (rung, code, excused) in [
            ("r01", "unavailable", false),
            ("r15", "http_500", false),
            ("r15", "not_sent", false),
            ("r15", "unavailable", true),
            ("r17", "unavailable", true),
            ("r18a", "unavailable", false),
            ("r23a", "unavailable", false),
            // Half of them, from one server: that is no accident.
            ("r13d", "unavailable", false),
        ] {
            let rush = rushed(rung, (10, 10, 0), 0, &[("ordered", 10), (code, 10)]);
            assert_eq!(
                (rush.crowd.figures.found.unexpected, rush.broken.len()),
                (10, 0),
                "{rush:?}"
            );
            assert_eq!((rush.crowd.holds, rush.as_claimed), (excused, excused), "{rush:?}");
            assert!(rush.witnesses[0].contains(&format!("10 {code}")), "{rush:?}");
        }
        let untold = rushed("r01", (10, 10, 0), 0, NINE_SOLD);
        assert_eq!((untold.crowd.holds, untold.as_claimed, untold.broken.len()), (false, false, 0));
    }
}
