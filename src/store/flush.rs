//! Commits that wait for the disk together.
//!
//! A commit of PostgreSQL keeps its rows locked until it is on disk: whoever is next at a hot row
//! waits for the disk, too, and there is one commit after another. An asynchronous commit
//! ([`Commit::Asynchronous`]) lets the row go as soon as it is in the log, and [`Database::flush`]
//! then waits until the log is on disk, once for all who have committed meanwhile. Whatever reads
//! from a commit is behind it in the log, so that a crash may take the last commits, but never one
//! of which a later one is left. (Early lock release: `DeWitt` et al., "Implementation techniques
//! for main memory database systems", 1984; "Asynchronous Commit" in PostgreSQL's documentation.)
//!
//! Who buys is not told of such an order, by 201 or as one that he has already, before it is flushed.
//! Whoever lists orders may see it a moment sooner.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sqlx::Row;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::patience::within;
use super::{Database, Service, StoreError};
use crate::model::OrderId;

/// When a statement is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// When its commit is on disk, as the server's `synchronous_commit` says; until then its rows
    /// are locked.
    Synchronous,
    /// When its commit is in the server's memory: [`Database::flush`] is still to be waited for.
    Asynchronous,
}

/// A commit of its own, which has to write something to be one: a message in the log that nobody
/// reads. On disk with it is all that it has seen; and it looks for the orders, because a server
/// that was restarted meanwhile flushes as well, but not what it has forgotten.
///
/// As text, with numbers only: planned when it was small, a plan that is kept would read the table
/// from end to end when it is not any more.
fn statement(all: &[Waiting]) -> String {
    let ids: Vec<String> = all.iter().map(|one| one.order.to_string()).collect();
    format!(
        "set local enable_seqscan = off;
         with message as materialized (
           select pg_logical_emit_message(true, 'seckill', ''::text) as place
         )
         select m.id from unnest('{{{}}}'::bigint[]) as m (id)
         where (select o.id from orders o where o.id = m.id) is not null
           and (select place from message) is not null",
        ids.join(",")
    )
}

/// A server that is silent for so long is told of as one that is away.
const GIVE_UP_AFTER: Duration = Duration::from_millis(700);

/// And is waited for: its session may be at it for ever, and another would be, too.
const ABANDON_AFTER: Duration = Duration::from_secs(10);

/// Connections that are tried: those that lay idle may be dead, all of them.
const TRIES: usize = 6;

/// Orders that may be waiting for the disk. Beyond them commits are to be synchronous, so that a
/// disk that has stopped stops those who buy, too.
const MAX_WAITING: usize = 256;

/// Waits for the disk: for all who have come at once, and then for those who came meanwhile.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    line: Mutex<Line>,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Line {
    waiting: Vec<Waiting>,
    /// Whether somebody is at it, and comes back for those who wait.
    led: bool,
    /// Whether the server has been silent for too long, and still is.
    is_stalled: bool,
}

#[derive(Debug)]
struct Waiting {
    order: OrderId,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Counts one who waits.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Flusher {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= MAX_WAITING || self.line().is_stalled
    }

    /// See [`Database::flush`].
    pub(super) async fn flush(
        self: &Arc<Self>,
        database: &Database,
        order: OrderId,
    ) -> Result<(), StoreError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.waiting);
        let (reply, answer) = oneshot::channel();
        let leads = {
            let mut line = self.line();
            if line.is_stalled {
                return Err(unknown("the flush before has not ended"));
            }
            line.waiting.push(Waiting { order, reply });
            !std::mem::replace(&mut line.led, true)
        };
        if leads {
            // Not in this task: whoever gives up waiting must not take along what others wait for.
            let turn = Turn { flusher: Arc::clone(self), is_over: false };
            tokio::spawn(turn.lead(database.clone()));
        }
        answer.await.unwrap_or_else(|_| Err(unknown("the flush was broken off")))
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poison| poison.into_inner())
    }
}

/// To be at it. Where it ends before its time, in a panic, say, nobody is left waiting.
struct Turn {
    flusher: Arc<Flusher>,
    is_over: bool,
}

impl Turn {
    async fn lead(mut self, database: Database) {
        while let Some(all) = self.next() {
            let mut flush = Box::pin(flush(&database, statement(&all)));
            match within(GIVE_UP_AFTER, &mut flush).await {
                Ok(Ok(there)) => {
                    for one in all {
                        let is_there = there.contains(&one.order.get());
                        let _ = one.reply.send(if is_there { Ok(()) } else { Err(gone()) });
                    }
                }
                Ok(Err(error)) => tell(all, &error),
                Err(silence) => {
                    let late = {
                        let mut line = self.flusher.line();
                        line.is_stalled = true;
                        std::mem::take(&mut line.waiting)
                    };
                    tell(all.into_iter().chain(late), &unknown(silence));
                    let _ = timeout(ABANDON_AFTER, flush).await;
                    self.flusher.line().is_stalled = false;
                }
            }
        }
    }

    /// All who wait; `None`: nobody, and it is over.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut line = self.flusher.line();
        self.is_over = line.waiting.is_empty();
        line.led = !self.is_over;
        line.led.then(|| std::mem::take(&mut line.waiting))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            *self.flusher.line() = Line::default();
        }
    }
}

fn tell(all: impl IntoIterator<Item = Waiting>, error: &StoreError) {
    for one in all {
        let _ = one.reply.send(Err(error.alike()));
    }
}

/// The ids that the flush `statement` says are there, on disk.
async fn flush(database: &Database, statement: String) -> Result<HashSet<i64>, StoreError> {
    for _ in 0..TRIES {
        let flush = database.with_kept(async |connection| {
            let sent = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.as_str()));
            let there = sent.fetch_all(connection).await?;
            there.iter().map(|row| Ok(row.try_get::<i64, _>("id")?)).collect()
        });
        match flush.await {
            Ok(there) => return Ok(there),
            Err(error) if error.outcome_unknown() => tracing::debug!(%error, "flushing anew"),
            Err(error) => {
                if !error.retry_may_help() {
                    tracing::error!(%error, "the database does not flush");
                }
                // Whatever the reason is, the orders may be on disk soon.
                return Err(unknown(error));
            }
        }
    }
    Err(unknown("no connection lasts"))
}

fn unknown(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::unknown(Service::Postgres, cause)
}

fn gone() -> StoreError {
    let cause = "it was restarted, and has lost the order".into();
    StoreError::Unavailable { service: Service::Postgres, cause }
}
