//! Which requests are let in: permits for all together, a share and a rate for each buyer, a rate for each address
//! that shows no good token. So no buyer takes from the others by being loud.
//!
//! All of it counts within one process. Purchases have limits of their own
//! ([`Purchases::buy`](crate::purchase::Purchases::buy)), because memory refuses most of them; they share a buyer's rate.

use std::convert::Infallible;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Router;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use super::address::ClientAddress;
use super::problem::Code;
use super::shares::counted_as;
use super::{ApiError, App};
use crate::model::{BucketRate, Share, Shares, TokenBuckets, UserId, VoucherId};
use crate::purchase::sales::Sale;
use crate::telemetry;

/// Requests of one buyer that may be under way at once, beside purchases. A page of ours has fewer.
const REQUESTS_OF_A_BUYER: usize = 8;
/// When a buyer should ask again who has as many under way.
const RETRY_SHARE: Duration = Duration::from_secs(1);
/// Administrators who are remembered, so that a buyer's limits do not concern them.
const MAX_ADMINISTRATORS: usize = 1_000;

/// What each buyer and each address has used.
#[derive(Debug)]
pub struct Admission {
    buyers: Shares<UserId>,
    administrators: Cache<UserId, ()>,
    addresses: TokenBuckets<IpAddr>,
}

/// The limits of a router: permits for all of its requests, and those of each buyer.
#[derive(Debug, Clone)]
struct Limit {
    permits: Arc<Semaphore>,
    /// Those of a user who is known to be an administrator.
    of_administrators: Arc<Semaphore>,
    buyers: Option<App>,
}

impl Admission {
    pub(super) fn new(address_rate: BucketRate) -> Self {
        Self {
            buyers: Shares::default(),
            administrators: Cache::new(MAX_ADMINISTRATORS),
            addresses: TokenBuckets::new(address_rate),
        }
    }

    /// `user` is an administrator by the configuration of this process.
    pub(super) fn remember_administrator(&self, user: UserId) {
        self.administrators.insert(user, ());
    }

    /// A request without a good token asks. Loopback addresses are not limited: they are a balancer's, a load
    /// generator's, or a test's.
    pub(super) fn admit_stranger(&self, address: ClientAddress) -> Result<(), ApiError> {
        if address.0.is_loopback() {
            return Ok(());
        }
        let customer = counted_as(address.0);
        self.addresses.take(customer).map_err(|wait| refused_by("address", &customer, wait))
    }
}

impl App {
    /// Lets `user` ask the database once.
    ///
    /// # Errors
    /// `too_many_requests`. It does not concern administrators.
    pub(super) fn admit(&self, user: UserId) -> Result<Option<Share<UserId>>, ApiError> {
        let admission = &self.memory().admission;
        if admission.administrators.get(&user).is_some() {
            return Ok(None);
        }
        let share = admission.buyers.take(user, REQUESTS_OF_A_BUYER);
        let share = share.ok_or_else(|| refused_by("share", &user, RETRY_SHARE))?;
        // It counts and names for itself.
        self.purchases.admit(user).map_err(ApiError::too_many_requests)?;
        Ok(Some(share))
    }

    /// The sale of a voucher. A request for one that memory does not have, and that may be made up, asks the database.
    pub(super) async fn sale_for(
        &self,
        from: &Anybody,
        voucher: VoucherId,
    ) -> Result<Arc<Sale>, ApiError> {
        if !self.purchases.remembers(voucher) {
            self.admit_anybody(from)?;
        }
        let sale = self.purchases.sale(voucher).await?;
        sale.ok_or(ApiError::new(Code::VoucherNotFound))
    }

    /// Lets somebody who needs no token ask the database once: a buyer by the buyer's rate, a stranger by that of the
    /// address.
    pub(super) fn admit_anybody(&self, from: &Anybody) -> Result<(), ApiError> {
        match self.session_of(&from.headers) {
            Ok(session) => self.admit(session.user).map(drop),
            Err(_) => self.memory().admission.admit_stranger(from.address),
        }
    }
}

fn refused_by(by: &'static str, whom: &impl Display, wait: Duration) -> ApiError {
    telemetry::rate_limited(by, whom);
    ApiError::too_many_requests(wait)
}

/// From whom a request comes that needs no token.
#[derive(Debug)]
pub struct Anybody {
    pub(super) address: ClientAddress,
    /// The token alone, if there is one.
    headers: HeaderMap,
}

impl FromRequestParts<App> for Anybody {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let Ok(address) = ClientAddress::from_request_parts(parts, app).await;
        let token = parts.headers.get(AUTHORIZATION).cloned();
        Ok(Self {
            address,
            headers: token.map(|token| (AUTHORIZATION, token)).into_iter().collect(),
        })
    }
}

/// `routes` of buyers, all of which need a token and ask the database. An administrator has other permits, once it is
/// known that the user is one: buyers can take none of them.
pub(super) fn limited_for_buyers(
    app: &App,
    permits: &Arc<Semaphore>,
    routes: Router<App>,
) -> Router<App> {
    let of_administrators = Arc::clone(&app.memory().administration);
    with_limit(routes, Limit { of_administrators, ..limit_of(permits, Some(app.clone())) })
}

/// `routes` within the limit on requests that ask the database.
pub fn limited<S: Clone + Send + Sync + 'static>(app: App, routes: Router<S>) -> Router<S> {
    with_limit(routes, limit_of(&app.memory().reads, None))
}

/// `routes` within the limit on logins. Strangers may use them: whatever they send, it takes nothing from the routes
/// of [`limited`].
pub fn limited_logins<S: Clone + Send + Sync + 'static>(app: &App, routes: Router<S>) -> Router<S> {
    with_limit(routes, limit_of(&app.memory().logins, None))
}

/// `routes` within the limit on login codes that are on their way. They wait for a gateway: so they have permits of
/// their own.
pub fn limited_login_codes<S: Clone + Send + Sync + 'static>(
    app: &App,
    routes: Router<S>,
) -> Router<S> {
    let permits = Arc::clone(&app.memory().login_codes);
    routes.route_layer(from_fn_with_state(permits, limit_while_connected))
}

fn limit_of(permits: &Arc<Semaphore>, buyers: Option<App>) -> Limit {
    Limit { permits: Arc::clone(permits), of_administrators: Arc::clone(permits), buyers }
}

fn with_limit<S: Clone + Send + Sync + 'static>(routes: Router<S>, limits: Limit) -> Router<S> {
    routes.route_layer(from_fn_with_state(limits, limit))
}

/// Load shedding: beyond the limit a request is refused at once, so that it does not queue for the few
/// connections of these routes. A request that was let in runs to its end, also if its client leaves: a
/// connection on which a statement was broken off would be lost to the pool for a while.
async fn limit(State(limit): State<Limit>, mut request: Request, next: Next) -> Response {
    let (share, permits) = match limit.buyers.map(|app| admit_buyer(&app, &mut request)) {
        None => (None, limit.permits),
        Some(Ok(Some(share))) => (Some(share), limit.permits),
        Some(Ok(None)) => (None, limit.of_administrators),
        Some(Err(error)) => return error.into_response(),
    };
    let Ok(permit) = permits.try_acquire_owned() else {
        return ApiError::unavailable().into_response();
    };
    let answering = tokio::spawn(async move {
        let _held = (permit, share);
        next.run(request).await
    });
    answering.await.unwrap_or_else(|_panic| ApiError::new(Code::Internal).into_response())
}

/// Finds the buyer of a request, for its handler, too, and what the buyer may have under way; `None`: an administrator.
fn admit_buyer(app: &App, request: &mut Request) -> Result<Option<Share<UserId>>, ApiError> {
    let session = app.session(request.headers(), request.extensions())?;
    let share = app.admit(session.user)?;
    request.extensions_mut().insert(session);
    Ok(share)
}

/// The same as `limit` in the task of the connection: a client who leaves breaks it off. For what takes no
/// connection of a pool for longer than a command of Redis.
async fn limit_while_connected(
    State(permits): State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    match permits.try_acquire_owned() {
        Ok(_permit) => next.run(request).await,
        Err(_) => ApiError::unavailable().into_response(),
    }
}
