//! The kind of client that a route is for, and the extractors that find out who sent a request. `limits.rs` limits how often
//! and how many at once they may ask.

use std::convert::Infallible;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::address::ClientAddress;
use super::problem::Code;
use super::{ApiError, App};
use crate::model::UserId;
use crate::store::users;

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
    /// Somebody who logs in. Each address has its own share, whatever token the request has.
    Stranger,
    /// Somebody who logs in. Its work holds no database connection but in tasks of their own, so it may be dropped when the client
    /// leaves.
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

    /// The refusals of such a route. Every route refuses a body that is too large or breaks off.
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

/// A user who is logged in: without a good token the handler is not called.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// The user.
    pub user: UserId,
}

impl<S: Sync> FromRequestParts<S> for Session
where
    App: FromRef<S>,
{
    type Rejection = ApiError;
    /// A request that has no session counts against its address.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // A request was looked at already if it came through a layer of `limits.rs`.
        if let Some(session) = parts.extensions.get() {
            return Ok(*session);
        }
        let app = App::from_ref(state);
        app.session_of(parts.headers.get(AUTHORIZATION)).or_else(|refused| {
            app.memory().limits.admit_stranger(app.address_of(parts))?;
            Err(refused)
        })
    }
}

impl App {
    /// The session of a value of `Authorization`.
    pub(super) fn session_of(&self, token: Option<&HeaderValue>) -> Result<Session, ApiError> {
        let token = self.tokens.verify(token)?;
        if self.revocations.is_void(&token) {
            let detail = "the user has ended the session: log in again";
            return Err(ApiError::new(Code::Unauthenticated).detail(detail));
        }
        Ok(Session { user: token.user })
    }

    /// The client's address of a request.
    pub(super) fn address_of(&self, parts: &Parts) -> ClientAddress {
        let trusted = &self.settings.trusted_proxies.0;
        ClientAddress::of(&parts.headers, &parts.extensions, trusted)
    }
}

impl Session {
    /// Whether the user's phone is an administrator's by the configuration of now.
    pub async fn may_administer(&self, app: &App) -> Result<bool, ApiError> {
        let user = users::find(app.database.pool(), self.user).await?;
        let may = user.is_some_and(|user| app.settings.admin_phones.has(&user.phone));
        if may {
            app.memory().limits.administrators.insert(self.user, ());
        }
        Ok(may)
    }
}

/// The user of a session that may administer: the phone is an administrator's by the configuration of now, whenever the token
/// was issued. That costs a look-up, on routes that are rarely used.
#[derive(Debug, Clone, Copy)]
pub struct AdminSession {
    /// The administrator.
    pub user: UserId,
}

impl<S: Sync> FromRequestParts<S> for AdminSession
where
    App: FromRef<S>,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let session = Session::from_request_parts(parts, state).await?;
        let may_administer = session.may_administer(&App::from_ref(state)).await?;
        may_administer.then_some(Self { user: session.user }).ok_or(ApiError::new(Code::Forbidden))
    }
}

/// From whom a request comes that needs no token. If it has one, that is verified where it counts.
#[derive(Debug)]
pub struct Anybody {
    pub(super) address: ClientAddress,
    pub(super) token: Option<HeaderValue>,
}

impl FromRequestParts<App> for Anybody {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let token = parts.headers.get(AUTHORIZATION).cloned();
        Ok(Self { address: app.address_of(parts), token })
    }
}

impl<S: Sync> FromRequestParts<S> for ClientAddress
where
    App: FromRef<S>,
{
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(App::from_ref(state).address_of(parts))
    }
}
