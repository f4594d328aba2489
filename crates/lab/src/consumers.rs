//! The consumers of a scheduler's processes: each of their turns is one more actor, and in the end
//! they have as many as they need, up to a bound.

use anyhow::{Context, bail};
use tokio::time::timeout;

use super::node_process::{NodeRequest, Task};
use super::scheduler::{Act, Actor, ActorRecord, Attempt, NodeIndex, PATIENCE, Scheduler};
use super::told::{Event, Witness};
use ladder::{Answer, Capability, GROUP, Point, QueueKeys, WorkTurn};
use redis_link::Redis;

/// One for each process.
const NAMES: [&str; 3] = ["W", "W2", "W3"];

/// Turns of each consumer in the end: more than any scenario has work for.
const MAX_TURNS: usize = 24;

/// A consumer that fails so often without end goes on like that.
const MAX_FAILURES: usize = 5;

/// So many times the scheduler lets a minute pass for what a consumer left.
const MAX_MINUTES: usize = 2;

/// Pending entries that are looked at: more than any scenario has.
const MAX_PENDING: usize = 100;

impl Scheduler<'_> {
    /// One turn of a process' consumer. It does nothing before it is driven.
    pub(super) async fn turn(&mut self, node: NodeIndex) -> anyhow::Result<Actor> {
        let name = *NAMES.get(node.0).context("more processes than names")?;
        let turn = self.add(name, node, Task::Work).await?;
        // A consumer that fails is no end of the story.
        self.may_fail(turn);
        Ok(turn)
    }

    /// The consumer of `node` goes on to `point`, and stays there.
    pub(super) async fn works_to(
        &mut self,
        node: NodeIndex,
        point: Point,
    ) -> anyhow::Result<Actor> {
        let turn = self.turn(node).await?;
        self.must_reach(turn, &[point]).await?;
        Ok(turn)
    }

    /// The consumer of `node` takes turns until there is nothing to do.
    pub(super) async fn works_until_idle(&mut self, node: NodeIndex) -> anyhow::Result<()> {
        loop {
            let turn = self.turn(node).await?;
            match self.finish(turn).await? {
                Act::Worked(WorkTurn::Idle) => return Ok(()),
                Act::Worked(_) => {}
                other => bail!("the consumer was to write, and came to {other:?}"),
            }
        }
    }

    /// The stream of the rung.
    pub(super) fn stream(&self) -> String {
        QueueKeys::with_prefix(&self.key_prefix).stream()
    }

    /// Everything works, and has as long as it needs: entries are drawn, the consumers write, and a buyer that was told
    /// "accepted" asks again.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        if self.rung.can(Capability::Draw) {
            let node = *self.living().first().context("no process is left to draw")?;
            for voucher in self.vouchers.clone() {
                self.expires_until_idle(node, voucher).await?;
            }
        }
        if !self.rung.has_consumer() {
            return Ok(());
        }
        self.drain().await?;
        for nth in 0..self.actors.len() {
            if self.actors[nth].answer == Some(Act::Done(Answer::Accepted)) {
                self.ask_again(nth).await?;
            }
        }
        if self.outbox().await? > 0 {
            self.log.broken(Witness::NeverFollowedUp);
        }
        Ok(())
    }

    /// The processes that live.
    pub(super) fn living(&self) -> Vec<NodeIndex> {
        let living = self.nodes.iter().enumerate().filter(|(_, node)| node.pid().is_some());
        living.map(|(nth, _)| NodeIndex(nth)).collect()
    }

    /// Turn by turn, until there is nothing to do.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let (mut minutes, mut failures) = (0, 0);
        for _ in 0..MAX_TURNS {
            let mut is_idle = true;
            for node in self.living() {
                let turn = self.turn(node).await?;
                match self.finish(turn).await? {
                    Act::Worked(WorkTurn::Idle) => {}
                    Act::Failed(_) => (is_idle, failures) = (false, failures + 1),
                    _ => (is_idle, failures) = (false, 0),
                }
            }
            if failures >= MAX_FAILURES {
                self.log.say(Event::WithoutEnd);
                return Ok(());
            }
            if is_idle && (minutes == MAX_MINUTES || !self.is_left().await?) {
                return Ok(());
            }
            if is_idle {
                minutes += 1;
                self.a_minute_passes().await?;
            }
        }
        bail!("the consumers had {MAX_TURNS} turns each, and were not done")
    }

    /// Whether somebody has something in hand, or should have.
    async fn is_left(&self) -> anyhow::Result<bool> {
        Ok(!self.pending().await?.is_empty() || self.outbox().await? > 0)
    }

    /// Entries that were read and not acknowledged, and by whom.
    async fn pending(&self) -> anyhow::Result<Vec<(String, String)>> {
        let redis = Redis::new(&self.servers.redis_urls[0])?;
        let stream = self.stream();
        // r20 has no stream.
        if redis.query::<i64>(redis::cmd("EXISTS").arg(&stream)).await? == 0 {
            return Ok(Vec::new());
        }
        let mut pending = redis::cmd("XPENDING");
        pending.arg(stream).arg(GROUP).arg("-").arg("+").arg(MAX_PENDING);
        let found: Vec<(String, String, u64, u64)> = redis.query(&pending).await?;
        Ok(found.into_iter().map(|(entry, consumer, ..)| (entry, consumer)).collect())
    }

    /// Orders of which what comes after is not done.
    async fn outbox(&self) -> anyhow::Result<i64> {
        let count = sqlx::query_scalar("select count(*) from outbox where stream = $1");
        Ok(count.bind(self.stream()).fetch_one(&self.database).await?)
    }

    /// Does to what was left what a minute would do.
    pub(super) async fn a_minute_passes(&mut self) -> anyhow::Result<()> {
        let redis = Redis::new(&self.servers.redis_urls[0])?;
        for (entry, consumer) in self.pending().await? {
            let mut claim = redis::cmd("XCLAIM");
            claim.arg(self.stream()).arg(GROUP).arg(consumer).arg(0).arg(entry);
            redis.query::<()>(claim.arg("IDLE").arg(60_000).arg("JUSTID")).await?;
        }
        sqlx::query(
            "update outbox set published_at = published_at - interval '1 minute'
             where stream = $1",
        )
        .bind(self.stream())
        .execute(&self.database)
        .await?;
        self.log.say(Event::MinutePasses);
        Ok(())
    }

    /// A buyer who was told "accepted" asks what became of it.
    async fn ask_again(&mut self, nth: usize) -> anyhow::Result<()> {
        let node = self.living().first().context("no process is left to ask")?.0;
        let ActorRecord { name, user, voucher, .. } = self.actors[nth];
        let ask = Task::Ask(Attempt::new(user, voucher));
        self.nodes[node].order(&NodeRequest::Enter(name.to_owned(), ask)).await?;
        self.nodes[node].order(&NodeRequest::Go(name.to_owned())).await?;
        let act = timeout(PATIENCE, self.nodes[node].next_act(name)).await;
        match act.context("a node does not answer")?? {
            Act::Done(answer) => {
                self.log.note(name, Event::AsksAgain { answer });
                self.actors[nth].answer = Some(Act::Done(answer));
                if answer == Answer::Accepted {
                    self.log.broken(Witness::NoFinalAnswer { buyer: name });
                }
            }
            Act::NeverHeardOf => {
                self.log.note(name, Event::AsksInVain);
                self.log.broken(Witness::NobodyKnows { buyer: name });
            }
            other => bail!("{name} asked again, and came to {other:?}"),
        }
        Ok(())
    }
}
