//! Session tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256, verified without a
//! look-up. The only algorithm that is accepted is the one that signs.

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, header, request::Parts};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::problem::Code;
use super::{ApiError, App};
use crate::model::{SharedClock, UserId};

/// How long a session lasts.
pub const SESSION_LASTS: TimeDelta = TimeDelta::days(7);

/// So many tokens are known again: whoever is refused comes again and again, and to check a signature
/// is a tenth of what it takes to refuse him.
const MAX_KNOWN: usize = 10_000;
/// Those that we mint are half as long.
const MAX_KNOWN_BYTES: usize = 256;

/// What a token says.
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
    /// The first part of every token that we mint.
    header: String,
    /// What signs them, with the secret already worked in.
    mac: Hmac<Sha256>,
    /// What those said whose signature was found good.
    known: Cache<Box<str>, Claims>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens signed with `secret`.
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length (RFC 2104)")]
    pub fn new(secret: &[u8], clock: SharedClock) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        // Checked below against our clock, to the second; the library would take its own.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        let sign = EncodingKey::from_secret(secret);
        let header = serde_json::to_vec(&Header::new(Algorithm::HS256)).unwrap_or_default();
        let header = URL_SAFE_NO_PAD.encode(header);
        let check = DecodingKey::from_secret(secret);
        let mac = Hmac::new_from_slice(secret).expect("a key of any length");
        Self { clock, sign, check, validation, header, mac, known: Cache::new(MAX_KNOWN) }
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

    pub(super) fn session(&self, headers: &HeaderMap) -> Result<Session, ApiError> {
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

    /// What a token says that was signed with our secret.
    fn claims(&self, token: &str) -> Option<Claims> {
        if let Some(known) = self.known.get(token) {
            return Some(known);
        }
        let claims = self.verified(token)?;
        if token.len() <= MAX_KNOWN_BYTES {
            self.known.insert(token.into(), claims);
        }
        Some(claims)
    }

    fn verified(&self, token: &str) -> Option<Claims> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        if header != self.header {
            // Signed with our secret by somebody who writes headers in another way.
            let decoded = jsonwebtoken::decode::<Claims>(token, &self.check, &self.validation);
            return decoded.ok().map(|token| token.claims);
        }
        // The same, with a header that need not be read and a secret that need not be worked in:
        // the library does both anew for each token.
        let mut bytes = [0; 32];
        let length = URL_SAFE_NO_PAD.decode_slice(signature, &mut bytes).ok()?;
        self.mac.clone().chain_update(message).verify_slice(&bytes[..length]).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// Who sends a request, as an extractor: without a good token the handler is not called.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// The user.
    pub user: UserId,
    /// Whether the user may put vouchers on sale.
    pub admin: bool,
}

impl FromRequestParts<App> for Session {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        app.tokens.session(&parts.headers)
    }
}

/// A session that may administer.
#[derive(Debug, Clone, Copy)]
pub struct AdminSession;

impl FromRequestParts<App> for AdminSession {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        match app.tokens.session(&parts.headers)? {
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
    fn every_token_we_mint_takes_the_short_way_and_says_the_same_on_the_long_one() {
        let Some(user) = UserId::new(7) else { unreachable!("7 is positive") };
        // HMAC hashes a key that is longer than a block.
        for secret in [&[1; 16][..], &[2; 64], &[3; 65], &[4; 200]] {
            let tokens = Tokens::new(secret, Arc::new(SystemClock));
            let minted = tokens.mint(user, true, SystemClock.now()).unwrap_or_default();
            assert_eq!(minted.split('.').next(), Some(tokens.header.as_str()));
            let long = jsonwebtoken::decode::<Claims>(&minted, &tokens.check, &tokens.validation);
            let said = |claims: &Claims| (claims.sub, claims.exp, claims.admin);
            let long = long.ok().map(|token| said(&token.claims));
            assert!(long.is_some());
            // The second time it is known.
            for known in [0, 1] {
                assert_eq!(tokens.known.len(), known);
                assert_eq!(tokens.claims(&minted).as_ref().map(said), long);
            }
        }
    }

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
        assert_eq!(tokens.known.len(), 1);
    }
}
