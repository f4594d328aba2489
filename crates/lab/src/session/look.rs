//! What is there now: the row, the orders and the locks, read from their servers, and the promises
//! that they break.

use anyhow::Context;

use super::locks::LockView;
use super::play::{CONSUMER, CONSUMER_NAME, LabSession};
use super::schedule::Schedule;
use super::state::{ActorView, BrokenPromise, OrderView, SessionState, StockRow};
use crate::judge::{Books, broken_promises};
use crate::told::Witness;
use ladder::Invariant;
use seckill::purchase::audit::VoucherAudit;

impl LabSession<'_> {
    /// What there is to see.
    ///
    /// # Errors
    /// When a server is gone.
    pub async fn state(&mut self) -> anyhow::Result<SessionState> {
        let scheduler = &self.driver.scheduler;
        let voucher = *scheduler.vouchers.first().context("nothing is on sale")?;
        let books = Books::of(scheduler, voucher).await?;
        let VoucherAudit { initial_stock, stock, .. } = books.audit;
        let row = StockRow { initial_stock, stock };
        Ok(SessionState {
            rung: self.plan.rung.id,
            users: self.plan.users,
            processes: self.plan.processes,
            stock: self.plan.stock,
            schedule: Schedule(self.steps.clone()).to_string(),
            actors: self.actor_views(),
            lease_can_end: self.lease_that_can_end().await?.is_some(),
            can_kill: self.can_kill(),
            is_over: self.is_over(),
            row,
            orders: self.orders(&books),
            locks: self.lock_views().await?,
            timeline: self.events.clone(),
            events: self.events.len(),
            broken: self.broken(&books),
        })
    }

    fn actor_views(&self) -> Vec<ActorView> {
        let mut views = [0, 1].map(|nth| self.actor_view(nth)).to_vec();
        if self.plan.rung.has_consumer() {
            let (at, line) = self.places[CONSUMER];
            views.push(ActorView {
                name: CONSUMER_NAME,
                user: 0,
                process: 1,
                at,
                line,
                can_step: self.consumer_can_step(),
                is_over: self.driver.consumer_is_dead() || self.is_settled(),
            });
        }
        views
    }

    fn actor_view(&self, nth: usize) -> ActorView {
        let record = self.driver.record(nth);
        let (at, line) = self.places[nth];
        ActorView {
            name: record.name,
            user: self.user(nth) as u8 + 1,
            process: record.node as u8 + 1,
            at,
            line,
            can_step: !self.is_settled() && record.state.can_go_on(),
            is_over: record.state.is_over(),
        }
    }

    pub(super) fn broken_promise(&self, invariant: Invariant, witness: Witness) -> BrokenPromise {
        let claimed = self.plan.rung.claims.contains(&invariant);
        BrokenPromise { invariant, claimed, witness }
    }

    fn orders(&mut self, books: &Books) -> Vec<OrderView> {
        let scheduler = &mut self.driver.scheduler;
        let first_user = scheduler.first_user;
        let orders = books.orders.iter();
        let mut orders: Vec<_> =
            orders.map(|(id, user)| (scheduler.nth_order(*id), user)).collect();
        // The ids of some rungs are random.
        orders.sort_by_key(|(order, _)| *order);
        let view = |(order, user): (usize, &i64)| OrderView {
            name: format!("order {order}"),
            user: user - first_user + 1,
        };
        orders.into_iter().map(view).collect()
    }

    async fn lock_views(&self) -> anyhow::Result<Vec<LockView>> {
        let mut views = Vec::new();
        for user in 0..i64::from(self.plan.users) {
            let key = self.driver.scheduler.lock_key(user)?;
            let name = format!("lock:order:{}", user + 1);
            views.extend(self.locks.look(&key, &name).await?);
        }
        Ok(views)
    }

    /// What the books and the answers of two buyers can show: at the end what was seen then.
    pub(super) fn broken(&mut self, books: &Books) -> Vec<BrokenPromise> {
        if let Some(broken) = &self.broken_at_the_end {
            return broken.clone();
        }
        let rung = self.plan.rung;
        // Until then a consumer may still write what a buyer was told.
        let is_early = rung.has_consumer();
        self.broken_now(books, is_early)
    }

    /// What is broken now; `is_early`: what a consumer has still to write counts for nothing.
    pub(super) fn broken_now(&mut self, books: &Books, is_early: bool) -> Vec<BrokenPromise> {
        let is_final = |invariant| {
            !is_early || matches!(invariant, Invariant::NoOversell | Invariant::OnePerUser)
        };
        let scheduler = &mut self.driver.scheduler;
        let mut found = broken_promises(scheduler, books);
        found.retain(|(invariant, _)| is_final(*invariant));
        // There are two buyers, and the page shows which orders they have.
        for (_, witness) in &mut found {
            if let (Witness::SeveralOrders { user, .. }, Some((_, ids))) =
                (&*witness, books.twice())
                && let [first, second] = ids[..]
            {
                let (first, second) = (scheduler.nth_order(first), scheduler.nth_order(second));
                *witness = Witness::BothOrders { user: *user, first, second };
            }
        }
        let found = found.into_iter();
        found.map(|(invariant, witness)| self.broken_promise(invariant, witness)).collect()
    }
}
