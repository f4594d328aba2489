//! The ceiling for refusals: the smallest honest axum server.
//!
//! It answers the purchase's route with a constant "sold out" and does nothing else: no
//! authentication, no look at a voucher, no Redis, no database. What `seckill` loses against it
//! is what its own work costs. The terms are the same for both: multi-thread tokio,
//! `TCP_NODELAY`. `loadtest/speed.sh` starts it.
//!
//! `bare_handler [ADDRESS]`, by default `127.0.0.1:0`: a free port, told on stdout.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;

const SOLD_OUT: &str =
    r#"{"type":"about:blank","title":"sold out","status":409,"code":"sold_out"}"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);

    let router = axum::Router::new().route("/api/vouchers/{id}/orders", post(sold_out));
    // Without it Nagle's algorithm may hold an answer back. A connection where it cannot be set
    // is one that has just gone away.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    axum::serve(listener, router).await?;
    Ok(())
}

async fn sold_out() -> impl IntoResponse {
    let problem = [(header::CONTENT_TYPE, "application/problem+json")];
    (StatusCode::CONFLICT, problem, SOLD_OUT)
}
