//! Every route.

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::problem::Code;
use super::{
    ApiError, App, body, openapi, operations, orders, problem, sessions, vouchers,
};

/// The API.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/api/login-codes", post(sessions::send_code))
        .route("/api/sessions", post(sessions::create))
        .route("/api/me", get(sessions::me))
        .route("/api/vouchers", get(vouchers::list).post(vouchers::create))
        .route("/api/vouchers/{id}", get(vouchers::find))
        .route("/api/vouchers/{id}/orders", post(orders::buy))
        .route("/api/orders", get(orders::list))
        .route("/api/orders/{id}", get(orders::find))
        .route("/healthz", get(operations::healthz))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        .with_state(app)
        .merge(openapi::pages())
        .fallback(|| async { ApiError::new(Code::NotFound) })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed) })
        // Innermost first: a panic becomes a problem, a problem is written, all is measured.
        .layer(from_fn(body::limit))
        .layer(CatchPanicLayer::custom(|_| {
            axum::response::IntoResponse::into_response(ApiError::new(Code::Internal))
        }))
        .layer(from_fn(problem::render))
        .layer(from_fn(operations::measure))
}
