//! The scheduler of one replay: actors that go on only when the schedule says so, and what they did.

use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::time::timeout;

use super::lock_servers::LockServers;
pub(super) use super::node_process::{Act, Attempt};
use super::node_process::{NodePlan, NodeProcess, NodeRequest, Task};
use super::payments::TakenMoney;
use super::sale;
use super::timeline::{Log, TimelineLine};
use super::told::{Event, Witness};
use super::world::{World, make_tables};
use faults::PostgresNode;
use ladder::{Answer, Awaited, Rung};

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

/// One of the scheduler's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Actor(pub(super) usize);

/// What an actor is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActorState {
    /// It stands where its attempt begins.
    NotBegun,
    /// At a pause point.
    Held,
    /// It waits in the database.
    QueuedInDatabase,
    /// It waits in its process.
    QueuedInProcess,
    /// It goes on by itself.
    Running,
    /// It was answered.
    Over,
    /// Its process was killed.
    Killed,
}

impl ActorState {
    /// Whether it goes on when the schedule says so.
    pub(super) fn can_go_on(self) -> bool {
        matches!(self, Self::NotBegun | Self::Held)
    }

    /// Whether it waits for another actor.
    pub(super) fn is_queued(self) -> bool {
        matches!(self, Self::QueuedInDatabase | Self::QueuedInProcess)
    }

    /// Whether it will do nothing more.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Over | Self::Killed)
    }
}

/// An actor and what became of it.
pub(super) struct ActorRecord {
    pub(super) name: &'static str,
    /// The user in the database, and what the user wants.
    pub(super) user: i64,
    pub(super) voucher: i64,
    pub(super) node: usize,
    pub(super) state: ActorState,
    pub(super) answer: Option<Act>,
    /// What it has waited for last.
    pub(super) awaited: Option<Awaited>,
    pub(super) may_fail: bool,
    /// Whether it may put more on sale.
    pub(super) adds_stock: bool,
    /// Whether nothing was on sale at some moment since it began.
    pub(super) saw_sold_out: bool,
    /// How many were on sale all the time, where it was told that none is.
    pub(super) refused_of: Option<i64>,
    /// When it was let in, by the time that the lab has let pass.
    pub(super) let_in: Option<Duration>,
    /// The actors that stood in line when it began.
    pub(super) behind: Vec<usize>,
}

impl ActorRecord {
    /// An actor that does nothing before it is driven.
    pub(super) fn new(name: &'static str, node: usize) -> Self {
        Self {
            name,
            user: 0,
            voucher: 0,
            node,
            state: ActorState::NotBegun,
            answer: None,
            awaited: None,
            may_fail: false,
            adds_stock: false,
            saw_sold_out: false,
            refused_of: None,
            let_in: None,
            behind: Vec::new(),
        }
    }

    /// Why it came to no answer.
    pub(super) fn failure(&self) -> Option<Witness> {
        match &self.answer {
            Some(Act::Failed(failure)) => {
                Some(Witness::NoAnswer { actor: self.name, failure: failure.clone() })
            }
            _ => None,
        }
    }

    /// Whether it waits for this in the database.
    pub(super) fn waits_for(&self, what: Awaited) -> bool {
        self.state == ActorState::QueuedInDatabase && self.awaited == Some(what)
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
    /// The same, for the processes started from now on.
    database_url: String,
    /// That PostgreSQL, where it is the cell's own.
    pub(super) standby: Option<PostgresNode>,
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
    /// How much time the lab has let pass.
    pub(super) passed: Duration,
    pub(super) log: Log,
}

async fn connections(url: &str) -> sqlx::Result<PgPool> {
    PgPoolOptions::new().test_before_acquire(false).connect(url).await
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
        let database_url = world.database_url(rung.tables)?;
        Ok(Self {
            database: connections(&database_url).await?,
            database_url,
            standby: None,
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
            passed: Duration::ZERO,
            log: Log::default(),
        })
    }

    /// Makes the rung's tables on another PostgreSQL, and goes on there.
    pub(super) async fn make_database(&mut self, url: &str) -> anyhow::Result<()> {
        make_tables(url, self.rung.tables).await?;
        self.use_database(url).await
    }

    /// Goes on on another PostgreSQL, which has the tables.
    pub(super) async fn use_database(&mut self, url: &str) -> anyhow::Result<()> {
        self.database = connections(url).await?;
        url.clone_into(&mut self.database_url);
        Ok(())
    }

    /// Puts a voucher on sale.
    pub(super) async fn voucher(&mut self, stock: i32) -> anyhow::Result<i64> {
        let id = sale::put_on_sale(&self.database, self.rung, stock).await?.get();
        self.vouchers.push(id);
        self.log.say(Event::OnSale { voucher: self.vouchers.len(), stock });
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
        let mut database_url = url::Url::parse(&self.database_url)?;
        database_url.query_pairs_mut().append_pair("application_name", &self.application_of(nth));
        let key_prefix = self.key_prefix.clone();
        Ok(NodePlan::new(self.rung, database_url.into(), &self.servers, key_prefix))
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
        buyer: Attempt,
    ) -> anyhow::Result<Actor> {
        let attempt = Attempt { user: self.first_user + buyer.user, ..buyer };
        let actor = self.add(name, node, Task::Buy(attempt)).await?;
        (self.actors[actor.0].user, self.actors[actor.0].voucher) = (attempt.user, buyer.voucher);
        let (user, process) = (buyer.user + 1, node.number());
        let voucher = self.nth(buyer.voucher);
        let wants = match buyer.also.map(|also| self.nth(also)) {
            Some(also) => Event::WantsTwo { user, voucher, also, process },
            None => Event::Wants { user, voucher, process },
        };
        self.log.note(name, wants);
        Ok(actor)
    }

    /// A buyer of the first voucher comes to `node`, and goes on to its end.
    pub(super) async fn buys(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        user: i64,
    ) -> anyhow::Result<Actor> {
        let voucher = *self.vouchers.first().context("nothing is on sale")?;
        let buyer = self.enter(name, node, Attempt::new(user, voucher)).await?;
        // Where it has to wait for a batch, it goes on after that.
        self.finish_all(&[buyer]).await?;
        Ok(buyer)
    }

    /// A new actor in `node`. It does nothing before it is driven.
    pub(super) async fn add(
        &mut self,
        name: &'static str,
        node: NodeIndex,
        task: Task,
    ) -> anyhow::Result<Actor> {
        let adds_stock = matches!(task, Task::Expire(_) | Task::Restock(..));
        self.nodes[node.0].order(&NodeRequest::Enter(name.to_owned(), task)).await?;
        self.actors.push(ActorRecord { adds_stock, ..ActorRecord::new(name, node.0) });
        Ok(Actor(self.actors.len() - 1))
    }

    fn nth(&self, voucher: i64) -> usize {
        self.vouchers.iter().position(|known| *known == voucher).map_or(0, |nth| nth + 1)
    }

    /// `kill -9` of a process; its actors are over.
    pub(super) async fn kill(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.log.say(Event::Killed { process: node.number() });
        for record in self.actors.iter_mut().filter(|record| record.node == node.0) {
            record.state = ActorState::Killed;
        }
        self.nodes[node.0].kill().await
    }

    /// `SIGSTOP` of a process.
    pub(super) fn pause(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.log.say(Event::Stopped { process: node.number() });
        self.nodes[node.0].signal(Signal::SIGSTOP)
    }

    /// `SIGCONT` of a process.
    pub(super) fn resume(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.log.say(Event::Continued { process: node.number() });
        self.nodes[node.0].signal(Signal::SIGCONT)
    }

    /// The last thing that became of the actor.
    pub(super) fn answer(&self, actor: Actor) -> Option<&Act> {
        self.actors[actor.0].answer.as_ref()
    }

    /// Whether the buyer has the voucher, or was told so.
    pub(super) fn is_served(&self, buyer: Actor) -> bool {
        let answer = self.answer(buyer);
        matches!(answer, Some(Act::Done(Answer::Ordered(_) | Answer::AlreadyBought)))
    }

    /// The actors that were answered, and how.
    pub(super) fn answered(&self) -> impl Iterator<Item = (&ActorRecord, Answer)> {
        self.actors.iter().filter_map(|record| match record.answer {
            Some(Act::Done(answer)) => Some((record, answer)),
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

    /// Forgets what was played. Processes and servers stay; users are fresh ones.
    pub(super) fn forget(&mut self) {
        (self.first_user, _) = self.world.next_cell();
        self.vouchers.clear();
        self.actors.clear();
        self.money.clear();
        self.passed = Duration::ZERO;
        self.log = Log::default();
    }

    /// Ends the scheduler: its processes, its connections. Returns what happened.
    pub(super) async fn strike(mut self) -> Vec<TimelineLine> {
        for node in &mut self.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        self.database.close().await;
        self.log.take()
    }
}
