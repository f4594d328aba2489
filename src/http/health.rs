//! Whether the server should get requests, and the text of the metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use super::schemas::StoreStatus;
use crate::purchase::Purchases;
use crate::store::{Database, DatabaseAnswer, Keys, NodeName, ReadCache, Service, StoreError};
use crate::telemetry::{self, name};
use crate::worker::{Chore, Worker, run_step};
use redis_link::{LinkError, Redis};

/// How often the stores are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A store that needs longer to answer is away.
const ANSWERS_WITHIN: Duration = Duration::from_millis(900);
/// How long a server that reaches the database says so in Redis: a moment more than it takes to say it again.
const SEEN_FOR: Duration = Duration::from_millis(2500);
/// A server that has not reached the database for so long asks whether it is the only one. Longer than [`SEEN_FOR`] by
/// what servers may differ in noticing that it went away for all of them; and longer than a restart of both stores.
const ASKS_AFTER: Duration = Duration::from_secs(5);

/// A server on which nothing could be sold for so long is not ready, although no other one could do better: whoever
/// looks after it is to see that.
const UNREADY_AFTER: Duration = Duration::from_secs(60);

/// What the process can reach, and whether it should get requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Readiness {
    /// PostgreSQL.
    #[schema(value_type = StoreStatus)]
    pub database: &'static str,
    /// Redis.
    #[schema(value_type = StoreStatus)]
    pub redis: &'static str,
    /// Whether a crash of the database's machine loses nothing: `durable`, `unsafe: …` or `unknown`.
    pub durability: &'static str,
    /// Whether other servers can do what this one cannot: for some seconds it has reached neither store, or they
    /// reach the database and it does not. Also whether nothing could be sold for a minute.
    pub cut_off: bool,
    /// Whether the process was told to end, and new requests should go elsewhere.
    pub draining: bool,
}

impl Readiness {
    /// Whether the process should get requests. One store that is away for all servers is no reason against it: no other
    /// server could do better, and this one still refuses rightly, answers reads and says when to come again.
    pub fn is_ready(&self) -> bool {
        !self.cut_off && !self.draining
    }
}

/// Asks the stores once a second, as long as it lives.
#[derive(Debug)]
pub struct Health {
    latest: watch::Receiver<Reached>,
    worker: Worker,
}

/// A store answers.
const OK: &str = "ok";
/// It does not.
const UNAVAILABLE: &str = "unavailable";
/// It does, and does not let this server in: an operator has to mend that.
const REFUSED: &str = "refused";

/// What was reached last.
#[derive(Debug, Clone, Copy)]
struct Reached {
    database: &'static str,
    redis: &'static str,
    cut_off: bool,
}

/// Nobody knows what can be reached: other servers are to get the requests.
const UNKNOWN: Reached = Reached { database: UNAVAILABLE, redis: UNAVAILABLE, cut_off: true };

impl Health {
    /// Asks for the first time, then in the background.
    pub async fn start(database: Database, redis: Redis, keys: Keys) -> Self {
        let (sender, latest) = watch::channel(UNKNOWN);
        let (away_since, unsold_since, telling) = (None, None, None);
        let mut asking =
            Asking { database, redis, keys, away_since, unsold_since, telling, latest: sender };
        run_step(&mut asking).await;
        Self { latest, worker: Worker::start(asking) }
    }

    /// Asks no more.
    pub fn stop(&self) {
        self.worker.stop();
    }

    /// What the stores answered last.
    pub fn readiness(&self, durability: &'static str, draining: bool) -> Readiness {
        // Without a task that asks, what was reached last says nothing.
        let is_asked = self.latest.has_changed().is_ok();
        let Reached { database, redis, cut_off } =
            if is_asked { *self.latest.borrow() } else { UNKNOWN };
        Readiness { database, redis, durability, cut_off, draining }
    }
}

#[derive(Debug)]
struct Asking {
    database: Database,
    redis: Redis,
    keys: Keys,
    /// Since when the database has not answered.
    away_since: Option<Instant>,
    /// Since when one of the stores has not.
    unsold_since: Option<Instant>,
    /// Finds out why the database does not answer.
    telling: Option<JoinHandle<()>>,
    latest: watch::Sender<Reached>,
}

impl Chore for Asking {
    async fn step(&mut self) -> Result<bool, StoreError> {
        self.ask().await;
        Ok(false)
    }

    fn rest(&self) -> Duration {
        ASK_EVERY
    }

    /// A defect of ours keeps the process from knowing, until the next time.
    fn panicked(&mut self) {
        self.latest.send_replace(UNKNOWN);
    }
}

impl Asking {
    async fn ask(&mut self) {
        let refused_entry =
            |error: &StoreError| matches!(error.answer(), Some((DatabaseAnswer::EntryRefused, _)));
        let database_status = status(self.database.ping(), refused_entry).await;
        let database = database_status == OK;
        // A Redis that answers may take no writes: it has no memory left, or became a replica. Of a cluster the write is
        // about one node. A user who may not write this key may well be able to sell.
        let refuses = |error: &LinkError| {
            let is_refusal = refuses(error);
            if is_refusal && self.latest.borrow().redis != REFUSED {
                tracing::error!(%error, "Redis refuses this server: buyers get 503");
            }
            is_refusal
        };
        let redis_status = if database && self.redis.is_one_server() {
            status(self.say_that_it_is_seen(), refuses).await
        } else {
            status(self.redis.ping(), refuses).await
        };
        let redis = redis_status == OK;
        self.away_since = since(self.away_since, !database);
        self.unsold_since = since(self.unsold_since, !(database && redis));
        self.database.read_address_again();
        if !database && self.telling.as_ref().is_none_or(JoinHandle::is_finished) {
            let database = self.database.clone();
            self.telling = Some(tokio::spawn(async move { database.tell_why_away().await }));
        }
        if database && redis && !self.redis.is_one_server() {
            // Where it cannot be said, the others go on as if the database were away for all.
            let _ = timeout(ANSWERS_WITHIN, self.say_that_it_is_seen()).await;
        }
        // A server whose network is gone reaches neither, and cannot ask.
        let is_long_away = has_lasted(self.away_since, ASKS_AFTER);
        let cut_off = has_lasted(self.unsold_since, UNREADY_AFTER)
            || is_long_away && (!redis || self.others_see_it().await);
        let (database, redis) = (database_status, redis_status);
        self.latest.send_replace(Reached { database, redis, cut_off });
    }

    async fn say_that_it_is_seen(&self) -> Result<(), LinkError> {
        let mut set = redis::cmd("SET");
        set.arg(self.keys.database_is_seen()).arg(1).arg("PX").arg(SEEN_FOR.as_millis() as u64);
        match self.redis.query::<()>(&set).await {
            Err(LinkError::Defect(_)) => Ok(()),
            said => said,
        }
    }

    async fn others_see_it(&self) -> bool {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(self.keys.database_is_seen());
        let seen = timeout(ANSWERS_WITHIN, self.redis.query::<i64>(&exists)).await;
        matches!(seen, Ok(Ok(1)))
    }
}

/// Since when something lasts that lasts now, or does not.
fn since(before: Option<Instant>, lasts: bool) -> Option<Instant> {
    lasts.then(|| before.unwrap_or_else(Instant::now))
}

fn has_lasted(since: Option<Instant>, limit: Duration) -> bool {
    since.is_some_and(|since| since.elapsed() >= limit)
}

/// What `ask`, in its time, says of a store.
pub(super) async fn status<E>(
    ask: impl Future<Output = Result<(), E>>,
    is_refusal: impl FnOnce(&E) -> bool,
) -> &'static str {
    match timeout(ANSWERS_WITHIN, ask).await {
        Ok(Ok(())) => OK,
        Ok(Err(error)) if is_refusal(&error) => REFUSED,
        _ => UNAVAILABLE,
    }
}

/// Whether Redis answers, and takes no such login.
pub(super) const fn refuses(error: &LinkError) -> bool {
    matches!(error, LinkError::Misconfigured(_))
}

/// Writes the metrics: the text of many histograms is long. What says how busy the process is, and what it is, is set
/// here, so that a purchase sets nothing. The instance tells processes behind one address apart.
pub fn metrics_text(purchases: &Arc<Purchases>, database: &Database) -> ReadCache<(), Bytes> {
    let purchases = Arc::clone(purchases);
    let instance = database.node().map_or_else(String::new, NodeName::instance_text);
    ReadCache::new(Service::Postgres, 1, usize::MAX, move |(), _| {
        let load = purchases.load();
        let strategy = purchases.strategy().as_str();
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("strategy", strategy),
            ("instance", &instance),
        ];
        let labels = labels.map(|(label, value)| (label, value.to_owned()));
        metrics::gauge!(name::SERVER_INFO, &labels).set(1.0);
        for (name, value) in [
            (name::PURCHASES_IN_FLIGHT, load.in_flight),
            (name::PURCHASES_LIMIT, load.limit),
            (name::ORDER_QUEUE_DEPTH, load.queue_depth),
            (name::ORDER_BATCHES_IN_FLIGHT, load.batches_in_flight),
        ] {
            metrics::gauge!(name).set(value as f64);
        }
        metrics::gauge!(name::UPTIME_SECONDS).set(load.uptime.as_secs_f64());
        std::future::ready(Ok(telemetry::metrics_text().into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_cannot_know_what_it_reaches_is_not_ready() -> Result<(), StoreError> {
        let (sender, latest) = watch::channel(UNKNOWN);
        let mut asking = Asking {
            database: Database::new("postgres://nowhere/d")?,
            redis: crate::store::redis("redis://nowhere", None)?,
            keys: Keys::default(),
            away_since: None,
            unsold_since: None,
            telling: None,
            latest: sender,
        };
        let reached = Reached { database: OK, redis: OK, cut_off: false };
        asking.latest.send_replace(reached);
        asking.panicked();
        assert!(latest.borrow().cut_off);
        asking.latest.send_replace(reached);
        // A worker that asks nothing in the time of this test.
        let health = Health { latest, worker: Worker::start(asking) };
        assert!(health.readiness("durable", false).is_ready());
        health.stop();
        while health.latest.has_changed().is_ok() {
            tokio::task::yield_now().await;
        }
        let readiness = health.readiness("durable", false);
        assert!(!readiness.is_ready() && readiness.database == "unavailable");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_measured_from_its_beginning_until_it_ends() {
        let mut unsold = since(None, true);
        tokio::time::advance(UNREADY_AFTER - Duration::from_millis(1)).await;
        unsold = since(unsold, true);
        assert!(!has_lasted(unsold, UNREADY_AFTER));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(has_lasted(since(unsold, true), UNREADY_AFTER));
        unsold = since(unsold, false);
        assert!(!has_lasted(unsold, UNREADY_AFTER));
        assert!(!has_lasted(since(unsold, true), UNREADY_AFTER));
    }
}
