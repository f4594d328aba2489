//! For operators: is the process alive, is it ready, and its metrics.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::{ApiError, App};
use crate::store::{Database, ReadCache, Redis, Service, StoreError};
use crate::telemetry;

/// A store that needs longer to answer is not ready.
const READY_WITHIN: Duration = Duration::from_millis(900);

/// Whether the process answers at all.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "alive")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// How the stores are.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Readiness {
    /// `ok` or `unavailable`.
    pub database: &'static str,
    /// `ok` or `unavailable`.
    pub redis: &'static str,
    /// Whether a crash of the database's machine loses nothing: `durable`, `unsafe: …` or `unknown`.
    pub durability: &'static str,
}

/// How `database` and `redis` are, asked at most about once a second.
pub fn readiness(database: &Database, redis: &Redis) -> ReadCache<(), Readiness> {
    let (database, redis) = (database.clone(), redis.clone());
    ReadCache::new(Service::Postgres, 1, usize::MAX, move |()| {
        let (database, redis) = (database.clone(), redis.clone());
        async move {
            let (database_word, redis) = tokio::join!(word(database.ping()), word(redis.ping()));
            let durability = database.durability().as_str();
            Ok(Readiness { database: database_word, redis, durability })
        }
    })
}

async fn word(ping: impl Future<Output = Result<(), StoreError>>) -> &'static str {
    match timeout(READY_WITHIN, ping).await {
        Ok(Ok(())) => "ok",
        _ => "unavailable",
    }
}

/// Whether the process can do its work: database and Redis answer. At most a second old.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, body = Readiness, description = "ready"),
        (status = 503, body = Readiness, description = "a store does not answer"),
    ))]
pub async fn readyz(State(app): State<App>) -> Result<(StatusCode, Json<Readiness>), ApiError> {
    let readiness = app.readiness.get(()).await?;
    let ready = readiness.database == "ok" && readiness.redis == "ok";
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(readiness)))
}

/// The metrics as text, written at most about once a second: the text of many histograms is long.
pub fn metrics_text() -> ReadCache<(), Bytes> {
    ReadCache::new(
        Service::Postgres,
        1,
        usize::MAX,
        async |()| Ok(telemetry::metrics_text().into()),
    )
}

/// Counters and histograms, in the text format of Prometheus. At most a second old.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "Prometheus text format", content_type = "text/plain")))]
pub async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, ApiError> {
    let text = app.metrics.get(()).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}
