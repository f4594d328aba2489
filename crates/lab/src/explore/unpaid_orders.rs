//! Schedules that begin with an order that was not paid in time: its payment is an actor, and so is what
//! ends it.

use super::run::ScheduleRunner;
use super::schedule::{ACTOR_NAMES, TIME};
use super::setting::NODE_OF_TIME;
use super::verdict::{BrokenBySchedule, judge_schedule};
use crate::judge::Books;
use crate::scheduler::{ActorPlan, NodeIndex};
use ladder::Invariant;

impl ScheduleRunner<'_> {
    /// A's order is there, unpaid, its time over. A pays, the others buy, and what ends the order is the
    /// last actor. The process of A is also that which sold the order and ends it.
    pub(super) async fn put_unpaid_order_in_place(&mut self, voucher: i64) -> anyhow::Result<()> {
        let (from, nodes, actors) = (self.setting.from, self.setting.nodes, self.setting.actors);
        let scheduler = &mut self.driver.scheduler;
        let sold = scheduler.buys(ACTOR_NAMES[0], NODE_OF_TIME, from.user(0)).await?;
        let order = scheduler.order_of(sold)?;
        scheduler.time_to_pay_passes(voucher).await?;
        let payment = scheduler.pays(ACTOR_NAMES[0], NODE_OF_TIME, order).await?;
        // The gateway says it again.
        scheduler.may_fail(payment);
        self.driver.drive(payment, from.user(0));
        for (nth, name) in ACTOR_NAMES.into_iter().enumerate().take(actors).skip(1) {
            let buyer = ActorPlan::new(from.user(nth), voucher);
            self.driver.enter(name, NodeIndex(nth % nodes), buyer).await?;
        }
        let time = self.driver.scheduler.expires(NODE_OF_TIME, voucher).await?;
        self.driver.drive(time, from.user(0));
        Ok(())
    }

    /// The step of the driver's actor: what ends orders comes last there, and has a letter of its own.
    pub(super) fn step_of(&self, nth: usize) -> usize {
        let is_last = nth + 1 == self.driver.count();
        if self.setting.from.has_unpaid_order() && is_last { TIME } else { nth }
    }

    /// The driver's actor that takes such a step.
    pub(super) fn actor_of(&self, step: usize) -> usize {
        if step == TIME { self.driver.count() - 1 } else { step }
    }

    /// What is broken after the last step; and after it, when everything works and has its time.
    pub(super) async fn judge_payments(
        &mut self,
        voucher: i64,
    ) -> anyhow::Result<Vec<BrokenBySchedule>> {
        let deadlocked = self.deadlocked();
        if deadlocked.is_some() {
            return Ok(deadlocked.into_iter().collect());
        }
        let mut broken = judge_schedule(&self.driver.scheduler, voucher).await?;
        self.driver.scheduler.settle_payments(voucher).await?;
        let later = judge_schedule(&self.driver.scheduler, voucher).await?;
        let is_new = |it: &BrokenBySchedule| broken.iter().all(|old| old.invariant != it.invariant);
        let later: Vec<BrokenBySchedule> = later.into_iter().filter(is_new).collect();
        broken.extend(later);
        let stuck = Books::of(&self.driver.scheduler, voucher).await?.stuck();
        let lost = self.driver.scheduler.lost_payments().await?;
        let found = stuck.map(|witness| (Invariant::NoStuckStock, witness)).into_iter();
        let found = found.chain(lost.into_iter().map(|it| (Invariant::NoLostPayment, it)));
        broken.extend(found.map(|(invariant, witness)| BrokenBySchedule { invariant, witness }));
        Ok(broken)
    }
}
