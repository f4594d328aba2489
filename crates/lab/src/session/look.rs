//! What is there now: the row, the orders and the locks, read from their servers, and the promises
//! that they break.

use super::locks::LockView;
use super::play::LabSession;
use super::state::{ActorView, BrokenPromise, OrderView, SessionState, StockRow};
use super::tell::CONSUMER_NAME;
use crate::game::{CONSUMER, Schedule, Step};
use crate::judge::{Books, Breach, broken_promises};
use crate::told::Witness;
use ladder::Invariant;
use seckill::purchase::audit::VoucherAudit;

impl LabSession<'_> {
    /// What there is to see.
    ///
    /// # Errors
    /// When a server is gone.
    pub async fn state(&mut self) -> anyhow::Result<SessionState> {
        let books = self.game.books().await?;
        let plan = self.game.plan;
        let VoucherAudit { initial_stock, stock, .. } = books.audit;
        let is_kill = |step: &&Step| matches!(step, Step::Kill(_)) && step.short() == "K";
        Ok(SessionState {
            rung: plan.rung.id,
            users: plan.users,
            processes: plan.processes,
            stock: plan.stock,
            unpaid: plan.is_unpaid,
            schedule: Schedule(self.game.steps.clone()).short(),
            actors: self.actor_views(),
            lease_can_end: self.possible.contains(&Step::EndLease),
            can_kill: self.possible.iter().any(|step| is_kill(&step)),
            can_send_again: self.possible.contains(&Step::SendAgain),
            pause: self
                .possible
                .iter()
                .find(|step| matches!(step, Step::Pause(_)))
                .map(|step| step.short()),
            is_over: self.game.is_settled(),
            row: StockRow { initial_stock, stock },
            orders: self.orders(&books),
            locks: self.lock_views().await?,
            timeline: self.events.clone(),
            events: self.events.len(),
            broken: self.broken(&books),
        })
    }

    fn actor_views(&self) -> Vec<ActorView> {
        let actors = 0..self.game.driver.count();
        let mut views: Vec<ActorView> = actors.map(|nth| self.actor_view(nth)).collect();
        if self.rung().has_consumer() {
            let (at, line) = self.places[self.consumer()];
            views.push(ActorView {
                name: CONSUMER_NAME,
                user: 0,
                process: 1,
                at,
                line,
                can_step: self.possible.contains(&Step::Go(CONSUMER)),
                is_over: self.game.driver.consumer_is_dead() || self.game.is_settled(),
            });
        }
        views
    }

    fn actor_view(&self, nth: usize) -> ActorView {
        let record = self.game.driver.record(nth);
        let (at, line) = self.places[nth];
        let is_time = self.game.is_time(nth);
        ActorView {
            name: record.name,
            user: if is_time { 0 } else { self.game.plan.user(nth) as u8 + 1 },
            process: record.node as u8 + 1,
            at,
            line,
            can_step: self.possible.contains(&Step::Go(self.game.place_of(nth))),
            is_over: record.state.is_over(),
        }
    }

    fn orders(&mut self, books: &Books) -> Vec<OrderView> {
        let scheduler = &mut self.game.driver.scheduler;
        let first_user = scheduler.first_user;
        let orders = books.orders.iter();
        let mut orders: Vec<_> =
            orders.map(|(id, user)| (scheduler.log.nth_order(*id), user)).collect();
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
        for user in 0..i64::from(self.game.plan.users) {
            let key = self.game.driver.scheduler.lock_key(user)?;
            let name = format!("lock:order:{}", user + 1);
            views.extend(self.locks.look(&key, &name).await?);
        }
        Ok(views)
    }

    /// What is broken: what was seen at the end, or what the books and the answers show now. Until the end a consumer
    /// may still write what a buyer was told, and what ends an order may still give back what it took.
    fn broken(&mut self, books: &Books) -> Vec<BrokenPromise> {
        let is_final = |breach: &Breach| {
            !self.rung().has_consumer() && !self.game.plan.is_unpaid
                || matches!(
                    breach.invariant,
                    Invariant::NoOversell | Invariant::OnePerUser | Invariant::FairOrder
                )
        };
        let found = match self.game.verdict() {
            Some(verdict) => verdict.to_vec(),
            None => {
                let now = broken_promises(&self.game.driver.scheduler, books).into_iter();
                now.filter(is_final).collect()
            }
        };
        let mut broken: Vec<BrokenPromise> = Vec::new();
        for Breach { invariant, witness } in found {
            // Each promise once.
            if broken.iter().all(|known| known.invariant != invariant) {
                let claimed = self.rung().claims.contains(&invariant);
                let witness = self.with_both_orders(witness, books);
                broken.push(BrokenPromise { invariant, claimed, witness });
            }
        }
        broken
    }

    /// There are two buyers, and the page shows which orders they have.
    fn with_both_orders(&mut self, witness: Witness, books: &Books) -> Witness {
        let (Witness::SeveralOrders { user, .. }, Some((_, ids))) = (&witness, books.twice())
        else {
            return witness;
        };
        let [first, second] = ids[..] else { return witness };
        let scheduler = &mut self.game.driver.scheduler;
        let (first, second) = (scheduler.log.nth_order(first), scheduler.log.nth_order(second));
        Witness::BothOrders { user: *user, first, second }
    }
}
