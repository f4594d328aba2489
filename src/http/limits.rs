//! Which requests are let in: layers with permits for all together, and with what each buyer and each address may
//! have.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Router;
use tokio::sync::Semaphore;

use super::address::ClientAddress;
use super::admission::StrangersPermits;
use super::problem::Code;
use super::{ApiError, App};
use crate::model::{Share, UserId, VoucherId};
use crate::purchase::sales::Sale;

/// The limits of a router: permits for all of its requests, and those of each buyer.
#[derive(Debug, Clone)]
struct Limit {
    permits: Arc<Semaphore>,
    /// Those of a user who is known to be an administrator.
    of_administrators: Arc<Semaphore>,
    buyers: Option<App>,
}

impl App {
    /// The client's address of a request.
    pub(super) fn address_of(&self, headers: &HeaderMap, extensions: &Extensions) -> ClientAddress {
        ClientAddress::of(headers, extensions, &self.settings.trusted_proxies.0)
    }

    /// Lets `user` ask the database once.
    ///
    /// # Errors
    /// `too_many_requests`. It does not concern administrators.
    pub(super) fn admit(&self, user: UserId) -> Result<Option<Share<UserId>>, ApiError> {
        let Some(share) = self.memory().admission.share_of(user)? else { return Ok(None) };
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

impl<S: Sync> FromRequestParts<S> for ClientAddress
where
    App: FromRef<S>,
{
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let app = App::from_ref(state);
        Ok(app.address_of(&parts.headers, &parts.extensions))
    }
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
/// of [`limited`], and whatever one address sends, nothing from the logins of the others.
pub fn limited_logins<S: Clone + Send + Sync + 'static>(app: &App, routes: Router<S>) -> Router<S> {
    let permits = (app.clone(), Arc::clone(&app.memory().logins));
    routes.route_layer(from_fn_with_state(permits, limit_strangers))
}

/// `routes` within the limit on login codes that are on their way. They wait for a gateway: so they have permits of
/// their own.
pub fn limited_login_codes<S: Clone + Send + Sync + 'static>(
    app: &App,
    routes: Router<S>,
) -> Router<S> {
    let permits = (app.clone(), Arc::clone(&app.memory().login_codes));
    routes.route_layer(from_fn_with_state(permits, limit_while_connected))
}

fn limit_of(permits: &Arc<Semaphore>, buyers: Option<App>) -> Limit {
    Limit { permits: Arc::clone(permits), of_administrators: Arc::clone(permits), buyers }
}

fn with_limit<S: Clone + Send + Sync + 'static>(routes: Router<S>, limits: Limit) -> Router<S> {
    routes.route_layer(from_fn_with_state(limits, limit))
}

/// Load shedding: beyond the limit a request is refused at once, so that it does not queue for the few
/// connections of these routes.
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
    run_to_its_end((permit, share), request, next).await
}

/// A request that was let in runs to its end, also if its client leaves: a connection on which a statement was broken off
/// would be lost to the pool for a while. Until then it has what is `held`.
async fn run_to_its_end(held: impl Send + 'static, request: Request, next: Next) -> Response {
    let answering = tokio::spawn(async move {
        let _held = held;
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

/// The same as `limit` for strangers, whose tokens do not count.
async fn limit_strangers(
    State((app, permits)): State<(App, Arc<StrangersPermits>)>,
    request: Request,
    next: Next,
) -> Response {
    let address = app.address_of(request.headers(), request.extensions());
    match permits.admit(address, &app.memory().admission) {
        Ok(permit) => run_to_its_end(permit, request, next).await,
        Err(error) => error.into_response(),
    }
}

/// The same as `limit_strangers` in the task of the connection: a client who leaves breaks it off. For what takes no
/// connection of a pool for longer than a command of Redis.
async fn limit_while_connected(
    State((app, permits)): State<(App, Arc<StrangersPermits>)>,
    request: Request,
    next: Next,
) -> Response {
    let address = app.address_of(request.headers(), request.extensions());
    match permits.admit(address, &app.memory().admission) {
        Ok(_permit) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
