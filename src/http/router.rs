//! Every route.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, DATE, LINK, LOCATION};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tower_http::cors::CorsLayer;
use tower_http::trace::TraceLayer;
use tracing::Span;

use super::admission::{Whom, limited};
use super::language::Language;
use super::problem::Code;
use super::request_id::{self, X_REQUEST_ID};
use super::{ApiError, App, audits, body, docs_page, entries, events, openapi, operations};
use super::{orders, payments, problem, security_headers, sessions, voucher_orders, vouchers};
use crate::telemetry::{self, name};

/// How long a browser may remember what a page of another origin may do.
const PREFLIGHT_FOR: Duration = Duration::from_secs(3600);
/// Headers that a traced page adds to each of its requests (W3C Trace Context and Baggage).
const TRACE_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// The API, as it is served.
pub fn router(app: App) -> Router {
    served(app.clone(), api(app))
}

/// Every route of the API.
pub fn api(app: App) -> Router {
    // These routes ask the database at each request; the other ones answer from memory, or sell.
    let with_token = Router::new()
        .route("/api/sessions", delete(sessions::end_all))
        .route("/api/me", get(sessions::me))
        .route("/api/orders", get(orders::list))
        .route("/api/orders/{id}", get(orders::find))
        .route("/api/vouchers", post(vouchers::create))
        .route("/api/vouchers/{id}", patch(vouchers::change))
        .route("/api/vouchers/{id}/audit", post(audits::create))
        .route("/api/vouchers/{id}/orders", get(voucher_orders::list))
        .route("/api/orders/{id}/refund", post(orders::refund))
        .route("/api/orders/{id}/redemption", post(orders::redeem))
        .route("/api/orders/{id}/settlement", post(orders::settle))
        .route("/api/orders/{id}/steps", get(orders::list_steps))
        .route("/api/refunds", get(payments::list_refunds))
        .route("/api/payments/unmatched", get(payments::list_unmatched))
        .route("/api/vouchers/{id}/draw", put(entries::tell_number))
        .route("/api/vouchers/{id}/line", get(entries::line))
        .route("/api/vouchers/{id}/entries", get(entries::find));
    let logging_in = Router::new().route("/api/sessions", post(sessions::create));
    let asking = Router::new().route("/api/login-codes", post(sessions::send_code));
    let cancelling = Router::new().route("/api/orders/{id}/cancellation", post(orders::cancel));
    let entering = Router::new()
        .route("/api/vouchers/{id}/entries", post(entries::enter).delete(entries::leave));
    let paying = Router::new().route("/api/orders/{id}/payments", post(payments::create));
    Router::new()
        .route("/api/vouchers", get(vouchers::list))
        .route("/api/vouchers/{id}", get(vouchers::find))
        .route("/api/vouchers/{id}/draw", get(entries::draw))
        .route("/api/vouchers/{id}/events", get(events::of_voucher))
        .route("/api/events", get(events::of_all))
        .route("/api/vouchers/{id}/orders", post(orders::buy))
        .route("/api/payments/notifications", post(payments::notify))
        .merge(limited(&app, |limits| &limits.reads, Whom::Buyers, with_token))
        .merge(limited(&app, |limits| &limits.logins, Whom::Strangers, logging_in))
        .merge(limited(&app, |limits| &limits.login_codes, Whom::ConnectedStrangers, asking))
        .merge(limited(&app, |limits| &limits.cancellations, Whom::Buyers, cancelling))
        .merge(limited(&app, |limits| &limits.entering, Whom::Buyers, entering))
        .merge(limited(&app, |limits| &limits.payments, Whom::Buyers, paying))
        .route("/healthz", get(operations::healthz))
        .route("/readyz", get(operations::readyz))
        .route("/metrics", get(operations::metrics))
        // `RUST_LOG=seckill::request=debug,tower_http=debug` shows each request. Failures are logged where they
        // become a problem, with their cause, and not a second time here.
        .layer(TraceLayer::new_for_http().make_span_with(request_span).on_failure(()))
        .with_state(app)
        .merge(openapi::routes())
        .merge(docs_page::routes())
}

/// Routes, those of the API among them, with what concerns every request.
pub fn served(app: App, routes: Router) -> Router {
    let routes = routes
        .fallback(|| async { ApiError::new(Code::NotFound) })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed) });
    let origins = app.settings.allowed_origins.0.clone();
    let routes = with_common_layers(routes).layer(from_fn_with_state(app, close_while_draining));
    if origins.is_empty() { routes } else { routes.layer(cross_origin(origins)) }
}

/// The span of a request. It is off as long as no log and no trace wants it.
fn request_span(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let span = tracing::debug_span!(
        target: telemetry::SPANS,
        "request",
        otel.name = format!("{} {route}", request.method()),
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        request_id = header(X_REQUEST_ID.as_str()),
    );
    program::continue_trace(&span, header("traceparent"));
    span
}

/// Lets pages of other origins use the API. Tokens go into a header and not into a cookie: so a page has no rights
/// that its user did not give it, and no credentials are allowed.
fn cross_origin(origins: Vec<HeaderValue>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(
            [AUTHORIZATION, CONTENT_TYPE, X_REQUEST_ID]
                .into_iter()
                .chain(TRACE_HEADERS)
                .collect::<Vec<_>>(),
        )
        .expose_headers([DATE, LOCATION, LINK, RETRY_AFTER, WWW_AUTHENTICATE, X_REQUEST_ID])
        .max_age(PREFLIGHT_FOR)
}

/// Clients and proxies keep connections to a process that is to end. The next answer tells each of them
/// to close, and they connect elsewhere.
async fn close_while_draining(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if app.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// `routes` with what concerns every request.
pub fn with_common_layers(routes: Router) -> Router {
    routes.layer(from_fn(answer))
}

/// Waits for the body and refuses one that is too large, makes a panic a problem, writes a problem in the client's language, names
/// the request, tells browsers their limits, and measures. It is one function, without a layer for each: with the panic layer
/// of tower-http, which boxes each answer's body once more, `/healthz` took 7 % more time of the processor.
async fn answer(mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let language = Language::preferred(request.headers());
    let request_id = request_id::of(request.headers());
    // For the span of the request.
    request.headers_mut().insert(X_REQUEST_ID, request_id.clone());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let response = match body::arrived(request).await {
        // The panic's own message is on standard error.
        Ok(request) => AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|_panic| ApiError::new(Code::Internal).into_response()),
        Err(error) => error.into_response(),
    };
    let mut response = problem::write(response, language, &request_id);
    response.headers_mut().insert(X_REQUEST_ID, request_id);
    security_headers::add(response.headers_mut());
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let labels = [("route", route.to_owned()), ("status", response.status().as_str().to_owned())];
    metrics::histogram!(name::REQUEST_SECONDS, &labels).record(begun.elapsed().as_secs_f64());
    response
}
