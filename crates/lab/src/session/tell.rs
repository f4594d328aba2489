//! What happened in a step, told of each actor that moved and of the lab; and where in the rung's file that leads.

use super::play::LabSession;
use super::source_lines::{self, Place};
use super::state::SessionEvent;
use crate::game::Mover;
use crate::scheduler::{Act, ActorState};
use crate::timeline::TimelineLine;
use crate::told::Event;
use ladder::{Capability, LockKind, Point};
use seckill::http::Language;

/// What the consumer is called, where there is no third buyer.
pub(super) const CONSUMER_NAME: &str = "C";

/// What the scheduler calls an actor, and what a session does.
const SHOWN: [(&str, &str); 7] = [
    ("A", "A"),
    ("B", "B"),
    ("W", CONSUMER_NAME),
    ("W2", "C2"),
    ("A2", "A2"),
    ("T", "T"),
    ("T2", "T2"),
];

impl LabSession<'_> {
    /// Nobody has done anything.
    pub(super) fn put_in_place(&mut self) {
        let rung = self.rung();
        let is_unpaid = self.game.plan.is_unpaid;
        let line = |nth: usize| match nth {
            _ if self.game.is_time(nth) => source_lines::of_expiry(rung),
            0 if is_unpaid && !rung.can(Capability::Line) => source_lines::of_payment(rung),
            _ => source_lines::of_beginning(rung),
        };
        let mut places: Vec<Place> =
            (0..self.game.driver.count()).map(|nth| ("not_begun", line(nth))).collect();
        places.push(("not_begun", source_lines::of_turn(rung)));
        self.places = places;
    }

    /// The place of the consumer.
    pub(super) fn consumer(&self) -> usize {
        self.places.len() - 1
    }

    /// Tells what was done since this was called for the last time.
    pub(super) async fn tell(&mut self) -> anyhow::Result<()> {
        let mut lines = self.game.driver.scheduler.log.take();
        let mut told = 0;
        for moved in self.game.take_moves() {
            let rest = lines.split_off(moved.lines - told);
            let own = std::mem::replace(&mut lines, rest);
            told = moved.lines;
            match moved.who {
                Mover::Actor(nth, stop) => self.tell_actor(nth, &stop, own).await?,
                Mover::Consumer(stop) => self.tell_consumer(&stop, own).await?,
                Mover::Lab => self.tell_lab(own),
            }
        }
        self.tell_lab(lines);
        Ok(())
    }

    /// A buyer has come to a stop.
    async fn tell_actor(
        &mut self,
        nth: usize,
        stop: &Act,
        mut lines: Vec<TimelineLine>,
    ) -> anyhow::Result<()> {
        let rung = self.rung();
        let before = self.places[nth].1.unwrap_or_default();
        self.places[nth] = match stop {
            Act::At(point, _) => (point.as_str(), source_lines::of_point(rung, *point)),
            Act::Waits(_) if self.game.driver.state(nth) == ActorState::QueuedInDatabase => {
                ("waits_in_database", source_lines::of_row(rung, before))
            }
            Act::Waits(_) => ("waits_in_process", source_lines::of_waiting(rung, before)),
            Act::Done(answer) => (answer.code(), None),
            Act::LostLock => ("lost_lock", None),
            Act::Failed(_) => ("failed", None),
            Act::Worked(_) => ("worked", None),
            Act::NeverHeardOf => unreachable!("nobody asks in a session"),
        };
        let name = self.game.driver.record(nth).name;
        let has_place = rung.lock == LockKind::ZooKeeper && !matches!(stop, Act::Done(_));
        let takes = matches!(stop, Act::At(Point::KeySet | Point::Locked, _));
        if has_place || takes {
            let key = self.game.driver.scheduler.lock_key(self.game.plan.user(nth))?;
            self.locks.is_of(&key, name).await?;
        }
        // What it passed on the way is not told.
        let Some(last) = lines.pop() else { return Ok(()) };
        let said = self.with_tokens_counted(last.event);
        let detail = said.about(Language::English);
        self.event(Some(name), self.places[nth].0, detail, said);
        Ok(())
    }

    async fn tell_consumer(&mut self, stop: &Act, lines: Vec<TimelineLine>) -> anyhow::Result<()> {
        let (rung, consumer) = (self.rung(), self.consumer());
        self.places[consumer] = match stop {
            Act::At(point, _) => (point.as_str(), source_lines::of_point(rung, *point)),
            Act::Failed(_) => ("failed", source_lines::of_turn(rung)),
            _ => ("worked", source_lines::of_turn(rung)),
        };
        for user in 0..i64::from(self.game.plan.users) {
            let key = self.game.driver.scheduler.lock_key(user)?;
            self.locks.is_of(&key, CONSUMER_NAME).await?;
        }
        self.tell_all(lines, Some(self.places[consumer].0));
        Ok(())
    }

    /// The lab has done something, or let everybody go on to the end.
    fn tell_lab(&mut self, lines: Vec<TimelineLine>) {
        let is_killed = |line: &TimelineLine| matches!(line.event, Event::Killed { .. });
        if lines.iter().any(is_killed) {
            for nth in 0..self.game.driver.count() {
                let was_over = self.places[nth].1.is_none() && self.places[nth].0 != "not_begun";
                if self.game.driver.state(nth) == ActorState::Killed && !was_over {
                    self.places[nth] = ("killed", None);
                }
            }
            if self.game.driver.consumer_is_dead() {
                let consumer = self.consumer();
                self.places[consumer] = ("killed", None);
            }
        }
        self.tell_all(lines, None);
    }

    /// `kind` where the lines are an actor's own.
    fn tell_all(&mut self, lines: Vec<TimelineLine>, kind: Option<&'static str>) {
        for line in lines {
            let actor = line.actor.as_deref().and_then(|name| {
                SHOWN.into_iter().find(|(known, _)| *known == name).map(|(_, shown)| shown)
            });
            let said = self.with_tokens_counted(line.event);
            let kind = kind.unwrap_or_else(|| said.kind());
            let detail =
                if actor.is_none() { said.about(Language::English) } else { String::new() };
            self.event(actor, kind, detail, said);
        }
    }

    /// The same in every run: fencing tokens by the order in which they were granted.
    fn with_tokens_counted(&mut self, mut said: Event) -> Event {
        if let Some(token) = said.token_mut() {
            let next = self.tokens.len() as i64 + 1;
            *token = *self.tokens.entry(*token).or_insert(next);
        }
        said
    }

    fn event(
        &mut self,
        actor: Option<&'static str>,
        kind: &'static str,
        detail: String,
        text: Event,
    ) {
        let step = self.game.steps.len();
        self.events.push(SessionEvent { step, actor, kind, detail, text });
    }
}
