//! What is there now: the row, the orders and the locks, read from their servers, and the promises
//! that they break.

use anyhow::Context;

use super::locks::LockView;
use super::play::{CONSUMER, CONSUMER_NAME, LabSession};
use super::schedule::Schedule;
use super::state::{ActorView, BrokenPromise, OrderView, SessionState, StockRow};
use crate::judge::{Books, lost};
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

    pub(super) fn broken_promise(&self, invariant: Invariant, witness: String) -> BrokenPromise {
        let claimed = self.plan.rung.claims.contains(&invariant);
        BrokenPromise { invariant, claimed, witness }
    }

    fn orders(&mut self, books: &Books) -> Vec<OrderView> {
        let first_user = self.driver.scheduler.first_user;
        let view = |(id, user): &(i64, i64)| OrderView {
            name: self.driver.scheduler.nth_order(id.to_string()),
            user: user - first_user + 1,
        };
        let mut orders: Vec<OrderView> = books.orders.iter().map(view).collect();
        // The ids of some rungs are random.
        orders.sort_by_key(|order| (order.name.len(), order.name.clone()));
        orders
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
        let scheduler = &mut self.driver.scheduler;
        let twice = books.twice().map(|(user, orders)| {
            let orders = orders.iter().map(|id| scheduler.nth_order(id.to_string()));
            let names: Vec<String> = orders.collect();
            let user = user - scheduler.first_user + 1;
            format!("user {user} holds {} orders: {}", names.len(), names.join(" and "))
        });
        let lost = lost(scheduler, std::slice::from_ref(books))
            .map(|(name, _)| format!("{name} was told of an order, and has none"));
        let to_the_told = match scheduler.rung.has_consumer() {
            true => Invariant::NoBrokenPromise,
            false => Invariant::NoLostOrder,
        };
        let undersold = books.undersold(scheduler);
        let found = [
            (Invariant::NoOversell, books.oversold()),
            (Invariant::OnePerUser, twice),
            (Invariant::NoUndersell, undersold.filter(|_| !is_early)),
            (to_the_told, lost.filter(|_| !is_early)),
        ];
        let broken = found
            .into_iter()
            .filter_map(|(invariant, witness)| Some(self.broken_promise(invariant, witness?)));
        broken.collect()
    }
}
