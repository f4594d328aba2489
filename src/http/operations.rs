//! For operators: is the process alive, is it ready, and its metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use super::health::Readiness;
use super::{ApiError, App};

/// Whether the process answers at all.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, body = String, description = "alive", content_type = "text/plain")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process can do its work: database and Redis answer, at most a second ago, and it was not
/// told to end.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, body = Readiness, description = "ready"),
        (status = 503, body = Readiness, description = "a store does not answer, or the process ends"),
    ))]
pub async fn readyz(State(app): State<App>) -> Result<(StatusCode, Json<Readiness>), ApiError> {
    let readiness =
        Readiness { draining: app.is_draining(), ..app.memory().readiness.get(()).await? };
    let ready = readiness.database == "ok" && readiness.redis == "ok" && !readiness.draining;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(readiness)))
}

/// Counters and histograms, in the text format of Prometheus. At most a second old.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, description = "Prometheus text format",
        content_type = "text/plain")))]
pub async fn metrics(State(app): State<App>) -> Result<impl IntoResponse, ApiError> {
    let text = app.memory().metrics.get(()).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}
