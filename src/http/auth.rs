//! The user behind a request, as extractors: without a good token the handler is not called.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap};

use super::problem::Code;
use super::{ApiError, App};
use crate::model::UserId;
use crate::store::users;

/// A user who is logged in.
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
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let app = App::from_ref(state);
        app.session(&parts.headers, &parts.extensions)
    }
}

impl App {
    /// The session of a request. A request that has none counts against its address.
    pub(super) fn session(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Session, ApiError> {
        // A request was looked at already if it came through a layer of `admission.rs`.
        if let Some(session) = extensions.get() {
            return Ok(*session);
        }
        self.session_of(headers).or_else(|refused| {
            let address = self.address_of(headers, extensions);
            self.memory().limits.admit_stranger(address)?;
            Err(refused)
        })
    }

    pub(super) fn session_of(&self, headers: &HeaderMap) -> Result<Session, ApiError> {
        let token = self.tokens.verify(headers)?;
        if self.revocations.is_void(&token) {
            let detail = "the user has ended the session: log in again";
            return Err(ApiError::new(Code::Unauthenticated).detail(detail));
        }
        Ok(Session { user: token.user })
    }
}

impl Session {
    /// Whether the user's phone is an administrator's by the configuration of now.
    pub async fn may_administer(&self, app: &App) -> Result<bool, ApiError> {
        let user = users::find(app.database.pool(), self.user).await?;
        let may = user.is_some_and(|user| app.settings.admin_phones.has(&user.phone));
        if may {
            app.memory().limits.remember_administrator(self.user);
        }
        Ok(may)
    }
}

/// A session that may administer: the user's phone is an administrator's by the configuration of now,
/// whenever the token was issued. That costs a look-up, on routes that are rarely used.
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
        let app = App::from_ref(state);
        let session = Session::from_request_parts(parts, state).await?;
        if session.may_administer(&app).await? {
            Ok(Self { user: session.user })
        } else {
            Err(ApiError::new(Code::Forbidden))
        }
    }
}
