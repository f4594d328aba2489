//! What is there now: the row, the orders and the locks, read from their servers, and the promises
//! that they break.

use anyhow::Context;

use super::locks::LockView;
use super::play::LabSession;
use super::schedule::Schedule;
use super::state::{ActorView, BrokenPromise, OrderView, SessionState, StockRow};
use crate::judge::{Observed, judge};
use crate::scheduler::ActorState;
use ladder::Invariant;

/// What the books and the answers of two buyers can show.
const JUDGED: [Invariant; 3] =
    [Invariant::NoOversell, Invariant::OnePerUser, Invariant::NoUndersell];

impl LabSession<'_> {
    /// What there is to see.
    ///
    /// # Errors
    /// When a server is gone.
    pub async fn state(&mut self) -> anyhow::Result<SessionState> {
        let orders = self.orders().await?;
        Ok(SessionState {
            rung: self.plan.rung.id,
            users: self.plan.users,
            processes: self.plan.processes,
            stock: self.plan.stock,
            schedule: Schedule(self.steps.clone()).to_string(),
            actors: [0, 1].map(|nth| self.actor_view(nth)).to_vec(),
            lease_can_end: self.lease_that_can_end().await?.is_some(),
            row: self.row().await?,
            locks: self.lock_views().await?,
            timeline: self.events.clone(),
            broken: self.broken(&orders).await?,
            orders,
        })
    }

    fn actor_view(&self, nth: usize) -> ActorView {
        let record = &self.scheduler.actors[self.actors[nth].0];
        let (at, line) = self.places[nth];
        ActorView {
            name: record.name,
            user: self.user(nth) as u8 + 1,
            process: record.node as u8 + 1,
            at,
            line,
            can_step: record.state == ActorState::Held,
            is_over: record.state == ActorState::Over,
        }
    }

    fn voucher(&self) -> anyhow::Result<i64> {
        self.scheduler.vouchers.first().copied().context("nothing is on sale")
    }

    async fn row(&self) -> anyhow::Result<StockRow> {
        let row = sqlx::query_as(
            "select initial_stock, stock from seckill_vouchers where voucher_id = $1",
        );
        let (initial_stock, stock) =
            row.bind(self.voucher()?).fetch_one(&self.scheduler.database).await?;
        Ok(StockRow { initial_stock, stock })
    }

    async fn orders(&mut self) -> anyhow::Result<Vec<OrderView>> {
        let orders: Vec<(i64, i64)> =
            sqlx::query_as("select id, user_id from orders where voucher_id = $1 order by id")
                .bind(self.voucher()?)
                .fetch_all(&self.scheduler.database)
                .await?;
        let first_user = self.scheduler.first_user;
        let view = |(id, user): (i64, i64)| OrderView {
            name: self.scheduler.nth_order(id.to_string()),
            user: user - first_user + 1,
        };
        Ok(orders.into_iter().map(view).collect())
    }

    async fn lock_views(&self) -> anyhow::Result<Vec<LockView>> {
        let mut views = Vec::new();
        for user in 0..i64::from(self.plan.users) {
            let key = self.scheduler.lock_key(user)?;
            let name = format!("lock:order:{}", user + 1);
            views.extend(self.locks.look(&key, &name).await?);
        }
        Ok(views)
    }

    async fn broken(&self, orders: &[OrderView]) -> anyhow::Result<Vec<BrokenPromise>> {
        let mut broken = Vec::new();
        for invariant in JUDGED {
            let verdict = judge(&self.scheduler, invariant).await?;
            if verdict.observed == Observed::Holds {
                continue;
            }
            let witness = match twice(orders) {
                Some(names) if invariant == Invariant::OnePerUser => names,
                // There is one voucher.
                _ => verdict.witness.unwrap_or_default().replace("voucher 1: ", ""),
            };
            let claimed = self.plan.rung.claims.contains(&invariant);
            broken.push(BrokenPromise { invariant, claimed, witness });
        }
        Ok(broken)
    }
}

/// The orders of a user who has several.
fn twice(orders: &[OrderView]) -> Option<String> {
    let of = |user: i64| orders.iter().filter(move |order| order.user == user);
    let user = orders.iter().map(|order| order.user).find(|user| of(*user).count() > 1)?;
    let names: Vec<&str> = of(user).map(|order| order.name.as_str()).collect();
    Some(format!("user {user} holds {} orders: {}", names.len(), names.join(" and ")))
}
