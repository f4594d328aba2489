//! For operators: is the process alive, is it ready, and its metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use super::health::Readiness;
use super::{ApiError, App};

/// Whether the process answers at all.
#[utoipa::path(get, path = "/healthz",
    responses((status = 200, body = String, description = "alive", content_type = "text/plain")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process should get requests: not while it ends, and not while other servers can do what it cannot,
/// because it is cut off from the stores. A store that is away for all servers makes none of them unready.
#[utoipa::path(get, path = "/readyz",
    responses(
        (status = 200, body = Readiness, description = "ready"),
        (status = 503, body = Readiness, description = "the process is cut off, or it ends"),
    ))]
pub async fn readyz(State(app): State<App>) -> (StatusCode, Json<Readiness>) {
    let durability = app.database.durability().as_str();
    let readiness = app.health.readiness(durability, app.is_draining());
    let status =
        if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// Counters and histograms, in the text format of Prometheus. At most a second old.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, body = String, description = "Prometheus text format",
        content_type = "text/plain")))]
pub async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, ApiError> {
    let text = app.memory().metrics.get(()).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}
