//! What came of one schedule: which promises it broke.

use serde::Serialize;

use crate::judge::{Books, lost};
use crate::scheduler::{Scheduler, Stop};
use ladder::{Answer, Invariant};

/// A promise that a schedule broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenBySchedule {
    /// The promise.
    pub invariant: Invariant,
    /// What shows it.
    pub witness: String,
}

/// The witness of a lock without a lease that a dead process has left.
pub(super) const LOCKED_OUT_FOR_EVER: &str = "user 1 is locked out for ever";

/// Judges what the database holds against what every buyer was told.
pub(super) async fn judge_schedule(
    scheduler: &Scheduler<'_>,
    voucher: i64,
) -> anyhow::Result<Vec<BrokenBySchedule>> {
    let books = Books::of(scheduler, voucher).await?;
    // As the scenarios call it.
    let promise = match scheduler.rung.has_consumer() {
        true => Invariant::NoBrokenPromise,
        false => Invariant::NoLostOrder,
    };
    // No witness names an id: it comes out otherwise the second time.
    let twice = books.twice().map(|(user, orders)| {
        format!("user {} holds {} orders", user - scheduler.first_user + 1, orders.len())
    });
    let lost = lost(scheduler, std::slice::from_ref(&books));
    let found = [
        (Invariant::NoOversell, books.oversold()),
        (Invariant::OnePerUser, twice),
        (Invariant::NoUndersell, books.undersold(scheduler)),
        (promise, lost.map(|(name, _)| format!("{name} was told of an order, and has none"))),
    ];
    let broken = found.into_iter().filter_map(|(invariant, witness)| {
        witness.map(|witness| BrokenBySchedule { invariant, witness })
    });
    Ok(broken.collect())
}

/// Whether a buyer has the voucher, or hears that it has.
pub(super) fn is_served(stop: Option<&Stop>) -> bool {
    matches!(stop, Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)))
}
