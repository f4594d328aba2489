//! The scheduler of one replay: actors who go on only when the schedule says so, and what they did.

use std::time::Duration;

use nix::sys::signal::Signal;
use sqlx::postgres::PgPool;

use super::lock_servers::LockServers;
use super::node_process::NodeProcess;
use super::protocol::{Attempt, NodeRequest};
use super::timeline::TimelineLine;
use super::world::World;
use crate::ladder::{Answer, Point, Purchase, Rung, WorkTurn};

/// What takes longer never comes: the cell is unknown.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The first rung whose lock is renewed, and whose holder learns that it has lost it.
const WATCHES_ITSELF: u32 = 13;

/// A lease that no replay outlasts.
pub(super) const LONG_LEASE: Duration = Duration::from_secs(120);

/// A lease whose end a replay waits for.
pub(super) const SHORT_LEASE: Duration = Duration::from_millis(500);

/// One of the scheduler's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIndex(pub(super) usize);

/// One of the scheduler's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor(pub(super) usize);

/// Where an attempt came to a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// At the pause point that was asked for.
    At(Point),
    /// It waits for another actor.
    Waits,
    /// It was answered.
    Done(Answer),
    /// It was a consumer's turn, and is over.
    Worked(WorkTurn),
    /// It found that it had lost its lock, and wrote nothing.
    LostLock,
    /// It came to no answer.
    Failed(String),
}

/// What an actor is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActorState {
    /// At a pause point, or not begun.
    Held,
    /// It waits in the database.
    QueuedInDatabase,
    /// It waits in its process.
    QueuedInProcess,
    /// It goes on by itself.
    Running,
    /// It was answered, or its process is gone.
    Over,
}

/// An actor and what became of it.
pub(super) struct ActorRecord {
    pub(super) name: &'static str,
    /// The user in the database, and what the user wants.
    pub(super) user: i64,
    pub(super) voucher: i64,
    pub(super) node: usize,
    pub(super) state: ActorState,
    pub(super) answer: Option<Stop>,
    /// What the rung said at the last pause point, or why there is no answer.
    pub(super) detail: String,
    pub(super) may_fail: bool,
}

/// What an attempt is to be.
#[derive(Debug, Clone, Copy)]
pub struct ActorPlan {
    /// Which of the cell's users, from 0.
    pub user: i64,
    /// Which voucher.
    pub voucher: i64,
    /// Another one on the way.
    pub also: Option<i64>,
    /// The lease of its lock.
    pub lease: Duration,
    /// How long it waits for another one.
    pub patience: Duration,
}

impl ActorPlan {
    /// A buyer of one voucher, with a lease that does not end meanwhile.
    pub const fn new(user: i64, voucher: i64) -> Self {
        Self { user, voucher, also: None, lease: LONG_LEASE, patience: Purchase::PATIENCE }
    }

    /// With a lease that ends soon.
    pub const fn short(self) -> Self {
        Self { lease: SHORT_LEASE, ..self }
    }

    /// Buys another voucher on the way.
    pub const fn and(self, also: i64) -> Self {
        Self { also: Some(also), ..self }
    }
}

/// The scheduler.
pub struct Scheduler<'a> {
    /// Where it is.
    pub world: &'a World,
    /// What is played.
    pub rung: &'static Rung,
    /// The lock's servers, for the processes started from now on.
    pub servers: LockServers,
    /// The vouchers on sale.
    pub vouchers: Vec<i64>,
    /// PostgreSQL, for the lab's own looks.
    pub database: PgPool,
    /// What all keys begin with.
    pub key_prefix: String,
    /// The first user of the cell.
    pub first_user: i64,
    pub(super) nodes: Vec<NodeProcess>,
    pub(super) actors: Vec<ActorRecord>,
    timeline: Vec<TimelineLine>,
    /// The orders written, in the order in which they came.
    orders: Vec<String>,
    /// Why a promise that the database cannot judge is broken.
    broken: Vec<String>,
}

impl<'a> Scheduler<'a> {
    /// An empty scheduler.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn new(world: &'a World, rung: &'static Rung) -> anyhow::Result<Self> {
        let (first_user, key_prefix) = world.next_cell();
        Ok(Self {
            database: PgPool::connect(&world.database_url(rung.tables)?).await?,
            servers: LockServers::start(world, rung).await?,
            world,
            rung,
            vouchers: Vec::new(),
            key_prefix,
            first_user,
            nodes: Vec::new(),
            actors: Vec::new(),
            timeline: Vec::new(),
            orders: Vec::new(),
            broken: Vec::new(),
        })
    }

    /// A line of the timeline that is not an actor's.
    pub fn say(&mut self, text: impl Into<String>) {
        self.timeline.push(TimelineLine::of_the_lab(text));
    }

    pub(super) fn note(&mut self, who: &str, text: impl Into<String>) {
        self.timeline.push(TimelineLine::of(who, text));
    }

    /// Puts a voucher on sale.
    ///
    /// # Errors
    /// As any statement.
    pub async fn voucher(&mut self, stock: i32) -> anyhow::Result<i64> {
        let id: i64 = sqlx::query_scalar(
            "insert into vouchers (title, created_at) values ('lab', now()) returning id",
        )
        .fetch_one(&self.database)
        .await?;
        sqlx::query(
            "insert into seckill_vouchers (voucher_id, initial_stock, stock, begin_time, end_time)
             values ($1, $2, $2, now() - interval '1 hour', now() + interval '1 day')",
        )
        .bind(id)
        .bind(stock)
        .execute(&self.database)
        .await?;
        self.vouchers.push(id);
        let nth = self.vouchers.len();
        self.say(format!("voucher {nth} is on sale, {stock} in stock"));
        Ok(id)
    }

    /// Starts a process that sells.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn node(&mut self) -> anyhow::Result<NodeIndex> {
        let plan = self.node_plan()?;
        self.start_node(&plan).await
    }

    /// An attempt comes to `node`. It does nothing before it is driven.
    ///
    /// # Errors
    /// When the node has ended.
    pub async fn enter(
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
        };
        sqlx::query(
            "insert into users (id, phone, nickname, created_at)
             values ($1, 'lab ' || $1, 'lab', now()) on conflict do nothing",
        )
        .bind(attempt.user)
        .execute(&self.database)
        .await?;
        let in_the_books = attempt.user;
        self.nodes[node.0].order(&NodeRequest::Enter(attempt)).await?;
        let (user, nth) = (buyer.user + 1, self.nth(buyer.voucher));
        let also = buyer.also.map(|also| format!(", and on the way voucher {}", self.nth(also)));
        let also = also.unwrap_or_default();
        let process = node.0 + 1;
        self.note(name, format!("user {user} wants voucher {nth}{also} (process {process})"));
        self.actors.push(ActorRecord {
            name,
            user: in_the_books,
            voucher: buyer.voucher,
            node: node.0,
            state: ActorState::Held,
            answer: None,
            detail: String::new(),
            may_fail: false,
        });
        Ok(Actor(self.actors.len() - 1))
    }

    /// Orders by the order in which they came: the same in every run.
    pub(super) fn nth_order(&mut self, id: String) -> String {
        let known = self.orders.iter().position(|known| *known == id);
        let nth = known.unwrap_or_else(|| {
            self.orders.push(id);
            self.orders.len() - 1
        });
        format!("order {}", nth + 1)
    }

    fn nth(&self, voucher: i64) -> usize {
        self.vouchers.iter().position(|known| *known == voucher).map_or(0, |nth| nth + 1)
    }

    /// `kill -9` of a process; its actors are over.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(format!("process {} is killed (SIGKILL)", node.0 + 1));
        for record in self.actors.iter_mut().filter(|record| record.node == node.0) {
            record.state = ActorState::Over;
        }
        self.nodes[node.0].kill().await
    }

    /// `SIGSTOP` of a process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(format!("process {} is stopped (SIGSTOP)", node.0 + 1));
        self.nodes[node.0].signal(Signal::SIGSTOP)
    }

    /// `SIGCONT` of a process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        self.say(format!("process {} goes on (SIGCONT)", node.0 + 1));
        self.nodes[node.0].signal(Signal::SIGCONT)
    }

    /// The last thing that became of the actor.
    pub fn answer(&self, actor: Actor) -> Option<&Stop> {
        self.actors[actor.0].answer.as_ref()
    }

    /// A promise that the database cannot judge is broken: why.
    pub fn broken(&mut self, why: impl Into<String>) {
        let why = why.into();
        self.say(format!("so: {why}"));
        self.broken.push(why);
    }

    /// Everybody who was answered, and how.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, Answer)> {
        self.answered().map(|(record, answer)| (record.name, answer))
    }

    pub(super) fn answered(&self) -> impl Iterator<Item = (&ActorRecord, Answer)> {
        self.actors.iter().filter_map(|record| match record.answer {
            Some(Stop::Done(answer)) => Some((record, answer)),
            _ => None,
        })
    }

    /// Why somebody came to no answer, which no schedule counts on unless it says so.
    pub fn failure(&self) -> Option<String> {
        self.actors.iter().filter(|record| !record.may_fail).find_map(|record| {
            match &record.answer {
                Some(Stop::Failed(error)) => {
                    Some(format!("{} came to no answer: {error}", record.name))
                }
                _ => None,
            }
        })
    }

    /// The schedule counts on the actor's coming to no answer.
    pub fn may_fail(&mut self, actor: Actor) {
        self.actors[actor.0].may_fail = true;
    }

    /// The promises broken that no database shows.
    pub fn breaches(&self) -> &[String] {
        &self.broken
    }

    /// Where the rung has looked for the last time whether it may write.
    pub fn last_check(&self) -> Point {
        if self.renews() { Point::LastCheck } else { Point::OrdersCounted }
    }

    /// Whether the holder's lease is renewed while it lives.
    pub fn renews(&self) -> bool {
        self.rung.number() >= WATCHES_ITSELF
    }

    /// Orders of a voucher.
    ///
    /// # Errors
    /// As any statement.
    pub async fn orders(&self, voucher: i64) -> anyhow::Result<i64> {
        let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
        Ok(count.bind(voucher).fetch_one(&self.database).await?)
    }

    /// Breaks off what is played and forgets it. Processes and servers stay; users are fresh ones.
    ///
    /// # Errors
    /// When a process has ended.
    pub(super) async fn start_over(&mut self) -> anyhow::Result<()> {
        for node in &mut self.nodes {
            node.break_off().await?;
        }
        (self.first_user, _) = self.world.next_cell();
        self.vouchers.clear();
        self.actors.clear();
        self.timeline.clear();
        self.orders.clear();
        self.broken.clear();
        Ok(())
    }

    /// Ends the scheduler: its processes, its connections. Returns what happened.
    pub async fn strike(mut self) -> Vec<TimelineLine> {
        for node in &mut self.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        self.database.close().await;
        self.timeline
    }
}
