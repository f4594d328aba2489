//! Readiness, the connected servers and the text of the metrics, each read at most about once a second.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::schemas::StoreStatus;
use crate::purchase::Purchases;
use crate::store::nodes::{self, ConnectedNode};
use crate::store::{Database, NodeName, ReadCache, Service};
use crate::telemetry;
use redisson_lock::connection::Redis;

/// A store that needs longer to answer is not ready.
const READY_WITHIN: Duration = Duration::from_millis(900);

/// Whether the stores answer, and whether the process is draining.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Readiness {
    /// PostgreSQL.
    #[schema(value_type = StoreStatus)]
    pub database: &'static str,
    /// Redis.
    #[schema(value_type = StoreStatus)]
    pub redis: &'static str,
    /// Whether a crash of the database's machine loses nothing: `durable`, `unsafe: …` or `unknown`.
    pub durability: &'static str,
    /// Whether the process was told to end, and new requests should go elsewhere.
    pub draining: bool,
}

/// Asks `database` and `redis`.
pub fn readiness(database: &Database, redis: &Redis) -> ReadCache<(), Readiness> {
    let (database, redis) = (database.clone(), redis.clone());
    ReadCache::new(Service::Postgres, 1, usize::MAX, move |()| {
        let (database, redis) = (database.clone(), redis.clone());
        async move {
            let (database_word, redis) = tokio::join!(word(database.ping()), word(redis.ping()));
            let durability = database.durability().as_str();
            Ok(Readiness { database: database_word, redis, durability, draining: false })
        }
    })
}

async fn word<E>(ping: impl Future<Output = Result<(), E>>) -> &'static str {
    match timeout(READY_WITHIN, ping).await {
        Ok(Ok(())) => "ok",
        _ => "unavailable",
    }
}

/// Writes the metrics: the text of many histograms is long.
pub fn metrics_text(purchases: &Arc<Purchases>, database: &Database) -> ReadCache<(), Bytes> {
    let purchases = Arc::clone(purchases);
    let instance = database.node().map_or_else(String::new, NodeName::instance_text);
    ReadCache::new(Service::Postgres, 1, usize::MAX, move |()| {
        let load = purchases.load();
        let strategy = purchases.strategy().as_str();
        telemetry::purchase_load(strategy, instance.clone(), load.in_flight, load.limit);
        telemetry::order_queue(load.queue_depth, load.batches_in_flight);
        std::future::ready(Ok(telemetry::metrics_text().into()))
    })
}

/// Asks which server processes use `database`.
pub fn nodes(database: &Database) -> ReadCache<(), Arc<[ConnectedNode]>> {
    let database = database.clone();
    ReadCache::new(Service::Postgres, 1, usize::MAX, move |()| {
        let database = database.clone();
        async move { Ok(nodes::connected(database.pool()).await?.into()) }
    })
}
