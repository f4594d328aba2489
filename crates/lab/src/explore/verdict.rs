//! What came of one schedule: which promises it broke.

use serde::Serialize;

use crate::judge::{oversold, undersold};
use crate::scheduler::{Scheduler, Stop};
use ladder::{Answer, Invariant};
use seckill::model::VoucherId;
use seckill::purchase::audit::VoucherAudit;

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

/// The books of a voucher, as one statement reads them.
struct VoucherBooks {
    audit: VoucherAudit,
    /// Order and user.
    orders: Vec<(i64, i64)>,
}

/// Judges what the database holds against what every buyer was told.
///
/// # Errors
/// When the database cannot be asked.
pub(super) async fn judge_schedule(
    scheduler: &Scheduler<'_>,
    voucher: i64,
) -> anyhow::Result<Vec<BrokenBySchedule>> {
    let books = read(scheduler, voucher).await?;
    // As the scenarios call it.
    let promise = match scheduler.rung.has_consumer() {
        true => Invariant::NoBrokenPromise,
        false => Invariant::NoLostOrder,
    };
    let found = [
        (Invariant::NoOversell, oversold(&books.audit)),
        (Invariant::OnePerUser, twice(scheduler, &books)),
        (Invariant::NoUndersell, undersold(scheduler, &books.audit)),
        (promise, lost(scheduler, &books)),
    ];
    let broken = found.into_iter().filter_map(|(invariant, witness)| {
        witness.map(|witness| BrokenBySchedule { invariant, witness })
    });
    Ok(broken.collect())
}

async fn read(scheduler: &Scheduler<'_>, voucher: i64) -> anyhow::Result<VoucherBooks> {
    let row = sqlx::query_as::<_, (i32, i32, Vec<i64>, Vec<i64>)>(
        "select initial_stock, stock,
                array(select id from orders o where o.voucher_id = s.voucher_id order by id),
                array(select user_id from orders o where o.voucher_id = s.voucher_id order by id)
         from seckill_vouchers s where voucher_id = $1",
    );
    let (initial_stock, stock, ids, users) =
        row.bind(voucher).fetch_one(&scheduler.database).await?;
    let mut distinct = users.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let audit = VoucherAudit {
        voucher_id: VoucherId::try_from(voucher)?,
        initial_stock: initial_stock.into(),
        stock: stock.into(),
        orders: ids.len() as i64,
        distinct_users: distinct.len() as i64,
        holds: true,
        violations: Vec::new(),
    };
    Ok(VoucherBooks { audit, orders: ids.into_iter().zip(users).collect() })
}

fn twice(scheduler: &Scheduler<'_>, books: &VoucherBooks) -> Option<String> {
    let of = |user: i64| books.orders.iter().filter(move |(_, of)| *of == user).count();
    let user = books.orders.iter().map(|(_, user)| *user).find(|user| of(*user) > 1)?;
    Some(format!("user {} holds {} orders", user - scheduler.first_user + 1, of(user)))
}

/// A buyer that was told "ordered" has an order of its own.
fn lost(scheduler: &Scheduler<'_>, books: &VoucherBooks) -> Option<String> {
    let mut seen = Vec::new();
    for (record, answer) in scheduler.answered() {
        let Answer::Ordered(id) = answer else { continue };
        if seen.contains(&id) || !books.orders.contains(&(id, record.user)) {
            return Some(format!("{} was told of an order, and has none", record.name));
        }
        seen.push(id);
    }
    None
}

/// Whether a buyer has the voucher, or hears that it has.
pub(super) fn is_served(stop: Option<&Stop>) -> bool {
    matches!(stop, Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)))
}
