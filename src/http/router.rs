//! Every route, and what concerns every request.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, DATE, LINK, LOCATION};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tower_http::cors::CorsLayer;
use tower_http::trace::TraceLayer;
use tracing::Span;
use utoipa::OpenApi;

use super::auth::Who;
use super::below::below;
use super::language::Language;
use super::limits::{Which, limited};
use super::problem::Code;
use super::request_id::{self, X_REQUEST_ID};
use super::vouchers;
use super::{ApiError, App, audits, body, docs_page, entries, event_log, events, openapi};
use super::{operations, orders, payments, problem, security_headers, sessions, voucher_orders};
use crate::telemetry::{self, name};

/// How long a browser may remember what a page of another origin may do.
const PREFLIGHT_FOR: Duration = Duration::from_secs(3600);
/// Headers that a page of another origin may send. A traced page adds three to each of its requests (W3C Trace Context and
/// Baggage).
const REQUEST_HEADERS: [HeaderName; 6] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    X_REQUEST_ID,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// A route of the API: what the router, the limits around its handler and its refusals in the description are made of.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub who: Who,
    /// The limit that a request counts against from its first moment to its last. `None`: memory answers it, or its handler
    /// asks for a limit of its own.
    pub permit: Option<Which>,
    /// What the route refuses beside [`Who::refusals`].
    pub own: &'static [Code],
    handler: fn() -> MethodRouter<App>,
}

macro_rules! routes {
    (@permit -) => { None };
    (@permit $limit:ident) => { Some(|limits| &limits.$limit) };
    ($($method:ident $path:literal $file:ident::$handler:ident $who:ident $permit:tt [$($code:ident)*];)+) => {
        /// Every route of the API.
        pub static ROUTES: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            who: Who::$who,
            permit: routes!(@permit $permit),
            own: &[$(Code::$code),*],
            handler: || on(MethodFilter::$method, $file::$handler),
        }),+];

        /// The descriptions that stand with the handlers.
        #[derive(OpenApi)]
        #[openapi(paths($($file::$handler),+))]
        pub(super) struct Operations;
    };
}

// The method and path; the handler; who asks, which the handler's signature says, too; the limit, or `-`; the route's own
// refusals, of which the first with 404 is that of an id that nothing has. Whatever stands in the column of the limit, `-`
// too, the handler may have a limit of its own, which `limits.rs` names: the streams of events, the rate of an address. Any
// route may answer 500 on a defect: a row names it only if the documents say what is left behind.
routes! {
    POST   "/api/login-codes"              sessions::send_code      ConnectedStranger login_codes [];
    POST   "/api/sessions"                 sessions::create         Stranger      logins        [Unauthenticated];
    DELETE "/api/sessions"                 sessions::end_all        Buyer         reads         [];
    GET    "/api/me"                       sessions::me             Buyer         reads         [];
    GET    "/api/vouchers"                 vouchers::list           Anybody       -             [TooManyRequests];
    POST   "/api/vouchers"                 vouchers::create         Administrator reads         [];
    GET    "/api/vouchers/{id}"            vouchers::find           Anybody       -             [VoucherNotFound TooManyRequests];
    PATCH  "/api/vouchers/{id}"            vouchers::change         Administrator reads
        [VoucherNotFound DrawClosed StockIsSold SaleCancelled SaleEnded];
    // The handler takes the one permit of `Limits::audits`, too.
    POST   "/api/vouchers/{id}/audit"      audits::create           Administrator reads         [VoucherNotFound];
    GET    "/api/vouchers/{id}/events"     events::of_voucher       Anybody       -             [VoucherNotFound TooManyRequests];
    GET    "/api/events"                   events::of_all           Anybody       -             [];
    POST   "/api/vouchers/{id}/orders"     orders::buy              Buyer         -
        [Forbidden VoucherNotFound SoldOut AlreadyBought OrderInProgress SaleNotStarted SaleEnded SalePaused DrawOpen LineOpen
         Internal];
    GET    "/api/vouchers/{id}/orders"     voucher_orders::list     Administrator reads         [VoucherNotFound];
    POST   "/api/vouchers/{id}/entries"    entries::enter           Buyer         entering
        [Forbidden VoucherNotFound AlreadyBought SaleNotStarted SaleEnded SalePaused DrawClosed LineClosed EntriesFull];
    GET    "/api/vouchers/{id}/entries"    entries::find            Buyer         reads         [EntryNotFound];
    DELETE "/api/vouchers/{id}/entries"    entries::leave           Buyer         entering
        [VoucherNotFound AlreadyBought DrawClosed];
    DELETE "/api/vouchers/{id}/entries/{entry_id}" entries::remove  Administrator reads
        [VoucherNotFound EntryNotFound AlreadyBought DrawClosed];
    GET    "/api/vouchers/{id}/draw"       entries::draw            Anybody       -             [NotFound TooManyRequests];
    GET    "/api/vouchers/{id}/draw/service" entries::draw_service  Anybody       -             [NotFound TooManyRequests];
    PUT    "/api/vouchers/{id}/draw"       entries::tell_number     Administrator reads
        [NotFound SaleEnded SalePaused DrawOpen DrawClosed];
    GET    "/api/vouchers/{id}/line"       entries::line            Administrator reads         [VoucherNotFound];
    GET    "/api/orders"                   orders::list             Buyer         reads         [];
    GET    "/api/orders/{id}"              orders::find             Buyer         reads         [OrderNotFound OrderAmbiguous];
    GET    "/api/orders/{id}/steps"        orders::list_steps       Administrator reads         [OrderNotFound OrderAmbiguous];
    POST   "/api/orders/{id}/payments"     payments::create         Buyer         payments
        [OrderNotFound OrderState OrderAmbiguous PayUrlRefused];
    POST   "/api/orders/{id}/cancellation" orders::cancel           Buyer         cancellations
        [OrderNotFound OrderState OrderAmbiguous];
    POST   "/api/orders/{id}/refund"       orders::refund           Administrator reads
        [OrderNotFound OrderState OrderAmbiguous];
    POST   "/api/orders/{id}/redemption"   orders::redeem           Administrator reads
        [OrderNotFound OrderState OrderAmbiguous];
    POST   "/api/orders/{id}/settlement"   orders::settle           Administrator reads
        [OrderNotFound OrderState OrderAmbiguous];
    GET    "/api/events/log"               event_log::list          Administrator reads         [];
    GET    "/api/refunds"                  payments::list_refunds   Administrator reads         [];
    GET    "/api/payments/unmatched"       payments::list_unmatched Administrator reads         [];
    POST   "/api/payments/unmatched/{id}/resolution" payments::resolve_unmatched Administrator reads [NotFound];
    POST   "/api/payments/notifications"   payments::notify         Gateway       -             [];
    GET    "/healthz"                      operations::healthz      Operator      -             [];
    GET    "/readyz"                       operations::readyz       Operator      -             [];
    GET    "/metrics"                      operations::metrics      Operator      -             [];
}

impl Route {
    /// What it may answer that is no success, in the order of the table of refusals.
    pub fn refusals(&self) -> impl Iterator<Item = Code> {
        let of_who = self.who.refusals();
        Code::ALL.into_iter().filter(move |code| of_who.contains(code) || self.own.contains(code))
    }

    /// Its handler, within its limit.
    fn serve(&self, app: &App) -> Router<App> {
        let handler = Router::new().route(self.path, (self.handler)());
        match self.permit {
            Some(which) => limited(app, which, self.who, handler),
            None => handler,
        }
    }
}

/// The API, as it is served.
pub fn router(app: App) -> Router {
    served(app.clone(), api(app))
}

/// Every route of the API, and its description.
pub fn api(app: App) -> Router {
    let description = openapi::routes(&app.settings.base_path);
    let routes = ROUTES.iter().map(|route| route.serve(&app)).fold(Router::new(), Router::merge);
    routes
        // `RUST_LOG=seckill::request=debug,tower_http=debug` shows each request. Failures are logged when they
        // become a problem, with their cause, and not a second time here.
        .layer(TraceLayer::new_for_http().make_span_with(request_span).on_failure(()))
        .with_state(app)
        .merge(description)
        .merge(docs_page::routes())
}

/// Routes, those of the API among them, with what concerns every request.
pub fn served(app: App, routes: Router) -> Router {
    let routes = routes
        .fallback(|| async { ApiError::new(Code::NotFound) })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed) });
    let (origins, base) = (app.settings.allowed_origins.0.clone(), app.settings.base_path.clone());
    let routes = with_common_layers(routes).layer(from_fn_with_state(app, close_while_draining));
    below(base, if origins.is_empty() { routes } else { routes.layer(cross_origin(origins)) })
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
        .allow_headers(REQUEST_HEADERS)
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
