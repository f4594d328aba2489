//! The scheduler of one replay: actors that go on only when the schedule says so, and what they did.

use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::time::timeout;
use uuid::Uuid;

pub(super) use super::actors::{Actor, ActorPlan, ActorRecord, ActorState, SHORT_LEASE, Stop};
use super::lock_servers::LockServers;
use super::node_process::NodeProcess;
use super::payments::TakenMoney;
use super::protocol::{Attempt, NodePlan, NodeRequest};
use super::sale;
use super::timeline::TimelineLine;
use super::told::{Event, Witness};
use super::world::World;
use ladder::{Answer, Capability, LeaseKind, Point, Rung};

/// What takes longer never comes: the cell is unknown.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// One of the scheduler's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeIndex(pub(super) usize);

impl NodeIndex {
    /// Which of the processes it is for whoever reads of it, from 1.
    pub(super) const fn number(self) -> usize {
        self.0 + 1
    }
}

/// The scheduler.
pub(super) struct Scheduler<'a> {
    /// Where it is.
    pub(super) world: &'a World,
    /// What is played.
    pub(super) rung: &'static Rung,
    /// The lock's servers, for the processes started from now on.
    pub(super) servers: LockServers,
    /// The vouchers on sale.
    pub(super) vouchers: Vec<i64>,
    /// PostgreSQL, for the lab's own looks.
    pub(super) database: PgPool,
    /// What the names of the processes there (`application_name`) begin with.
    pub(super) application: String,
    /// What all keys begin with.
    pub(super) key_prefix: String,
    /// The first user of the cell.
    pub(super) first_user: i64,
    pub(super) nodes: Vec<NodeProcess>,
    pub(super) actors: Vec<ActorRecord>,
    /// What the payment gateway has taken.
    pub(super) money: Vec<TakenMoney>,
    timeline: Vec<TimelineLine>,
    /// The orders written, in the order in which they came.
    orders: Vec<i64>,
    /// Why a promise that the database cannot judge is broken.
    broken: Vec<Witness>,
}

impl<'a> Scheduler<'a> {
    /// An empty scheduler.
    pub(super) async fn new(world: &'a World, rung: &'static Rung) -> anyhow::Result<Self> {
        Self::on(world, rung, LockServers::start(world, rung).await?).await
    }

    /// An empty scheduler with these servers for the rung's lock.
    pub(super) async fn on(
        world: &'a World,
        rung: &'static Rung,
        servers: LockServers,
    ) -> anyhow::Result<Self> {
        let (first_user, key_prefix) = world.next_cell();
        let database = PgPoolOptions::new().test_before_acquire(false);
        Ok(Self {
            database: database.connect(&world.database_url(rung.tables)?).await?,
            servers,
            application: format!("{}/", key_prefix.trim_end_matches(':')),
            world,
            rung,
            vouchers: Vec::new(),
            key_prefix,
            first_user,
            nodes: Vec::new(),
            actors: Vec::new(),
            money: Vec::new(),
            timeline: Vec::new(),
            orders: Vec::new(),
            broken: Vec::new(),
        })
    }

    /// A line of the timeline that is not an actor's.
    pub(super) fn say(&mut self, event: Event) {
        self.timeline.push(TimelineLine::of_the_lab(event));
    }

    pub(super) fn note(&mut self, who: &str, event: Event) {
        self.timeline.push(TimelineLine::of(who, event));
    }

    /// Puts a voucher on sale.
    pub(super) async fn voucher(&mut self, stock: i32) -> anyhow::Result<i64> {
        let id = sale::put_on_sale(&self.database, self.rung, stock).await?.get();
        self.vouchers.push(id);
        self.say(Event::OnSale { voucher: self.vouchers.len(), stock });
        Ok(id)
    }

    /// Starts a process that sells.
    pub(super) async fn node(&mut self) -> anyhow::Result<NodeIndex> {
        let plan = self.node_plan()?;
        self.start_node(&plan).await
    }

    /// Ends a process, if it has not ended, and puts a new one in its place.
    pub(super) async fn replace_node(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        // Gone already, or it is now.
        let _ = self.nodes[node.0].kill().await;
        let plan = self.plan_of_process(node.0)?;
        self.nodes[node.0] = self.process(&plan).await?;
        Ok(())
    }

    /// The name of a process in PostgreSQL.
    pub(super) fn application_of(&self, node: usize) -> String {
        format!("{}{node}", self.application)
    }

    /// What the next process is to be.
    pub(super) fn node_plan(&self) -> anyhow::Result<NodePlan> {
        self.plan_of_process(self.nodes.len())
    }

    fn plan_of_process(&self, nth: usize) -> anyhow::Result<NodePlan> {
        let mut database_url = url::Url::parse(&self.world.database_url(self.rung.tables)?)?;
        database_url.query_pairs_mut().append_pair("application_name", &self.application_of(nth));
        Ok(NodePlan {
            rung: self.rung.id.to_owned(),
            database_url: database_url.into(),
            redis_urls: self.servers.redis_urls.clone(),
            zookeeper: self.servers.zookeeper.clone(),
            key_prefix: self.key_prefix.clone(),
            http: false,
            consumer: true,
        })
    }

    /// Starts a process by a plan.
    pub(super) async fn start_node(&mut self, plan: &NodePlan) -> anyhow::Result<NodeIndex> {
        let node = self.process(plan).await?;
        self.nodes.push(node);
        Ok(NodeIndex(self.nodes.len() - 1))
    }

    async fn process(&self, plan: &NodePlan) -> anyhow::Result<NodeProcess> {
        let node = timeout(PATIENCE, NodeProcess::start(plan)).await;
        node.context("a node did not come up in time")?
    }

    /// An attempt comes to `node`. It does nothing before it is driven.
    pub(super) async fn enter(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        buyer: ActorPlan,
    ) -> anyhow::Result<Actor> {
        let attempt = Attempt {
            actor: name.to_owned(),
            user: self.first_user + buyer.user,
            voucher: buyer.voucher,
            also: buyer.also,
            lease_ms: buyer.lease.as_millis() as u64,
            patience_ms: buyer.patience.as_millis() as u64,
            request: buyer.request.unwrap_or_else(Uuid::new_v4).to_string(),
        };
        let in_the_books = attempt.user;
        self.nodes[node.0].order(&NodeRequest::Enter(attempt)).await?;
        let (user, process) = (buyer.user + 1, node.number());
        let voucher = self.nth(buyer.voucher);
        let wants = match buyer.also.map(|also| self.nth(also)) {
            Some(also) => Event::WantsTwo { user, voucher, also, process },
            None => Event::Wants { user, voucher, process },
        };
        self.note(name, wants);
        Ok(self.record(ActorRecord {
            user: in_the_books,
            voucher: buyer.voucher,
            ..ActorRecord::new(name, node.0)
        }))
    }

    /// One more actor.
    pub(super) fn record(&mut self, actor: ActorRecord) -> Actor {
        self.actors.push(actor);
        Actor(self.actors.len() - 1)
    }

    /// Orders by the order in which they came: the same in every run.
    pub(super) fn nth_order(&mut self, id: i64) -> usize {
        let known = self.orders.iter().position(|known| *known == id);
        let nth = known.unwrap_or_else(|| {
            self.orders.push(id);
            self.orders.len() - 1
        });
        nth + 1
    }

    /// Which of the orders in the timeline it is, from 1.
    pub(super) fn number_of_order(&self, id: i64) -> Option<usize> {
        self.orders.iter().position(|known| *known == id).map(|nth| nth + 1)
    }

    fn nth(&self, voucher: i64) -> usize {
        self.vouchers.iter().position(|known| *known == voucher).map_or(0, |nth| nth + 1)
    }

    /// `kill -9` of a process; its actors are over.
    pub(super) async fn kill(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(Event::Killed { process: node.number() });
        for record in self.actors.iter_mut().filter(|record| record.node == node.0) {
            record.state = ActorState::Killed;
        }
        self.nodes[node.0].kill().await
    }

    /// `SIGSTOP` of a process.
    pub(super) fn pause(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(Event::Stopped { process: node.number() });
        self.nodes[node.0].signal(Signal::SIGSTOP)
    }

    /// `SIGCONT` of a process.
    pub(super) fn resume(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(Event::Continued { process: node.number() });
        self.nodes[node.0].signal(Signal::SIGCONT)
    }

    /// The last thing that became of the actor.
    pub(super) fn answer(&self, actor: Actor) -> Option<&Stop> {
        self.actors[actor.0].answer.as_ref()
    }

    /// Whether the buyer has the voucher, or was told so.
    pub(super) fn is_served(&self, buyer: Actor) -> bool {
        let answer = self.answer(buyer);
        matches!(answer, Some(Stop::Done(Answer::Ordered(_) | Answer::AlreadyBought)))
    }

    /// After a kill the user comes again, for another voucher: also where somebody was served, a lock may be left
    /// that keeps it out.
    pub(super) async fn locked_out(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        user: i64,
        never_ends: bool,
    ) -> anyhow::Result<Option<Witness>> {
        let voucher = self.voucher(1).await?;
        let again = ActorPlan { patience: PATIENCE / 10, ..ActorPlan::new(user, voucher) };
        let again = self.enter(name, node, again).await?;
        self.finish_all(&[again]).await?;
        Ok((!self.is_served(again)).then(|| Witness::locked_out(user + 1, never_ends)))
    }

    /// A promise that the database cannot judge is broken: why.
    pub(super) fn broken(&mut self, witness: Witness) {
        self.say(Event::So { witness: witness.clone() });
        self.broken.push(witness);
    }

    /// The actors that were answered, and how.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&'static str, Answer)> {
        self.answered().map(|(record, answer)| (record.name, answer))
    }

    pub(super) fn answered(&self) -> impl Iterator<Item = (&ActorRecord, Answer)> {
        self.actors.iter().filter_map(|record| match record.answer {
            Some(Stop::Done(answer)) => Some((record, answer)),
            _ => None,
        })
    }

    /// Why an actor came to no answer. No schedule counts on that unless it says so.
    pub(super) fn failure(&self) -> Option<Witness> {
        self.actors.iter().filter(|record| !record.may_fail).find_map(ActorRecord::failure)
    }

    /// The schedule counts on the actor's coming to no answer.
    pub(super) fn may_fail(&mut self, actor: Actor) {
        self.actors[actor.0].may_fail = true;
    }

    /// Nobody has heard what the actor was answered.
    pub(super) fn unheard(&mut self, actor: Actor) {
        self.actors[actor.0].answer = None;
    }

    /// The promises broken that no database shows.
    pub(super) fn breaches(&self) -> &[Witness] {
        &self.broken
    }

    /// Where the rung has looked for the last time whether it may write, without the database.
    pub(super) fn last_check(&self) -> Point {
        match self.rung.lease {
            _ if self.rung.can(Capability::Fence) => Point::Locked,
            LeaseKind::Renewed => Point::LastCheck,
            LeaseKind::NoLease | LeaseKind::Fixed => Point::OrdersCounted,
        }
    }

    /// Whether the holder's lease is renewed while it lives.
    pub(super) fn renews(&self) -> bool {
        self.rung.lease == LeaseKind::Renewed
    }

    /// Orders of a voucher.
    pub(super) async fn orders(&self, voucher: i64) -> anyhow::Result<i64> {
        let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
        Ok(count.bind(voucher).fetch_one(&self.database).await?)
    }

    /// Breaks off what is played and forgets it. Processes and servers stay; users are fresh ones.
    pub(super) async fn start_over(&mut self) -> anyhow::Result<()> {
        for node in &mut self.nodes {
            node.break_off().await?;
        }
        self.forget();
        Ok(())
    }

    /// Forgets what was played. Processes and servers stay; users are fresh ones.
    pub(super) fn forget(&mut self) {
        (self.first_user, _) = self.world.next_cell();
        self.vouchers.clear();
        self.actors.clear();
        self.money.clear();
        self.timeline.clear();
        self.orders.clear();
        self.broken.clear();
    }

    /// What happened since this was asked for the last time.
    pub(super) fn take_timeline(&mut self) -> Vec<TimelineLine> {
        std::mem::take(&mut self.timeline)
    }

    /// Ends the scheduler: its processes, its connections. Returns what happened.
    pub(super) async fn strike(mut self) -> Vec<TimelineLine> {
        for node in &mut self.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        self.database.close().await;
        self.timeline
    }
}
