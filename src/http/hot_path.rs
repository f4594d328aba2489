//! The short way of a purchase: by the ten thousand a second, and most of them refused.
//!
//! The router matches, extracts and boxes, layer by layer, for each request anew; that costs more
//! than to know that a voucher is sold out. So a purchase in its usual form (a good token, no
//! body) is answered here. Everything else, whatever is wrong with it included, is the router's,
//! which says the same of the usual form, only later.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
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

use super::entrance::Entrance;
use super::language::Language;
use super::router::{finish, unless_it_panics};
use super::{App, orders, router};
use crate::model::{UserId, VoucherId};

/// The router's route for the same; also what the metrics call it.
const BUY: &str = "/api/vouchers/{id}/orders";

/// The whole API: the router, and the short way past it. It is cloned for each request.
#[derive(Debug, Clone)]
pub struct HotPath(Arc<Ways>);

/// What a request may take.
#[derive(Debug)]
struct Ways {
    app: App,
    router: Router,
    connections: RuntimeMetrics,
}

impl HotPath {
    /// The API of `app`, to be served on the threads of `connections`, and nowhere else: how many
    /// wait there for their turn is how many are behind whoever has his.
    pub fn new(app: App, connections: &Handle) -> Self {
        let (router, connections) = (router(app.clone()), connections.metrics());
        Self(Arc::new(Ways { app, router, connections }))
    }
}

impl Ways {
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

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let begun = Instant::now();
        let Ways { app, router, connections } = &*self.0;
        let entrance = Entrance::of(&request, app, connections);
        let Some((user, voucher)) = self.0.purchase(&request) else {
            request.extensions_mut().insert(entrance);
            return Either::Right(Either::Right(router.clone().call(request)));
        };
        let language = Language::preferred(request.headers());
        let looked = match app.purchases.look(user, voucher) {
            Some(Ok(looked)) => entrance.admit(app, looked).map(Some),
            Some(Err(refusal)) => Err(refusal.into()),
            None => Ok(None),
        };
        let looked = match looked {
            Ok(looked) => looked,
            Err(refused) => {
                let refused = finish(refused.answer(language), language, BUY, begun);
                return Either::Left(ready(Ok(refused)));
            }
        };
        let app = app.clone();
        let buying = async move {
            let bought = async {
                match looked {
                    Some(admitted) => Ok(orders::answer(app.purchases.sell(admitted).await)),
                    None => orders::find_and_sell(&app, &entrance, user, voucher).await,
                }
            };
            let bought = bought.map(IntoResponse::into_response);
            Ok(finish(unless_it_panics(bought).await, language, BUY, begun))
        };
        Either::Right(Either::Left(Box::pin(buying)))
    }
}
