//! How a purchase is let in, and what those are told who are not.

use axum::http::{HeaderMap, header};
use hyper::Request;
use tokio::runtime::RuntimeMetrics;

use super::address::{Peer, X_FORWARDED_FOR, is_trusted};
use super::bench::Bench;
use super::{ApiError, App};
use crate::seckill::{self, Comer, PurchaseError};

/// How somebody comes who may want to buy.
#[derive(Debug, Clone, Default)]
pub struct Entrance {
    comer: Comer,
    /// That of his connection, if it is his alone.
    bench: Option<Bench>,
}

impl Entrance {
    /// Of a request that is asked about once, when it has been read, and is served on the threads
    /// of `connections`.
    pub(super) fn of<B>(request: &Request<B>, app: &App, connections: &RuntimeMetrics) -> Self {
        let alone = |peer: &&Peer| {
            !is_forwarded(request.headers()) && !is_trusted(peer.ip(), &app.trusted_proxies)
        };
        let Some(peer) = request.extensions().get().filter(alone) else {
            // The connections of a proxy cannot be left alone for a while, so those behind would
            // not become fewer, and nobody would be let in.
            return Self::default();
        };
        // An estimate: it is where those are who do not fit into the threads' own queues, and where
        // answers come by.
        let behind = connections.global_queue_depth();
        let comer = Comer { behind, is_early: peer.bench.was_early() };
        Self { comer, bench: Some(peer.bench.clone()) }
    }

    /// Lets a purchase be under way. If so many are refused that it is asked for, who sent it is
    /// told to come later than usual, and not listened to meanwhile.
    ///
    /// # Errors
    /// 503 in an overload.
    pub(super) fn admit(
        &self,
        app: &App,
        mut purchase: seckill::Request,
    ) -> Result<seckill::Request, ApiError> {
        let Err(benched) = app.purchases.admit(&mut purchase, self.comer) else {
            return Ok(purchase);
        };
        let refused = ApiError::from(PurchaseError::Overloaded);
        Err(match (&self.bench, benched) {
            (Some(bench), Some(benched)) => refused.retry_after(bench.take(benched)),
            _ => refused,
        })
    }
}

/// Whether a proxy sent it, whose connection is that of many: most of them have not been told
/// anything.
fn is_forwarded(headers: &HeaderMap) -> bool {
    [X_FORWARDED_FOR, header::FORWARDED, header::VIA].iter().any(|name| headers.contains_key(name))
}
