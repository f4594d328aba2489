//! The short way of a purchase: by the ten thousand a second, and most of them refused.
//!
//! The router matches, extracts and boxes, layer by layer, for each request anew; that costs more
//! than to know that a voucher is sold out. So a purchase in its usual form (a good token, no
//! body) is answered here. Everything else, whatever is wrong with it included, is the router's,
//! which says the same of the usual form, only later.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures_util::FutureExt;
use futures_util::future::Either;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::Instant;
use tower::Service;

use super::address::Peer;
use super::router::{finish, unless_it_panics};
use super::{ApiError, App, bench, orders, problem, router};
use crate::model::{UserId, VoucherId};
use crate::seckill::{self, Comer, PurchaseError};

/// The router's route for the same; also what the metrics call it.
const BUY: &str = "/api/vouchers/{id}/orders";

/// The whole API: the router, and the short way past it.
#[derive(Debug, Clone)]
pub struct HotPath {
    app: App,
    router: Router,
    connections: RuntimeMetrics,
}

impl HotPath {
    /// The API of `app`, to be served on the threads of `connections`.
    pub fn new(app: App, connections: &Handle) -> Self {
        Self { router: router(app.clone()), app, connections: connections.metrics() }
    }

    /// Who wants to buy what, if the request is a purchase in its usual form.
    fn purchase(&self, request: &Request<Incoming>) -> Option<(UserId, VoucherId)> {
        if request.method() != Method::POST || !request.body().is_end_stream() {
            return None;
        }
        let (before, after) = BUY.split_once("{id}")?;
        let voucher = request.uri().path().strip_prefix(before)?.strip_suffix(after)?;
        let session = self.app.tokens.session(request.headers()).ok()?;
        Some((session.user, voucher.parse().ok()?))
    }

    /// Lets a purchase be under way. If so many are refused that it is asked for, who sent it is
    /// told to come later than usual, and not listened to meanwhile.
    fn admit(
        &self,
        mut purchase: seckill::Request,
        is_early: bool,
        peer: Option<&Peer>,
    ) -> Result<seckill::Request, ApiError> {
        let comer = Comer { behind: self.connections.global_queue_depth(), is_early };
        let Err(benched) = self.app.purchases.admit(&mut purchase, comer) else {
            return Ok(purchase);
        };
        let refused = ApiError::from(PurchaseError::Overloaded);
        // A proxy's connection is that of many, most of whom have not been told anything.
        let peer = peer.filter(|peer| !peer.is_one_of(&self.app.trusted_proxies));
        Err(match (peer, benched) {
            (Some(peer), Some(benched)) => {
                peer.bench.take(benched);
                refused.retry_after(bench::COME_BACK_AFTER)
            }
            _ => refused,
        })
    }
}

type Answer = Result<Response, Infallible>;
type Buying = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Service<Request<Incoming>> for HotPath {
    type Response = Response;
    type Error = Infallible;
    /// From memory, from the purchase, or from the router: the first is not even boxed.
    type Future = Either<Ready<Answer>, Either<Buying, RouteFuture<Infallible>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // As the router, which is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let begun = Instant::now();
        let peer: Option<&Peer> = request.extensions().get();
        let is_early = peer.is_some_and(|peer| peer.bench.was_early());
        let Some((user, voucher)) = self.purchase(&request) else {
            return Either::Right(Either::Right(self.router.call(request)));
        };
        let language = problem::preferred_language(request.headers());
        let looked = match self.app.purchases.look(user, voucher) {
            Some(Ok(looked)) => self.admit(looked, is_early, peer).map(Ok),
            Some(Err(refusal)) => Err(refusal.into()),
            None => Ok(Err((self.clone(), peer.cloned()))),
        };
        let looked = match looked {
            Ok(looked) => looked,
            Err(refused) => {
                let refused = finish(refused.into_response(), language, BUY, begun);
                return Either::Left(ready(Ok(refused)));
            }
        };
        let app = self.app.clone();
        let buying = async move {
            let bought = async {
                let admitted = match looked {
                    Ok(admitted) => admitted,
                    Err((path, peer)) => {
                        let found = app.purchases.find(user, voucher).await?;
                        path.admit(found?, is_early, peer.as_ref())?
                    }
                };
                Ok::<_, ApiError>(orders::answer(app.purchases.sell(admitted).await))
            };
            let bought = bought.map(IntoResponse::into_response);
            Ok(finish(unless_it_panics(bought).await, language, BUY, begun))
        };
        Either::Right(Either::Left(Box::pin(buying)))
    }
}
