//! Programs are told what happened, one event after the other, at least once each. Any server claims the reader's position,
//! tells what comes after it, and moves it. A claim ends by itself, so that a server that dies delays the events and loses
//! nothing. A receiver that does not answer delays events alone.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use super::outbox::pause_after;
use crate::store::event_log::{self, Event};
use crate::store::{Database, StoreError, order_steps};
use crate::telemetry::name;
use crate::worker::{Chore, Worker};

/// Events that are told at once.
const AT_ONCE: i64 = 100;

/// Takes events.
#[async_trait]
pub trait EventReceiver: Send + Sync + Debug {
    /// Its name in the table of positions.
    fn name(&self) -> &'static str;

    /// Takes `events`, the oldest first: all of them, or none. The error says in words, for the log and for administrators, why
    /// not.
    async fn take(&self, events: &[Event]) -> Result<(), String>;
}

/// Tells a receiver.
#[derive(Debug)]
pub struct EventSender {
    database: Database,
    receiver: Box<dyn EventReceiver>,
}

impl EventSender {
    /// Of events in `database`.
    pub fn new(database: Database, receiver: Box<dyn EventReceiver>) -> Self {
        Self { database, receiver }
    }

    /// Takes steps, in a task of its own.
    pub fn start(self) -> Worker {
        Worker::start(self)
    }

    /// Tells what comes next, up to a hundred events. Returns how many the receiver took.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn step(&self) -> Result<usize, StoreError> {
        let (pool, reader) = (self.database.pool(), self.receiver.name());
        let complete_to = event_log::complete_to(pool).await?;
        let position = event_log::position(pool, reader).await?;
        let Some(from) = position else { return Ok(0) };
        // Also one that may not be told yet.
        let oldest = event_log::list(pool, from, i64::MAX, 1).await?;
        let now = order_steps::time(pool).await?;
        let age_s = oldest.first().map_or(0.0, |oldest| (now - oldest.at).as_seconds_f64());
        metrics::gauge!(name::EVENT_OLDEST_AGE, "reader" => reader).set(age_s.max(0.0));
        let events = event_log::list(pool, from, complete_to, AT_ONCE).await?;
        let Some(last) = events.last() else {
            if from < complete_to {
                // These numbers were drawn for nothing.
                event_log::record(pool, reader, (from, complete_to), (None, 0.0)).await?;
            }
            return Ok(0);
        };
        let claimed = event_log::claim(pool, reader, from).await?;
        let Some(attempt) = claimed else { return Ok(0) };
        let Err(error) = self.tell(&events).await else {
            event_log::record(pool, reader, (from, last.position), (None, 0.0)).await?;
            return Ok(events.len());
        };
        tracing::warn!(attempt, error, after = from, "events wait");
        let pause_s = pause_after(attempt).as_secs_f64();
        event_log::record(pool, reader, (from, from), (Some(&error), pause_s)).await?;
        Ok(0)
    }

    async fn tell(&self, events: &[Event]) -> Result<(), String> {
        let takes_stock = events.iter().filter(|event| event.takes_stock);
        let last: BTreeMap<_, _> =
            takes_stock.map(|event| (event.voucher_id, event.position)).collect();
        for (voucher, position) in last {
            // It is an event of its own, which comes after these. Until it is written these are not told.
            let turn = self.database.steps_of(voucher).await.map_err(|error| error.to_string())?;
            let written = event_log::write_sold_out(&turn, voucher, position).await;
            written.map_err(|error| error.to_string())?;
        }
        self.receiver.take(events).await
    }
}

impl Chore for EventSender {
    async fn step(&mut self) -> Result<bool, StoreError> {
        Ok(Self::step(self).await? == AT_ONCE as usize)
    }
}
