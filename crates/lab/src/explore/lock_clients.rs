//! One schedule of clients over the lock's production scripts, on a real Redis.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use redis::cmd;

use super::lock_books::{BrokenByClients, LockBooks, LockInvariant};
use super::walk::{Branch, Runner, play_prefix};
use crate::game::{ACTOR_NAMES, Schedule, Step};
use crate::timeline::TimelineLine;
use crate::told::Event;
use ladder::named;
use redisson_lock::connection::{Redis, SubscriberSink, SubscriberStream};
use redisson_lock::{LockClient, LockOptions, Owner, ScriptClaim};

/// Ends only where a schedule says so.
const LEASE: Duration = Duration::from_secs(3600);

named! {
    /// A part of the protocol that can be left out, to see what it is there for.
    LockPart {
        /// The last release deletes the lock without a look at its holder.
        OwnerCheck = "owner_check",
        /// A release that is sent again does not name its entry.
        GrantRecord = "grant_record",
        /// A client that has subscribed sleeps without looking again.
        SecondLook = "second_look",
    }
}

/// What a client does, with one of its two entries. A step runs one script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockAct {
    Enter(usize),
    Renew(usize),
    Release(usize),
    /// The same release again, as after a lost answer.
    Resend(usize),
}

const OUTER: usize = 0;
const INNER: usize = 1;

const ACTS: [LockAct; 6] = [
    LockAct::Enter(OUTER),
    LockAct::Enter(INNER),
    LockAct::Renew(OUTER),
    LockAct::Release(INNER),
    LockAct::Resend(INNER),
    LockAct::Release(OUTER),
];

/// How far the wait of a client has come, in the order of the production waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockWait {
    Not,
    Missed,
    Subscribed,
    Asleep,
}

struct LockActor {
    owner: Owner,
    entries: [ScriptClaim; 2],
    acts: VecDeque<LockAct>,
    wait: LockWait,
    sink: SubscriberSink,
    messages: SubscriberStream,
    /// A message came, or the end of the lease of which it was told.
    woken: bool,
}

/// A schedule of clients that was played.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlayedByClients {
    pub(super) branches: Vec<Branch<Step>>,
    pub(super) broken: Vec<BrokenByClients>,
    pub(super) timeline: Vec<TimelineLine>,
}

impl PlayedByClients {
    pub(super) fn schedule(&self) -> Schedule {
        Schedule(self.branches.iter().map(|branch| branch.chosen).collect())
    }
}

/// Plays schedules, one after the other, each on a lock of its own.
pub(super) struct LockRunner {
    redis: Redis,
    prefix: String,
    played: usize,
    without: Option<LockPart>,
    name: String,
    actors: Vec<LockActor>,
    lease_ended: bool,
    books: LockBooks,
    timeline: Vec<TimelineLine>,
}

impl LockRunner {
    pub(super) async fn start(
        url: &str,
        prefix: String,
        actors: usize,
        without: Option<LockPart>,
    ) -> anyhow::Result<Self> {
        let redis = Redis::new(url)?;
        let owners = LockClient::new(redis.clone(), LockOptions::default());
        let mut all = Vec::new();
        for _ in 0..actors {
            let (sink, messages) = redis.subscriber(&redis.shard_of(&prefix)).await?.split();
            let owner = owners.owner();
            let entries = [(); 2].map(|()| ScriptClaim::new(&prefix, &owner, LEASE));
            all.push(LockActor {
                owner,
                entries,
                acts: VecDeque::new(),
                wait: LockWait::Not,
                sink,
                messages,
                woken: false,
            });
        }
        owners.shutdown().await;
        Ok(Self {
            redis,
            prefix,
            played: 0,
            without,
            name: String::new(),
            actors: all,
            lease_ended: false,
            books: LockBooks::default(),
            timeline: Vec::new(),
        })
    }

    /// Plays one schedule: the steps of `prefix`, and default choices after them.
    pub(super) async fn play(&mut self, prefix: &[Step]) -> anyhow::Result<PlayedByClients> {
        self.begin().await?;
        let mut branches = Vec::new();
        play_prefix(self, prefix, &mut branches).await?;
        self.nobody_sleeps_for_nothing().await?;
        for BrokenByClients { invariant, witness } in &self.books.broken {
            let text = format!("so {invariant} is broken: {witness}");
            self.timeline.push(TimelineLine::of_the_lab(text));
        }
        let broken = std::mem::take(&mut self.books.broken);
        Ok(PlayedByClients { branches, broken, timeline: std::mem::take(&mut self.timeline) })
    }

    async fn begin(&mut self) -> anyhow::Result<()> {
        self.played += 1;
        self.name = format!("{}{}", self.prefix, self.played);
        (self.books, self.lease_ended) = (LockBooks::default(), false);
        for actor in &mut self.actors {
            actor.stop_listening().await?;
            actor.entries = [(); 2].map(|()| ScriptClaim::new(&self.name, &actor.owner, LEASE));
            actor.acts = ACTS.into();
        }
        Ok(())
    }

    fn say(&mut self, nth: usize, event: impl Into<Event>) {
        self.timeline.push(TimelineLine::of(ACTOR_NAMES[nth], event));
    }

    async fn act(&mut self, nth: usize) -> anyhow::Result<()> {
        let actor = &mut self.actors[nth];
        if actor.wait == LockWait::Missed {
            actor.sink.subscribe(&[actor.entries[OUTER].channel()]).await?;
            actor.wait = match self.without {
                Some(LockPart::SecondLook) => LockWait::Asleep,
                _ => LockWait::Subscribed,
            };
            self.say(nth, "subscribes to the releases");
            return Ok(());
        }
        let Some(act) = actor.acts.front() else { return Ok(()) };
        match *act {
            LockAct::Enter(entry) => return self.enter(nth, entry).await,
            LockAct::Renew(entry) => {
                let renewed = actor.entries[entry].renew(&self.redis).await?;
                self.books.renewed(nth, entry, renewed);
                self.say(nth, if renewed { "renews" } else { "wants to renew: the lock is lost" });
            }
            LockAct::Release(OUTER) if self.without == Some(LockPart::OwnerCheck) => {
                self.delete(nth).await?;
                self.books.deleted(nth, OUTER);
                self.say(nth, "deletes the lock");
            }
            LockAct::Release(entry) => {
                let left = actor.entries[entry].release(&self.redis).await?;
                self.books.released(nth, entry, left);
                self.say(nth, format!("releases: {}", holds_left(left)));
            }
            LockAct::Resend(_) if self.without == Some(LockPart::GrantRecord) => {
                let left = self.release_some_hold(nth).await?;
                self.say(nth, format!("sends the release again: {}", holds_left(left)));
            }
            LockAct::Resend(entry) => {
                let left = actor.entries[entry].release(&self.redis).await?;
                self.say(nth, format!("sends the release again: {}", holds_left(left)));
            }
        }
        self.actors[nth].acts.pop_front();
        Ok(())
    }

    async fn enter(&mut self, nth: usize, entry: usize) -> anyhow::Result<()> {
        let actor = &mut self.actors[nth];
        // What came before a look, the look answers.
        actor.woken = false;
        if let Some(token) = actor.entries[entry].acquire(&self.redis).await? {
            actor.stop_listening().await?;
            actor.acts.pop_front();
            self.books.granted(nth, entry, token);
            self.say(nth, if entry == OUTER { "enters" } else { "enters again" });
            return Ok(());
        }
        let text = if entry == INNER {
            // It tries once, and by that entry has nothing to give back.
            let inner = [LockAct::Enter(INNER), LockAct::Release(INNER), LockAct::Resend(INNER)];
            actor.acts.retain(|act| !inner.contains(act));
            "wants to enter again, and is refused"
        } else if actor.wait == LockWait::Not {
            actor.wait = LockWait::Missed;
            "is refused"
        } else {
            actor.wait = LockWait::Asleep;
            "looks again, is refused, and sleeps"
        };
        self.books.refused(nth);
        self.say(nth, text);
        Ok(())
    }

    /// What `LockPart::OwnerCheck` leaves: the lock goes, whoever holds it.
    async fn delete(&self, nth: usize) -> anyhow::Result<()> {
        self.redis.query::<()>(cmd("DEL").arg(&self.name)).await?;
        let channel = self.actors[nth].entries[OUTER].channel();
        Ok(self.redis.query(cmd("PUBLISH").arg(channel).arg("0")).await?)
    }

    /// What `LockPart::GrantRecord` leaves: one hold of the owner goes, whichever it is.
    async fn release_some_hold(&self, nth: usize) -> anyhow::Result<Option<u64>> {
        let field = self.actors[nth].owner.field();
        let holds: Option<u64> = self.redis.query(cmd("HGET").arg(&self.name).arg(field)).await?;
        match holds {
            None => return Ok(None),
            Some(1) => self.delete(nth).await?,
            Some(_) => {
                self.redis.query::<()>(cmd("HINCRBY").arg(&self.name).arg(field).arg(-1)).await?;
            }
        }
        Ok(holds.map(|holds| holds - 1))
    }

    /// The lease ends, and nobody is told; those that wait wake at the time that they know of.
    async fn end_lease(&mut self) -> anyhow::Result<()> {
        let ended: i64 = self.redis.query(cmd("PEXPIRE").arg(&self.name).arg(0)).await?;
        self.lease_ended = true;
        self.books.lease_ended();
        for actor in &mut self.actors {
            actor.woken = actor.wait != LockWait::Not;
        }
        let text =
            if ended == 1 { "the lease ends" } else { "the lease would end: no lock is there" };
        self.timeline.push(TimelineLine::of_the_lab(text));
        Ok(())
    }

    /// After each step: what every listener has heard by now, and what Redis has.
    async fn look(&mut self) -> anyhow::Result<()> {
        for actor in &mut self.actors {
            actor.hear().await?;
        }
        let seen: Vec<(String, u64)> = self.redis.query(cmd("HGETALL").arg(&self.name)).await?;
        let actor_of = |field: &str| self.actors.iter().position(|it| it.owner.field() == field);
        let seen: Vec<_> = seen.iter().map(|(field, holds)| (actor_of(field), *holds)).collect();
        self.books.compare(&seen);
        Ok(())
    }

    /// At the end: nobody can go on.
    async fn nobody_sleeps_for_nothing(&mut self) -> anyhow::Result<()> {
        let Some(nth) = self.actors.iter().position(|actor| !actor.acts.is_empty()) else {
            return Ok(());
        };
        let held: bool = self.redis.query(cmd("EXISTS").arg(&self.name)).await?;
        let (invariant, why) = match held {
            false => (LockInvariant::NoLostWakeUp, "the lock is free"),
            true => (LockInvariant::HoldCounts, "the last holder has left"),
        };
        self.books.breaks(invariant, format!("{} sleeps, and {why}", ACTOR_NAMES[nth]));
        Ok(())
    }
}

impl Runner for LockRunner {
    async fn possible(&self) -> anyhow::Result<Vec<Step>> {
        let goes_on = |actor: &LockActor| {
            let sleeps = actor.wait == LockWait::Asleep && !actor.woken;
            !actor.acts.is_empty() && !sleeps
        };
        let those = self.actors.iter().enumerate().filter(|(_, actor)| goes_on(actor));
        let mut possible: Vec<_> = those.map(|(nth, _)| Step::Go(nth)).collect();
        if !possible.is_empty() && !self.lease_ended && self.books.is_held() {
            possible.push(Step::EndLease);
        }
        Ok(possible)
    }

    async fn take(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Go(actor) => self.act(actor).await?,
            _ => self.end_lease().await?,
        }
        self.look().await
    }
}

impl LockActor {
    /// Takes in the messages that were sent before this call: their answers come in order.
    async fn hear(&mut self) -> anyhow::Result<()> {
        if matches!(self.wait, LockWait::Subscribed | LockWait::Asleep) {
            self.sink.ping().await?;
            while let Some(message) = self.messages.next().now_or_never() {
                message.context("the subscription is lost")?;
                self.woken = true;
            }
        }
        Ok(())
    }

    async fn stop_listening(&mut self) -> anyhow::Result<()> {
        if matches!(self.wait, LockWait::Subscribed | LockWait::Asleep) {
            self.sink.unsubscribe(&[self.entries[OUTER].channel()]).await?;
            while self.messages.next().now_or_never().is_some() {}
        }
        (self.wait, self.woken) = (LockWait::Not, false);
        Ok(())
    }
}

fn holds_left(left: Option<u64>) -> String {
    match left {
        None => "it holds nothing by that entry".to_owned(),
        Some(0) => "the lock is free".to_owned(),
        Some(left) => format!("{left} left"),
    }
}
