//! The answers of a server that has not reached its database yet.

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ApiError;
use super::below::below;
use super::health::{Readiness, refuses, status};
use super::operations::healthz;
use super::router::with_common_layers;
use super::server::{self, ServerLimits};
use crate::config::BasePath;
use crate::store::DatabaseDurability;
use redis_link::Redis;

/// Connections at once while the database has not been reached.
const UNREADY_CONNECTIONS: usize = 1024;

/// Answers for a server that has not reached its database yet, on threads of `http`, until the guard is dropped: it
/// lives, and is not ready.
pub fn answer_unready(
    http: &Runtime,
    listener: &TcpListener,
    redis: Redis,
    base: BasePath,
) -> DropGuard {
    let end = CancellationToken::new();
    let ended = end.clone().cancelled_owned();
    let _entered = http.enter();
    match server::second(listener) {
        Ok(listener) => {
            let limits = ServerLimits::of(UNREADY_CONNECTIONS);
            http.spawn(server::serve(listener, below(base, unready(redis)), limits, ended));
        }
        Err(error) => tracing::warn!(%error, "nobody is told that the server is not ready"),
    }
    end.drop_guard()
}

fn unready(redis: Redis) -> Router {
    let readyz = async move || {
        let redis = status(redis.ping(), refuses).await;
        let (database, durability) = ("unavailable", DatabaseDurability::Unknown.as_str());
        let cut_off = true;
        let readiness = Readiness { database, redis, durability, cut_off, draining: false };
        (StatusCode::SERVICE_UNAVAILABLE, Json(readiness))
    };
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(async || ApiError::unavailable());
    with_common_layers(routes)
}
