//! For operators: is the process alive, is it ready, and its metrics.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::App;
use super::schemas::StoreStatus;
use crate::store::StoreError;
use crate::telemetry;

/// A store that needs longer to answer is not ready.
const READY_WITHIN: Duration = Duration::from_millis(900);

/// Whether the process answers at all.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, body = String, description = "alive", content_type = "text/plain")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// How the stores are.
#[derive(Debug, Serialize, ToSchema)]
pub struct Readiness {
    /// PostgreSQL.
    #[schema(value_type = StoreStatus)]
    pub database: &'static str,
    /// Redis.
    #[schema(value_type = StoreStatus)]
    pub redis: &'static str,
}

/// Whether the process can do its work: database and Redis answer.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, body = Readiness, description = "ready"),
        (status = 503, body = Readiness, description = "a store does not answer"),
    ))]
pub async fn readyz(State(app): State<App>) -> (StatusCode, Json<Readiness>) {
    async fn word(ping: impl Future<Output = Result<(), StoreError>>) -> &'static str {
        match timeout(READY_WITHIN, ping).await {
            Ok(Ok(())) => "ok",
            _ => "unavailable",
        }
    }
    let (database, redis) = tokio::join!(word(app.database.ping()), word(app.redis.ping()));
    let ready = database == "ok" && redis == "ok";
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { database, redis }))
}

/// Counters and histograms, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, description = "Prometheus text format",
        content_type = "text/plain")))]
pub async fn metrics() -> impl IntoResponse {
    let text = telemetry::metrics_text();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}
