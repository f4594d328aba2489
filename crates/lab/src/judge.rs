//! What came of a replay: a verdict with a witness.

use anyhow::Context;
use serde::Serialize;

use super::scheduler::Scheduler;
use faults::FaultError;
use ladder::{Answer, Invariant};
use seckill::model::VoucherId;
use seckill::purchase::audit::{self, VoucherAudit};

/// What a rung says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabClaim {
    /// The promise is kept.
    Holds,
    /// It is not.
    Breaks,
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// The promise was kept.
    Holds,
    /// It was broken.
    Breaks,
    /// The replay did not come to its end; never counted as either.
    Unknown,
    /// Not played: this machine lacks something that it needs. Neither, and no failure.
    Skipped,
}

/// Why `error` says nothing about the ladder: this machine lacks something. The sentence says
/// what, and how to get it.
pub fn missing(error: &anyhow::Error) -> Option<String> {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<FaultError>());
    causes.find(|cause| cause.is_missing()).map(ToString::to_string)
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was seen.
    pub observed: Observed,
    /// The buyers that were sold to, or why nothing can be said.
    pub witness: Option<String>,
}

impl Verdict {
    /// Kept.
    pub const HOLDS: Self = Self { observed: Observed::Holds, witness: None };

    /// Broken.
    pub const fn breaks(witness: String) -> Self {
        Self { observed: Observed::Breaks, witness: Some(witness) }
    }

    /// Nothing can be said.
    pub const fn unknown(why: String) -> Self {
        Self { observed: Observed::Unknown, witness: Some(why) }
    }

    /// Nothing was played; `how` says how to get what is missing.
    pub const fn skipped(how: String) -> Self {
        Self { observed: Observed::Skipped, witness: Some(how) }
    }

    /// What a replay that failed amounts to: what is not installed proves nothing.
    pub fn of_failure(error: &anyhow::Error) -> Self {
        match missing(error) {
            Some(how) => Self::skipped(how),
            None => Self::unknown(format!("{error:#}")),
        }
    }
}

/// Judges one promise from the database, from what every buyer was told, and from what the
/// scenario itself saw.
///
/// # Errors
/// When the database cannot be asked.
pub(super) async fn judge(
    scheduler: &Scheduler<'_>,
    invariant: Invariant,
) -> anyhow::Result<Verdict> {
    let mut witnesses: Vec<String> = scheduler.breaches().to_vec();
    match lost(scheduler).await? {
        Some(lost) if invariant == Invariant::NoBrokenPromise => witnesses.push(lost),
        // No rung may claim to break this that writes before it answers.
        Some(lost) if !scheduler.rung.has_consumer() => {
            return Ok(Verdict::unknown(format!("no_lost_order: {lost}")));
        }
        Some(lost) if scheduler.rung.claims.contains(&Invariant::NoBrokenPromise) => {
            return Ok(Verdict::unknown(format!("no_broken_promise: {lost}")));
        }
        _ => {}
    }
    for (nth, voucher) in scheduler.vouchers.iter().enumerate() {
        let audits = audit::run(&scheduler.database, VoucherId::new(*voucher)).await?;
        let audit = audits.first().context("a voucher is gone from the database")?;
        let found = match invariant {
            Invariant::NoOversell => oversold(audit),
            Invariant::OnePerUser => twice(scheduler, *voucher).await?,
            Invariant::NoUndersell => undersold(scheduler, audit),
            Invariant::NoLostOrder
            | Invariant::NoLockout
            | Invariant::NoDeadlock
            | Invariant::NoBrokenPromise => None,
        };
        witnesses.extend(found.map(|found| format!("voucher {}: {found}", nth + 1)));
    }
    Ok(match witnesses.is_empty() {
        true => Verdict::HOLDS,
        false => Verdict::breaks(witnesses.join("; ")),
    })
}

/// A buyer that was told "ordered" has an order of its own: `no_broken_promise`. Of a rung that
/// writes before it answers this is `no_lost_order`, which no scenario may cost.
async fn lost(scheduler: &Scheduler<'_>) -> anyhow::Result<Option<String>> {
    let mut seen = Vec::new();
    for (cast, answer) in scheduler.answered() {
        let Answer::Ordered(id) = answer else { continue };
        let orders: i64 = sqlx::query_scalar(
            "select count(*) from orders where id = $1 and user_id = $2 and voucher_id = $3",
        )
        .bind(id)
        .bind(cast.user)
        .bind(cast.voucher)
        .fetch_one(&scheduler.database)
        .await?;
        // Where a buyer asks later, all of its attempts hear the same.
        let has_consumer = scheduler.rung.has_consumer();
        if orders == 0 || !has_consumer && seen.contains(&id) {
            let name = cast.name;
            return Ok(Some(match has_consumer {
                true => format!("{name} was told yes, and has no order"),
                false => format!("{name} was told of order {id}, and has none"),
            }));
        }
        seen.push(id);
    }
    Ok(None)
}

/// Orders against stock, not the stock column alone: lost updates hide there.
pub(super) fn oversold(audit: &VoucherAudit) -> Option<String> {
    let (orders, stock) = (audit.orders, audit.initial_stock);
    (audit.oversold() > 0)
        .then(|| format!("{orders} orders for a stock of {stock}; the column says {}", audit.stock))
}

async fn twice(scheduler: &Scheduler<'_>, voucher: i64) -> anyhow::Result<Option<String>> {
    let twice: Vec<(i64, Vec<i64>)> = sqlx::query_as(
        "select user_id, array_agg(id order by id) from orders where voucher_id = $1
         group by user_id having count(*) > 1 order by user_id",
    )
    .bind(voucher)
    .fetch_all(&scheduler.database)
    .await?;
    Ok(twice.first().map(|(user, orders)| {
        let user = user - scheduler.first_user + 1;
        let orders: Vec<String> = orders.iter().map(ToString::to_string).collect();
        format!("user {user} holds {} orders: {}", orders.len(), orders.join(" and "))
    }))
}

pub(super) fn undersold(scheduler: &Scheduler<'_>, audit: &VoucherAudit) -> Option<String> {
    let sent_away: Vec<&str> =
        scheduler.answers().filter(|(_, a)| *a == Answer::SoldOut).map(|(name, _)| name).collect();
    if audit.orders + audit.stock != audit.initial_stock {
        return Some(format!(
            "{} orders and {} in stock, of {}",
            audit.orders, audit.stock, audit.initial_stock
        ));
    }
    (audit.stock > 0 && !sent_away.is_empty())
        .then(|| format!("{} told sold out, and {} in stock", sent_away.join(", "), audit.stock))
}
