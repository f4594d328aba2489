//! `seckill bare` (hidden): the ceiling for refusals. The same server and the same router layers as
//! the API, and behind them a handler that answers "sold out" to every request: it reads no token,
//! looks up no voucher and asks no store.

use axum::Router;
use axum::http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, VARY};
use axum::http::{HeaderName, StatusCode};
use axum::routing::post;

use program::stop;
use seckill::http::server::{self, ServerLimits};
use seckill::http::with_common_layers;

/// Files that are not connections.
const OTHER_FILES: u64 = 128;

/// The API's answer when nothing is left, to the byte, headers included: a shorter answer would be
/// faster. (The id is that of one request.)
const SOLD_OUT: &str = r#"{"type":"urn:seckill:problem:sold_out","title":"The voucher is sold out","status":409,"code":"sold_out","request_id":"00000000000000000000000000000000"}"#;
const HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "application/problem+json"),
    (CONTENT_LANGUAGE, "en"),
    (VARY, "accept-language"),
];

/// Serves on a free port, which it tells as `seckill serve` does, until standard input ends.
///
/// # Errors
/// When it cannot listen.
pub async fn run() -> anyhow::Result<()> {
    let stop = stop::requested(true)?;
    let listener = server::listen(([127, 0, 0, 1], 0).into())?;
    let address = listener.local_addr()?;
    let files = rlimit::increase_nofile_limit(u64::MAX)?;
    let router = with_common_layers(Router::new().route(
        "/api/vouchers/{id}/orders",
        post(async || (StatusCode::CONFLICT, HEADERS, SOLD_OUT)),
    ));
    program::say(format_args!("listening on http://{address}"))?;
    let max_connections = files.saturating_sub(OTHER_FILES).max(1);
    server::serve(listener, router, ServerLimits::of(max_connections as usize), stop).await;
    Ok(())
}
