//! Orders that have to be paid: the lab is the payment gateway, and it is time.
//!
//! A notice of a payment is an actor, and so is each turn of what ends unpaid orders.

use anyhow::{Context, bail};

use super::node_process::Task;
use super::sale::PRICE;
use super::scheduler::{Act, Actor, ActorState, NodeIndex, Scheduler};
use super::told::{Event, Witness};
use ladder::{Answer, PaymentNotice, WorkTurn};

/// Money that the gateway has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakenMoney {
    /// The user who paid.
    payer: &'static str,
    /// What for.
    order: i64,
    /// The last notice of it.
    notice: Actor,
}

/// What ends unpaid orders, draws, or offers what came back to the first in line, one for each process.
const NAMES: [&str; 3] = ["T", "T2", "T3"];

/// Turns of one process: more than any scenario has orders.
const MAX_TURNS: usize = 24;

/// A notice that is answered with an error so often is never answered otherwise.
const MAX_NOTICES: usize = 3;

impl Scheduler<'_> {
    /// The order that a buyer was told of.
    pub(super) fn order_of(&self, buyer: Actor) -> anyhow::Result<i64> {
        match self.answer(buyer) {
            Some(Act::Done(Answer::Ordered(order))) => Ok(*order),
            other => bail!("a buyer was to have an order, and was told {other:?}"),
        }
    }

    /// A buyer pays for an order, and the gateway tells `node`. Nothing happens before the notice is driven.
    pub(super) async fn pays(
        &mut self,
        payer: &'static str,
        node: NodeIndex,
        order: i64,
    ) -> anyhow::Result<Actor> {
        let notice = self.notice(payer, node, order).await?;
        let event = Event::WantsToPay { order: self.log.nth_order(order), process: node.number() };
        self.log.note(payer, event);
        self.money.push(TakenMoney { payer, order, notice });
        Ok(notice)
    }

    /// What was not paid up to now is never paid.
    pub(super) fn nobody_else_pays(&mut self) {
        let begun = |money: &TakenMoney| self.actors[money.notice.0].state != ActorState::NotBegun;
        self.money.retain(begun);
    }

    async fn notice(
        &mut self,
        payer: &'static str,
        node: NodeIndex,
        order: i64,
    ) -> anyhow::Result<Actor> {
        let transaction = self.transaction_of(order);
        let notice = PaymentNotice { order, transaction, amount: PRICE };
        self.add(payer, node, Task::Pay(notice)).await
    }

    /// The gateway's name of the money for an order; no other cell has the same.
    fn transaction_of(&self, order: i64) -> String {
        format!("{}money-for-{order}", self.key_prefix)
    }

    /// One turn of what ends unpaid orders in `node`. It does nothing before it is driven.
    pub(super) async fn expires(&mut self, node: NodeIndex, voucher: i64) -> anyhow::Result<Actor> {
        let name = *NAMES.get(node.0).context("more processes than names")?;
        self.add(name, node, Task::Expire(voucher)).await
    }

    /// What ends unpaid orders in `node` takes turns until it knows of none.
    pub(super) async fn expires_until_idle(
        &mut self,
        node: NodeIndex,
        voucher: i64,
    ) -> anyhow::Result<()> {
        for _ in 0..MAX_TURNS {
            let turn = self.expires(node, voucher).await?;
            match self.finish(turn).await? {
                Act::Worked(WorkTurn::Idle) => return Ok(()),
                Act::Worked(_) => {}
                other => bail!("an unpaid order was to be ended, and it came to {other:?}"),
            }
        }
        bail!("{MAX_TURNS} turns were not enough")
    }

    /// The time to pay for all unpaid orders of a voucher is over.
    pub(super) async fn time_to_pay_passes(&mut self, voucher: i64) -> anyhow::Result<()> {
        sqlx::query(
            "update orders set pay_by = now() - interval '1 second'
             where voucher_id = $1 and status = 1 and pay_by > now()",
        )
        .bind(voucher)
        .execute(&self.database)
        .await?;
        self.log.say(Event::TimeToPayOver);
        Ok(())
    }

    /// The gateway repeats what it has said of its `nth` payment.
    pub(super) async fn says_again(&mut self, nth: usize, node: NodeIndex) -> anyhow::Result<()> {
        let TakenMoney { payer, order, .. } = self.money[nth];
        let notice = self.notice(payer, node, order).await?;
        self.money[nth].notice = notice;
        self.log.note(payer, Event::SaysAgain { process: node.number() });
        self.may_fail(notice);
        self.finish(notice).await.map(drop)
    }

    /// Everything works, and has as long as it needs: the gateway repeats what was not answered, and
    /// the processes that live end what was not paid.
    pub(super) async fn settle_payments(&mut self, voucher: i64) -> anyhow::Result<()> {
        let node = *self.living().first().context("no process is left")?;
        for nth in 0..self.money.len() {
            for _ in 0..MAX_NOTICES {
                if let Some(Act::Worked(_)) = self.answer(self.money[nth].notice) {
                    break;
                }
                self.says_again(nth, node).await?;
            }
        }
        self.time_to_pay_passes(voucher).await?;
        for node in self.living() {
            self.expires_until_idle(node, voucher).await?;
        }
        Ok(())
    }

    /// Payments that neither belong to a paid order nor are given back or written down; or both.
    pub(super) async fn lost_payments(&self) -> anyhow::Result<Vec<Witness>> {
        let mut lost = Vec::new();
        for &TakenMoney { payer, order, notice } in &self.money {
            let (is_there, is_paid, is_kept): (bool, bool, bool) = sqlx::query_as(
                "select exists (select from orders where id = $1),
                        exists (select from orders where id = $1 and status in (2, 3)),
                        exists (select from refunds where order_id = $1)
                        or exists (select from unmatched_payments where transaction_id = $2)",
            )
            .bind(order)
            .bind(self.transaction_of(order))
            .fetch_one(&self.database)
            .await?;
            let accepted = self.answer(notice) == Some(&Act::Worked(WorkTurn::Paid));
            match (is_paid, is_kept) {
                (true, true) => lost.push(Witness::OrderAndMoney { payer }),
                (false, false) if accepted => lost.push(Witness::CancelledThoughPaid { payer }),
                (false, false) if is_there => lost.push(Witness::PaidTooLate { payer }),
                (false, false) => lost.push(Witness::PaidForNothing { payer }),
                (true, false) | (false, true) => {}
            }
        }
        Ok(lost)
    }
}
