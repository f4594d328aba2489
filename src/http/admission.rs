//! Which requests are let in: permits for all together, a share and a rate for each buyer, a rate for each address
//! that shows no good token. So no buyer takes from the others by being loud.
//!
//! All of it counts within one process. Purchases have limits of their own
//! ([`Purchases::buy`](crate::purchase::Purchases::buy)), because memory refuses most of them; they share a buyer's rate.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Router;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::address::ClientAddress;
use super::problem::Code;
use super::shares::counted_as;
use super::{ApiError, App};
use crate::model::{BucketRate, Share, Shares, TokenBuckets, UserId};
use crate::telemetry;

/// Requests of one buyer that may be under way at once, beside purchases. A page of ours has fewer.
const REQUESTS_OF_A_BUYER: usize = 8;
/// When a buyer should ask again who has as many under way.
const RETRY_SHARE: Duration = Duration::from_secs(1);
/// Administrators who are remembered, so that a buyer's limits do not concern them.
const MAX_ADMINISTRATORS: usize = 1_000;
/// How often the log names somebody who is limited.
const NAME_EVERY: Duration = Duration::from_secs(60);

/// What each buyer and each address has used.
#[derive(Debug)]
pub struct Admission {
    buyers: Shares<UserId>,
    administrators: Cache<UserId, ()>,
    addresses: TokenBuckets<IpAddr>,
    named: Mutex<Option<Instant>>,
}

/// The limits of a router: permits for all of its requests, and those of each buyer.
#[derive(Debug, Clone)]
struct Limit {
    permits: Arc<Semaphore>,
    buyers: Option<App>,
}

impl Admission {
    pub(super) fn new(address_rate: BucketRate) -> Self {
        Self {
            buyers: Shares::default(),
            administrators: Cache::new(MAX_ADMINISTRATORS),
            addresses: TokenBuckets::new(address_rate),
            named: Mutex::default(),
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
        self.addresses.take(customer).map_err(|wait| self.limited("address", &customer, wait))
    }

    fn limited(&self, by: &'static str, whom: &impl ToString, wait: Duration) -> ApiError {
        telemetry::rate_limited(by);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.is_none_or(|at| at.elapsed() >= NAME_EVERY) {
            *named = Some(Instant::now());
            let whom = whom.to_string();
            tracing::warn!(by, whom, "asks too often and is told 429 (seckill_rate_limited_total)");
        }
        ApiError::too_many_requests(wait)
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
        let admitted = self.purchases.admit(user);
        admitted.map_err(|wait| admission.limited("buyer", &user, wait))?;
        let share = admission.buyers.take(user, REQUESTS_OF_A_BUYER);
        share.map(Some).ok_or_else(|| admission.limited("share", &user, RETRY_SHARE))
    }
}

/// `routes` of buyers, all of which need a token and ask the database.
pub(super) fn limited_for_buyers(
    app: &App,
    permits: &Arc<Semaphore>,
    routes: Router<App>,
) -> Router<App> {
    with_limit(routes, permits, Some(app.clone()))
}

/// `routes` within the limit on requests that ask the database.
pub fn limited<S: Clone + Send + Sync + 'static>(app: App, routes: Router<S>) -> Router<S> {
    with_limit(routes, &app.memory().reads, None)
}

/// `routes` within the limit on logins. Strangers may use them: whatever they send, it takes nothing from the routes
/// of [`limited`].
pub fn limited_logins<S: Clone + Send + Sync + 'static>(app: &App, routes: Router<S>) -> Router<S> {
    with_limit(routes, &app.memory().logins, None)
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

fn with_limit<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    permits: &Arc<Semaphore>,
    buyers: Option<App>,
) -> Router<S> {
    let limit_of = Limit { permits: Arc::clone(permits), buyers };
    routes.route_layer(from_fn_with_state(limit_of, limit))
}

/// Load shedding: beyond the limit a request is refused at once, so that it does not queue for the few
/// connections of these routes. A request that was let in runs to its end, also if its client leaves: a
/// connection on which a statement was broken off would be lost to the pool for a while.
async fn limit(State(limit): State<Limit>, mut request: Request, next: Next) -> Response {
    let share = match limit.buyers.map(|app| admit_buyer(&app, &mut request)).transpose() {
        Ok(share) => share,
        Err(error) => return error.into_response(),
    };
    let Ok(permit) = limit.permits.try_acquire_owned() else {
        return ApiError::unavailable().into_response();
    };
    let answering = tokio::spawn(async move {
        let _held = (permit, share);
        next.run(request).await
    });
    answering.await.unwrap_or_else(|_panic| ApiError::new(Code::Internal).into_response())
}

/// Finds the buyer of a request, for its handler, too, and what the buyer may have under way.
fn admit_buyer(app: &App, request: &mut Request) -> Result<Option<Share<UserId>>, ApiError> {
    let session = app.session(request.headers(), request.extensions())?;
    let share = app.admit(session.user)?;
    request.extensions_mut().insert(session);
    Ok(share)
}

/// The same as `limit` in the task of the connection: a client who leaves breaks it off. For what takes no connection of a pool
/// for longer than a command of Redis.
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
