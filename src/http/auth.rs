//! Session tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256, verified without a
//! look-up. The only algorithm that is accepted is the one that signs.

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, header, request::Parts};
use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use super::problem::{ApiError, Code};
use crate::model::{SharedClock, UserId};

/// How long a session lasts.
pub const SESSION_LASTS: TimeDelta = TimeDelta::days(7);

/// The contents of a token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Claims {
    sub: UserId,
    /// Unix time, in seconds, from which the token is void.
    exp: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    admin: bool,
}

/// Signs and checks tokens.
pub struct Tokens {
    clock: SharedClock,
    sign: EncodingKey,
    check: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens signed with `secret`.
    pub fn new(secret: &[u8], clock: SharedClock) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        // Checked below against our clock, to the second; the library would take its own.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        let sign = EncodingKey::from_secret(secret);
        let check = DecodingKey::from_secret(secret);
        Self { clock, sign, check, validation }
    }

    /// A token for `user`, good until `expires`.
    ///
    /// # Errors
    /// In words, if signing fails.
    pub fn mint(
        &self,
        user: UserId,
        admin: bool,
        expires: DateTime<Utc>,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let claims = Claims { sub: user, exp: expires.timestamp(), admin };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.sign)
    }

    fn session(&self, headers: &HeaderMap) -> Result<Session, ApiError> {
        let refused = |detail| ApiError::new(Code::Unauthenticated).detail(detail);
        let token = headers
            .get(header::AUTHORIZATION)
            .ok_or_else(|| refused("the request has no Authorization header"))?
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .ok_or_else(|| refused("the Authorization header is not `Bearer <token>`"))?;
        let claims = self.claims(token).ok_or_else(|| refused("the token is not one of ours"))?;
        if claims.exp <= self.clock.now().timestamp() {
            return Err(refused("the token has expired"));
        }
        Ok(Session { user: claims.sub, admin: claims.admin })
    }

    /// The contents of a token that was signed with our secret.
    fn claims(&self, token: &str) -> Option<Claims> {
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.check, &self.validation);
        decoded.ok().map(|token| token.claims)
    }
}

/// The sender of a request, as an extractor: without a good token the handler is not called.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// The user.
    pub user: UserId,
    /// Whether the user may put vouchers on sale.
    pub admin: bool,
}

impl<S: AsRef<Tokens> + Sync> FromRequestParts<S> for Session {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        state.as_ref().session(&parts.headers)
    }
}

/// A session that may administer.
#[derive(Debug, Clone, Copy)]
pub struct AdminSession;

impl<S: AsRef<Tokens> + Sync> FromRequestParts<S> for AdminSession {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match state.as_ref().session(&parts.headers)? {
            Session { admin: true, .. } => Ok(Self),
            _ => Err(ApiError::new(Code::Forbidden)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Clock, SystemClock};

    #[test]
    fn a_token_that_was_changed_is_none_of_ours() {
        let tokens = Tokens::new(b"0123456789abcdef", Arc::new(SystemClock));
        let Some(user) = UserId::new(7) else { unreachable!("7 is positive") };
        let minted = tokens.mint(user, true, SystemClock.now()).unwrap_or_default();
        assert!(tokens.claims(&minted).is_some());
        // One character, in any part.
        for position in 0..minted.len() {
            let mut forged = minted.clone().into_bytes();
            forged[position] = if forged[position] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap_or_default();
            assert!(tokens.claims(&forged).is_none(), "{forged}");
        }
        // A signature that is longer, padded, or shorter by any number of characters.
        for tail in ["A", "AA", "AAAA", "=", &"A".repeat(10_000)] {
            assert!(tokens.claims(&format!("{minted}{tail}")).is_none());
        }
        for length in 0..minted.len() {
            assert!(tokens.claims(&minted[..length]).is_none(), "{length}");
        }
    }
}
