//! The stage of one replay: actors who go on only when the schedule says so, and what they did.

use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use sqlx::postgres::PgPool;
use tokio::time::timeout;

use super::node_process::NodeProcess;
use super::protocol::{Act, Attempt, NodePlan, Order};
use super::timeline::Line;
use super::world::World;
use crate::ladder::{Answer, Point, Rung};

/// What takes longer never comes: the cell is unknown.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often PostgreSQL is asked who waits for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The first rung whose holder learns that it has lost its lock.
const WATCHES_ITSELF: u32 = 13;

/// A lease that no replay outlasts.
pub const LONG_LEASE: Duration = Duration::from_secs(120);

/// A lease whose end a replay waits for.
pub const SHORT_LEASE: Duration = Duration::from_millis(500);

/// One of the stage's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(usize);

/// One of the stage's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor(usize);

/// Where an attempt came to a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// At the pause point that was asked for.
    At(Point),
    /// It waits for another actor.
    Waits,
    /// It was answered.
    Done(Answer),
    /// It found that it had lost its lock, and wrote nothing.
    LostLock,
    /// It came to no answer.
    Failed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At a pause point, or not begun.
    Held,
    /// It waits in the database.
    QueuedInDatabase,
    /// It waits in its process.
    QueuedInProcess,
    /// It goes on by itself.
    Running,
    Over,
}

struct Cast {
    name: &'static str,
    node: usize,
    state: State,
    answer: Option<Stop>,
    may_fail: bool,
}

/// What an attempt is to be.
#[derive(Debug, Clone, Copy)]
pub struct Buyer {
    /// Which of the cell's users, from 0.
    pub user: i64,
    /// Which voucher.
    pub voucher: i64,
    /// Another one on the way.
    pub also: Option<i64>,
    /// The lease of its lock.
    pub lease: Duration,
}

impl Buyer {
    /// A buyer of one voucher, with a lease that does not end meanwhile.
    pub const fn new(user: i64, voucher: i64) -> Self {
        Self { user, voucher, also: None, lease: LONG_LEASE }
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

/// The stage.
pub struct Stage<'a> {
    /// Where it is.
    pub world: &'a World,
    /// What is played.
    pub rung: &'static Rung,
    /// The lock's servers, for the nodes started from now on.
    pub redis_urls: Vec<String>,
    /// ZooKeeper, for the nodes started from now on.
    pub zookeeper: Option<String>,
    /// The vouchers on sale.
    pub vouchers: Vec<i64>,
    /// PostgreSQL, for the lab's own looks.
    pub database: PgPool,
    /// What all keys begin with.
    pub key_prefix: String,
    /// The first user of the cell.
    pub first_user: i64,
    nodes: Vec<NodeProcess>,
    cast: Vec<Cast>,
    timeline: Vec<Line>,
    /// The orders written, in the order in which they came.
    orders: Vec<String>,
    /// Why a promise that the database cannot judge is broken.
    broken: Vec<String>,
}

impl<'a> Stage<'a> {
    /// An empty stage.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn new(world: &'a World, rung: &'static Rung) -> anyhow::Result<Self> {
        let (first_user, key_prefix) = world.next_cell();
        Ok(Self {
            database: PgPool::connect(&world.database_url(rung.tables)?).await?,
            redis_urls: world.redis_urls(rung),
            zookeeper: None,
            world,
            rung,
            vouchers: Vec::new(),
            key_prefix,
            first_user,
            nodes: Vec::new(),
            cast: Vec::new(),
            timeline: Vec::new(),
            orders: Vec::new(),
            broken: Vec::new(),
        })
    }

    /// A line of the timeline that is not an actor's.
    pub fn say(&mut self, text: impl Into<String>) {
        self.timeline.push(Line::of_the_lab(text));
    }

    fn note(&mut self, who: &str, text: impl Into<String>) {
        self.timeline.push(Line::of(who, text));
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
    pub async fn node(&mut self) -> anyhow::Result<Node> {
        let plan = NodePlan {
            rung: self.rung.id.to_owned(),
            database_url: self.world.database_url(self.rung.tables)?,
            redis_urls: self.redis_urls.clone(),
            zookeeper: self.zookeeper.clone(),
            key_prefix: self.key_prefix.clone(),
            http: false,
        };
        let node = timeout(PATIENCE, NodeProcess::start(&self.world.exe, &plan)).await;
        self.nodes.push(node.context("a node did not come up in time")??);
        Ok(Node(self.nodes.len() - 1))
    }

    /// An attempt comes to `node`. It does nothing before it is driven.
    ///
    /// # Errors
    /// When the node has ended.
    pub async fn enter(
        &mut self,
        name: &'static str,
        node: Node,
        buyer: Buyer,
    ) -> anyhow::Result<Actor> {
        let attempt = Attempt {
            actor: name.to_owned(),
            user: self.first_user + buyer.user,
            voucher: buyer.voucher,
            also: buyer.also,
            lease_ms: buyer.lease.as_millis() as u64,
        };
        sqlx::query(
            "insert into users (id, phone, nickname, created_at)
             values ($1, 'lab ' || $1, 'lab', now()) on conflict do nothing",
        )
        .bind(attempt.user)
        .execute(&self.database)
        .await?;
        self.nodes[node.0].order(&Order::Enter(attempt)).await?;
        let (user, nth) = (buyer.user + 1, self.nth(buyer.voucher));
        let also = buyer.also.map(|also| format!(", and on the way voucher {}", self.nth(also)));
        let also = also.unwrap_or_default();
        let process = node.0 + 1;
        self.note(name, format!("user {user} wants voucher {nth}{also} (process {process})"));
        self.cast.push(Cast {
            name,
            node: node.0,
            state: State::Held,
            answer: None,
            may_fail: false,
        });
        Ok(Actor(self.cast.len() - 1))
    }

    /// Orders by the order in which they came: the same in every run.
    fn nth_order(&mut self, id: String) -> String {
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

    /// Lets the actor go on until it is at `point`, or as far as it gets.
    ///
    /// # Errors
    /// When its process ends, or nothing happens for half a minute.
    pub async fn until(&mut self, actor: Actor, point: Point) -> anyhow::Result<Stop> {
        self.drive(actor, &[point]).await
    }

    /// As [`Stage::until`], to the first of several points.
    ///
    /// # Errors
    /// As [`Stage::until`].
    pub async fn until_first(&mut self, actor: Actor, points: &[Point]) -> anyhow::Result<Stop> {
        self.drive(actor, points).await
    }

    /// Lets the actor go on to its end, or as far as it gets.
    ///
    /// # Errors
    /// As [`Stage::until`].
    pub async fn finish(&mut self, actor: Actor) -> anyhow::Result<Stop> {
        self.drive(actor, &[]).await
    }

    /// Lets all of them go on to their ends, the first first. Where they queue for something,
    /// whoever gets it goes on: the queue's order is not the schedule's.
    ///
    /// # Errors
    /// As [`Stage::until`].
    pub async fn finish_all(&mut self, actors: &[Actor]) -> anyhow::Result<()> {
        let mut left = actors.to_vec();
        while !left.is_empty() {
            let next = timeout(PATIENCE, self.next_ready(&left)).await;
            let next = next.with_context(|| format!("nobody went on for {PATIENCE:?}"))??;
            if self.finish(next).await? != Stop::Waits {
                left.retain(|actor| *actor != next);
            }
        }
        Ok(())
    }

    /// The first of `actors` who can go on.
    async fn next_ready(&mut self, actors: &[Actor]) -> anyhow::Result<Actor> {
        loop {
            for actor in actors {
                let cast = &self.cast[actor.0];
                let queued = matches!(cast.state, State::QueuedInDatabase | State::QueuedInProcess);
                if !queued || self.nodes[cast.node].has_heard(cast.name) {
                    return Ok(*actor);
                }
            }
            for actor in actors {
                let node = self.cast[actor.0].node;
                if let Ok(heard) = timeout(LOOK_EVERY, self.nodes[node].listen()).await {
                    heard?;
                }
            }
        }
    }

    async fn drive(&mut self, actor: Actor, points: &[Point]) -> anyhow::Result<Stop> {
        loop {
            let (name, node) = (self.cast[actor.0].name, self.cast[actor.0].node);
            match self.cast[actor.0].state {
                State::Held => {
                    self.cast[actor.0].state = State::Running;
                    self.nodes[node].order(&Order::Go(name.to_owned())).await?;
                }
                State::Over => return Ok(self.cast[actor.0].answer.clone().unwrap_or(Stop::Waits)),
                State::QueuedInDatabase | State::QueuedInProcess | State::Running => {}
            }
            let act = timeout(PATIENCE, self.next_act(actor)).await;
            let act = act.with_context(|| format!("{name} did nothing for {PATIENCE:?}"))??;
            let stop = match act {
                Act::At(at, detail) => {
                    self.cast[actor.0].state = State::Held;
                    let detail =
                        if at == Point::Committing { self.nth_order(detail) } else { detail };
                    self.note(name, at.told(&detail));
                    if !points.contains(&at) {
                        continue;
                    }
                    return Ok(Stop::At(at));
                }
                Act::Waits(what) => {
                    self.note(name, format!("waits for {what}"));
                    return Ok(Stop::Waits);
                }
                Act::Done(answer) => {
                    self.note(name, format!("is told: {answer}"));
                    Stop::Done(answer)
                }
                Act::LostLock => {
                    self.note(name, "has lost its lock and writes nothing");
                    Stop::LostLock
                }
                Act::Failed(error) => {
                    self.note(name, format!("comes to no answer: {error}"));
                    Stop::Failed(error)
                }
            };
            self.cast[actor.0].state = State::Over;
            self.cast[actor.0].answer = Some(stop.clone());
            return Ok(stop);
        }
    }

    /// What the actor does next. That it waits for somebody else's row is something that
    /// only PostgreSQL knows.
    async fn next_act(&mut self, actor: Actor) -> anyhow::Result<Act> {
        let cast = &self.cast[actor.0];
        let (name, node, was) = (cast.name, cast.node, cast.state);
        let queued = |cast: &&Cast| cast.state == State::QueuedInDatabase;
        let known = self.cast.iter().filter(queued).count() as i64;
        loop {
            if let Ok(act) = timeout(LOOK_EVERY, self.nodes[node].next_act(name)).await {
                let act = act?;
                if matches!(act, Act::Waits(_)) {
                    self.cast[actor.0].state = State::QueuedInProcess;
                }
                return Ok(act);
            }
            if was == State::Running && self.waiting_in_database().await? > known {
                self.cast[actor.0].state = State::QueuedInDatabase;
                return Ok(Act::Waits("a row that another transaction has locked".to_owned()));
            }
        }
    }

    async fn waiting_in_database(&self) -> anyhow::Result<i64> {
        let waiting = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'",
        );
        Ok(waiting.fetch_one(&self.database).await?)
    }

    /// `kill -9` of a process; its actors are over.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self, node: Node) -> anyhow::Result<()> {
        self.say(format!("process {} is killed (SIGKILL)", node.0 + 1));
        for cast in self.cast.iter_mut().filter(|cast| cast.node == node.0) {
            cast.state = State::Over;
        }
        self.nodes[node.0].kill().await
    }

    /// `SIGSTOP` of a process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&mut self, node: Node) -> anyhow::Result<()> {
        self.say(format!("process {} is stopped (SIGSTOP)", node.0 + 1));
        self.nodes[node.0].signal(Signal::SIGSTOP)
    }

    /// `SIGCONT` of a process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&mut self, node: Node) -> anyhow::Result<()> {
        self.say(format!("process {} goes on (SIGCONT)", node.0 + 1));
        self.nodes[node.0].signal(Signal::SIGCONT)
    }

    /// The last thing that became of the actor.
    pub fn answer(&self, actor: Actor) -> Option<&Stop> {
        self.cast[actor.0].answer.as_ref()
    }

    /// A promise that the database cannot judge is broken: why.
    pub fn broken(&mut self, why: impl Into<String>) {
        let why = why.into();
        self.say(format!("so: {why}"));
        self.broken.push(why);
    }

    /// Everybody who was answered, and how.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, Answer)> {
        self.cast.iter().filter_map(|cast| match cast.answer {
            Some(Stop::Done(answer)) => Some((cast.name, answer)),
            _ => None,
        })
    }

    /// Why somebody came to no answer, which no schedule counts on unless it says so.
    pub fn failure(&self) -> Option<String> {
        self.cast.iter().filter(|cast| !cast.may_fail).find_map(|cast| match &cast.answer {
            Some(Stop::Failed(error)) => Some(format!("{} came to no answer: {error}", cast.name)),
            _ => None,
        })
    }

    /// The schedule counts on the actor's coming to no answer.
    pub fn may_fail(&mut self, actor: Actor) {
        self.cast[actor.0].may_fail = true;
    }

    /// The promises broken that no database shows.
    pub fn breaches(&self) -> &[String] {
        &self.broken
    }

    /// Where the rung has looked for the last time whether it may write.
    pub fn last_check(&self) -> Point {
        if self.rung.number() >= WATCHES_ITSELF { Point::LastCheck } else { Point::OrdersCounted }
    }

    /// Orders of a voucher.
    ///
    /// # Errors
    /// As any statement.
    pub async fn orders(&self, voucher: i64) -> anyhow::Result<i64> {
        let count = sqlx::query_scalar("select count(*) from orders where voucher_id = $1");
        Ok(count.bind(voucher).fetch_one(&self.database).await?)
    }

    /// Ends the stage: its processes, its connections. Returns what happened.
    pub async fn strike(mut self) -> Vec<Line> {
        for node in &mut self.nodes {
            // Gone already, or it is now.
            let _ = node.kill().await;
        }
        self.database.close().await;
        self.timeline
    }
}
