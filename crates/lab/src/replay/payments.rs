//! What becomes of an order that has to be paid within a time.

use anyhow::bail;

use crate::Scheduler;
use crate::scheduler::{Act, NodeIndex};
use crate::told::Event;
use ladder::{Answer, Capability, Point, Rung, Scenario};

/// Where a payment handler has looked at the order, or has written and not committed.
const LOOKED: [Point; 2] = [Point::UnpaidRead, Point::Settling];

/// Where what ends an order has done the first of two steps; or, where it has but one, has not
/// committed it.
const HALF_DONE: [Point; 2] = [Point::Cancelled, Point::Cancelling];

/// Whether a scenario is about payments.
pub(super) const fn is_one(scenario: Scenario) -> bool {
    matches!(
        scenario,
        Scenario::SoldAgain
            | Scenario::HalfExpired
            | Scenario::ForgottenTimer
            | Scenario::PayAndExpire
            | Scenario::LatePayment
    )
}

/// Why there is no such replay: "it …"; `None` where there is one.
pub(super) fn absent(rung: &Rung) -> Option<&'static str> {
    (!rung.can(Capability::Expire)).then_some("has no orders that have to be paid")
}

/// Plays `scenario`.
pub(super) async fn play(scenario: Scenario, scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    match scenario {
        Scenario::SoldAgain => sold_again(scheduler).await,
        Scenario::HalfExpired => half_expired(scheduler).await,
        Scenario::ForgottenTimer => forgotten_timer(scheduler).await,
        Scenario::PayAndExpire => pay_and_expire(scheduler).await,
        Scenario::LatePayment => late_payment(scheduler).await,
        other => bail!("{other} is not about payments"),
    }
}

/// The only voucher is A's, who has not paid: the voucher, A's process, the order.
async fn unpaid(scheduler: &mut Scheduler<'_>) -> anyhow::Result<(i64, NodeIndex, i64)> {
    let voucher = scheduler.voucher(1).await?;
    let node = scheduler.node().await?;
    let a = scheduler.buys("A", node, 0).await?;
    let order = scheduler.order_of(a)?;
    Ok((voucher, node, order))
}

/// The payment and the end of the time have both looked at the order before either writes; the payment
/// writes first.
async fn pay_and_expire(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (voucher, first, order) = unpaid(scheduler).await?;
    let second = scheduler.node().await?;
    scheduler.time_to_pay_passes(voucher).await?;
    let time = scheduler.expires(first, voucher).await?;
    scheduler.must_reach(time, &[Point::OrderDue]).await?;
    let a = scheduler.pays("A", second, order).await?;
    scheduler.must_reach(a, &LOOKED).await?;
    scheduler.finish_all(&[a, time]).await
}

/// The same, and the end of the time writes first: its voucher is on sale again, and B wants it.
async fn sold_again(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (voucher, first, order) = unpaid(scheduler).await?;
    let second = scheduler.node().await?;
    scheduler.time_to_pay_passes(voucher).await?;
    let a = scheduler.pays("A", second, order).await?;
    scheduler.must_reach(a, &LOOKED).await?;
    let time = scheduler.expires(first, voucher).await?;
    scheduler.finish(time).await?;
    let b = scheduler.buys("B", first, 1).await?;
    scheduler.finish_all(&[a, time, b]).await
}

/// A process dies while it ends an order; another one goes on.
async fn half_expired(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (voucher, first, _) = unpaid(scheduler).await?;
    scheduler.time_to_pay_passes(voucher).await?;
    let time = scheduler.expires(first, voucher).await?;
    scheduler.must_reach(time, &HALF_DONE).await?;
    dies(scheduler, first).await?;
    another_process_goes_on(scheduler, voucher).await
}

/// The process that sold dies before the time to pay is over; another one goes on.
async fn forgotten_timer(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
    let (voucher, first, _) = unpaid(scheduler).await?;
    dies(scheduler, first).await?;
    scheduler.time_to_pay_passes(voucher).await?;
    another_process_goes_on(scheduler, voucher).await
}

async fn dies(scheduler: &mut Scheduler<'_>, node: NodeIndex) -> anyhow::Result<()> {
    scheduler.kill(node).await?;
    scheduler.until_disconnected(node).await
}

/// Another process has as long as it needs, and B comes there.
async fn another_process_goes_on(
    scheduler: &mut Scheduler<'_>,
    voucher: i64,
) -> anyhow::Result<()> {
    let second = scheduler.node().await?;
    scheduler.log.say(Event::StartedToExpire { process: second.number() });
    scheduler.expires_until_idle(second, voucher).await?;
    scheduler.buys("B", second, 1).await?;
    Ok(())
}

/// A and B have not paid in time, and C buys one of their two vouchers. Then both pay: there is a voucher
/// for the first, and none for the second. The gateway says all of it twice.
async fn late_payment(scheduler: &mut Scheduler<'_>) -> anyhow::Result<()> {
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
