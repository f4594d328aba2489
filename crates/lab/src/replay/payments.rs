//! What becomes of an order that has to be paid within a time, where it is more than steps.

use anyhow::bail;

use crate::Scheduler;
use crate::scheduler::Act;
use crate::told::Event;
use ladder::Answer;

/// A number that no order has.
const NOBODYS_ORDER: i64 = i64::MAX;

/// A and B have not paid in time, and C buys one of their two vouchers. Then both pay: there is a voucher
/// for the first, and none for the second. The gateway says all of it twice.
pub(super) async fn late_payment(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let voucher = scheduler.voucher(2).await?;
    let node = scheduler.node().await?;
    let mut orders = Vec::new();
    for (user, name) in (0..).zip(["A", "B"]) {
        let buyer = scheduler.buys(name, node, user).await?;
        orders.push((name, scheduler.order_of(buyer)?));
    }
    scheduler.time_to_pay_passes(voucher).await?;
    scheduler.expires_until_idle(node, voucher).await?;
    let c = scheduler.buys("C", node, 2).await?;
    if !matches!(scheduler.answer(c), Some(Act::Done(Answer::Ordered(_)))) {
        bail!("C was to buy what A and B have not paid for");
    }
    for (name, order) in &orders {
        let notice = scheduler.pays(name, node, *order).await?;
        scheduler.finish(notice).await?;
    }
    for nth in 0..orders.len() {
        scheduler.says_again(nth, node).await?;
    }
    Ok(())
}

/// The gateway takes money for an order that the database does not have, be it that a failover lost it. It says so
/// twice.
pub(super) async fn unknown_order(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    scheduler.voucher(1).await?;
    let node = scheduler.node().await?;
    let notice = scheduler.pays("A", node, NOBODYS_ORDER).await?;
    scheduler.log.say(Event::NoSuchOrder { order: 1 });
    scheduler.may_fail(notice);
    scheduler.finish(notice).await?;
    scheduler.says_again(0, node).await
}
