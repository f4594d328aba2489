//! Games that begin with an order that was not paid in time: its payment is an actor, and so is what
//! ends it.

use super::play::Game;
use super::schedule::{ACTOR_NAMES, TIME};
use super::setting::FIRST_NODE;
use crate::judge::Breach;
use crate::scheduler::Attempt;
use ladder::{Capability, Invariant};

impl Game<'_> {
    /// A's order is there, unpaid, its time over. A pays, or, where the rung has a line, wants to buy again; the others
    /// buy, and what ends the order is the last actor. The process of A is also that which sold the order and ends it.
    pub(super) async fn put_unpaid_order_in_place(&mut self, voucher: i64) -> anyhow::Result<()> {
        let plan = self.plan;
        let scheduler = &mut self.driver.scheduler;
        let sold = scheduler.buys(ACTOR_NAMES[0], FIRST_NODE, plan.user(0)).await?;
        let order = scheduler.order_of(sold)?;
        scheduler.time_to_pay_passes(voucher).await?;
        let has_line = plan.rung.can(Capability::Line);
        if !has_line {
            let payment = scheduler.pays(ACTOR_NAMES[0], FIRST_NODE, order).await?;
            // The gateway says it again.
            scheduler.may_fail(payment);
            self.driver.drive(payment, plan.user(0));
        }
        for (nth, name) in plan.names().iter().enumerate().skip(usize::from(!has_line)) {
            let buyer = Attempt::new(plan.user(nth), voucher);
            self.driver.enter(name, plan.node(nth), buyer).await?;
        }
        let time = self.driver.scheduler.expires(FIRST_NODE, voucher).await?;
        self.driver.drive(time, plan.user(0));
        Ok(())
    }

    /// Whether the driver's actor is what ends orders, which comes last there.
    pub(crate) fn is_time(&self, nth: usize) -> bool {
        self.plan.is_unpaid && nth + 1 == self.driver.count()
    }

    /// The place of the driver's actor in a schedule.
    pub(crate) fn place_of(&self, nth: usize) -> usize {
        if self.is_time(nth) { TIME } else { nth }
    }

    /// The driver's actor at a place of schedules.
    pub(super) fn actor_at(&self, place: usize) -> usize {
        if place == TIME { self.driver.count() - 1 } else { place }
    }

    /// What is broken after the last step; and after it, when everything works and has its time.
    pub(super) async fn judge_payments(&mut self) -> anyhow::Result<Vec<Breach>> {
        let deadlocked = self.deadlocked();
        if deadlocked.is_some() {
            return Ok(deadlocked.into_iter().collect());
        }
        let mut broken = self.judge().await?;
        let voucher = self.driver.scheduler.vouchers[0];
        self.driver.scheduler.settle_payments(voucher).await?;
        let later = self.judge().await?.into_iter();
        let later: Vec<Breach> =
            later.filter(|it| broken.iter().all(|old| old.invariant != it.invariant)).collect();
        broken.extend(later);
        let stuck = self.books().await?.stuck();
        let lost = self.driver.scheduler.lost_payments().await?;
        let found = stuck.map(|witness| (Invariant::NoStuckStock, witness)).into_iter();
        let found = found.chain(lost.into_iter().map(|it| (Invariant::NoLostPayment, it)));
        broken.extend(found.map(|(invariant, witness)| Breach { invariant, witness }));
        Ok(broken)
    }
}
