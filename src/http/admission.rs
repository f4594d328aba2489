//! Lets requests in, or refuses them, by the [`Limits`]: layers around routes, and what handlers ask for themselves.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Router;

use super::address::ClientAddress;
use super::limits::Limits;
use super::problem::Code;
use super::{ApiError, App};
use crate::model::{Limiter, Permit, UserId, VoucherId};
use crate::purchase::sales::Sale;

impl App {
    /// The client's address of a request.
    pub(super) fn address_of(&self, headers: &HeaderMap, extensions: &Extensions) -> ClientAddress {
        ClientAddress::of(headers, extensions, &self.settings.trusted_proxies.0)
    }

    /// Lets `user` ask the database once. `None`: an administrator, whom this does not concern.
    fn admit(&self, user: UserId) -> Result<Option<Permit<UserId>>, ApiError> {
        let Some(permit) = self.memory().limits.admit_buyer(user)? else { return Ok(None) };
        // It counts and names for itself.
        self.purchases.admit(user).map_err(ApiError::too_many_requests)?;
        Ok(Some(permit))
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
            Err(_) => self.memory().limits.admit_stranger(from.address),
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

/// One of the [`Limits`].
pub(super) type Which = fn(&Limits) -> &Limiter<IpAddr>;

/// The kind of client that a route is for. It decides whose requests are limited, and what the route refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Somebody who may do without a token.
    Anybody,
    /// Somebody with a token. The requests of an administrator count against a limit of their own
    /// (`Limits::administration`), once the server knows that the user is one: so buyers take none of theirs.
    Buyer,
    /// Somebody with a token whose user must be an administrator, which the handler checks.
    Administrator,
    /// Somebody who logs in. Each address has its share, whatever token it shows: it takes nothing from the others.
    Stranger,
    /// Somebody who logs in. Its work holds no database connection, so it may be dropped when the client leaves.
    ConnectedStranger,
    /// The payment gateway, which signs what it sends.
    Gateway,
    /// An operator's monitoring, which is answered without a store.
    Operator,
}

impl Who {
    /// Whether the route needs a token.
    pub const fn has_token(self) -> bool {
        matches!(self, Self::Buyer | Self::Administrator)
    }

    /// What each such route may refuse. Every one refuses a body that is too large or breaks off.
    pub const fn refusals(self) -> &'static [Code] {
        use Code::{Forbidden, InvalidRequest, TooManyRequests, Unauthenticated, Unavailable};
        match self {
            Self::Anybody => &[InvalidRequest, Unavailable],
            Self::Buyer => &[InvalidRequest, Unavailable, Unauthenticated, TooManyRequests],
            Self::Administrator => {
                &[InvalidRequest, Unavailable, Unauthenticated, TooManyRequests, Forbidden]
            }
            Self::Stranger | Self::ConnectedStranger => {
                &[InvalidRequest, Unavailable, TooManyRequests]
            }
            Self::Gateway => &[InvalidRequest, Unavailable, Forbidden],
            Self::Operator => &[InvalidRequest],
        }
    }
}

/// `routes`, of which one more request than the limit allows is refused.
pub fn limited<S: Clone + Send + Sync + 'static>(
    app: &App,
    which: Which,
    who: Who,
    routes: Router<S>,
) -> Router<S> {
    routes.route_layer(from_fn_with_state((app.clone(), which, who), pass))
}

/// Load shedding: beyond the limit a request is refused at once, so that it does not queue for the few
/// connections of these routes.
async fn pass(
    State((app, which, who)): State<(App, Which, Who)>,
    mut request: Request,
    next: Next,
) -> Response {
    let held = match admit(&app, which, who, &mut request) {
        Ok(held) => held,
        Err(error) => return error.into_response(),
    };
    let answer = async move {
        let _held = held;
        next.run(request).await
    };
    if who == Who::ConnectedStranger {
        return answer.await;
    }
    // All others run to their ends, also if their clients leave: a connection on which a statement was broken off would
    // be lost to the pool for a while.
    let answer = tokio::spawn(answer).await;
    answer.unwrap_or_else(|_panic| ApiError::new(Code::Internal).into_response())
}

/// What the request has until it ends.
fn admit(
    app: &App,
    which: Which,
    who: Who,
    request: &mut Request,
) -> Result<(Permit<IpAddr>, Option<Permit<UserId>>), ApiError> {
    let limits = &app.memory().limits;
    match who {
        Who::Anybody | Who::Gateway | Who::Operator => Ok((which(limits).take(None)?, None)),
        Who::Buyer | Who::Administrator => {
            let session = app.session(request.headers(), request.extensions())?;
            let of_buyer = app.admit(session.user)?;
            // For the handler.
            request.extensions_mut().insert(session);
            let limiter = if of_buyer.is_some() { which(limits) } else { &limits.administration };
            Ok((limiter.take(None)?, of_buyer))
        }
        Who::Stranger | Who::ConnectedStranger => {
            let address = app.address_of(request.headers(), request.extensions());
            Ok((limits.admit_login(which(limits), address)?, None))
        }
    }
}
