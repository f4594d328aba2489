//! Session tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256, verified without a look-up. A token is
//! `header.claims.signature`, each part in base64; the signature is of the two before it.

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::problem::{ApiError, Code};
use super::webhook::SigningKey;
use crate::model::{SharedClock, UserId};

/// How long a session lasts.
pub const SESSION_LASTS: TimeDelta = TimeDelta::days(7);
/// The longest life of a token: load tests mint such ones.
pub const LONGEST_TOKEN_LIFE: TimeDelta = TimeDelta::days(30);

/// The header of a token. A header that names another algorithm is none of ours: the token would choose how it is verified.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: Algorithm,
}

#[derive(Debug, Serialize, Deserialize)]
enum Algorithm {
    /// HMAC-SHA256.
    HS256,
}

/// The contents of a token.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Claims {
    sub: UserId,
    /// Unix time, in seconds, from which the token is void.
    exp: i64,
    /// Unix time, in seconds and their fractions, at which it was issued.
    iat: f64,
    /// When the user had last ended all sessions before it was issued, in microseconds of Unix time. So a token is
    /// known to be older than a later end whatever clock stamped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<i64>,
}

impl Claims {
    fn issued(&self) -> Option<DateTime<Utc>> {
        // A double holds Unix time to a quarter of a microsecond, until the year 2106.
        let seconds = self.iat.trunc() as i64;
        let micros = (self.iat.fract() * 1e6).round() as i64;
        DateTime::from_timestamp_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?)
    }
}

/// What a good token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The user who logged in.
    pub user: UserId,
    /// When it was issued, to the microsecond.
    pub issued: DateTime<Utc>,
    /// The last end of all sessions before it, in microseconds of Unix time.
    pub after: Option<i64>,
}

/// Signs and checks tokens.
#[derive(Debug)]
pub struct Tokens {
    clock: SharedClock,
    key: SigningKey,
}

impl Tokens {
    /// Tokens signed with `secret`.
    pub fn new(secret: &[u8], clock: SharedClock) -> Self {
        Self { clock, key: SigningKey::new(secret) }
    }

    /// The same, which also accepts tokens that were signed with `previous`.
    #[must_use]
    pub fn or(self, previous: Option<&[u8]>) -> Self {
        Self { key: self.key.or(previous), ..self }
    }

    /// A token for `user`, who last ended all sessions at `end`, issued at `issued`, good until `expires`.
    pub fn mint(
        &self,
        user: UserId,
        end: Option<DateTime<Utc>>,
        issued: DateTime<Utc>,
        expires: DateTime<Utc>,
    ) -> String {
        let iat = issued.timestamp_micros() as f64 / 1e6;
        let after = end.map(|end| end.timestamp_micros());
        let claims = Claims { sub: user, exp: expires.timestamp(), iat, after };
        let signed = format!("{}.{}", encoded(&Header { alg: Algorithm::HS256 }), encoded(&claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.key.tag(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// Checks the token of a request, the value of its `Authorization`.
    ///
    /// # Errors
    /// When there is none, or it was not signed with our secret, or it has expired.
    pub fn verify(&self, token: Option<&HeaderValue>) -> Result<VerifiedToken, ApiError> {
        let refused = |detail| ApiError::new(Code::Unauthenticated).detail(detail);
        let token = token
            .ok_or_else(|| refused("the request has no Authorization header"))?
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .ok_or_else(|| refused("the Authorization header is not `Bearer <token>`"))?;
        let not_ours = || refused("the token is not one of ours");
        let claims = self.claims(token).ok_or_else(not_ours)?;
        if claims.exp <= self.clock.now().timestamp() {
            return Err(refused("the token has expired"));
        }
        let issued = claims.issued().ok_or_else(not_ours)?;
        Ok(VerifiedToken { user: claims.sub, issued, after: claims.after })
    }

    /// The contents of a token that was signed with our secret, or with the former one.
    fn claims(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !self.key.is_tag(&signature, signed.as_bytes()) {
            return None;
        }
        let (header, claims) = signed.split_once('.')?;
        let Header { alg: Algorithm::HS256 } = decoded(header)?;
        decoded(claims)
    }
}

fn encoded(part: &impl Serialize) -> String {
    let Ok(json) = serde_json::to_vec(part) else { unreachable!("words and numbers are JSON") };
    BASE64_URL_SAFE_NO_PAD.encode(json)
}

fn decoded<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
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
        let minted = tokens.mint(user, None, SystemClock.now(), SystemClock.now());
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

    /// Computed by Python, with the header that most programs write.
    #[test]
    fn a_token_that_another_program_signed_is_ours() {
        let tokens = Tokens::new(b"0123456789abcdef", Arc::new(SystemClock));
        let token = "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3IiwiZXhwIjo0MDAwMDAwMDAwLCJpYXQiOjE3OTUz\
                     OTIwMDAuNSwiYWZ0ZXIiOjcwfQ.-R-lIvqbC47Q561Pd7fm7tu7Ki_5SKuq6lVQBiL2dlI";
        let Some(claims) = tokens.claims(token) else { unreachable!("it is ours") };
        assert_eq!((claims.sub.get(), claims.exp, claims.after), (7, 4_000_000_000, Some(70)));
        assert_eq!(claims.issued(), DateTime::from_timestamp_micros(1_795_392_000_500_000));
    }

    #[test]
    fn a_token_of_the_former_secret_is_ours_while_that_is_named() {
        let (former, secret) = (b"fedcba9876543210".as_slice(), b"0123456789abcdef");
        let tokens = |secret| Tokens::new(secret, Arc::new(SystemClock));
        let Some(user) = UserId::new(7) else { unreachable!("7 is positive") };
        let now = SystemClock.now();
        let minted = |by: Tokens| by.mint(user, None, now, now);
        let old = minted(tokens(former));
        assert!(tokens(secret).claims(&old).is_none());
        assert!(tokens(secret).or(None).claims(&old).is_none());
        let both = || tokens(secret).or(Some(former));
        assert!(both().claims(&old).is_some());
        // It signs with the new one alone, and accepts no third.
        assert!(tokens(secret).claims(&minted(both())).is_some());
        assert!(both().claims(&minted(tokens(b"a third secret..."))).is_none());
    }

    #[test]
    fn the_instant_of_issue_is_kept_to_the_microsecond() {
        let tokens = Tokens::new(b"0123456789abcdef", Arc::new(SystemClock));
        let Some(user) = UserId::new(7) else { unreachable!("7 is positive") };
        let expires = SystemClock.now();
        for second in [0, 1, 1_795_392_000, 4_000_000_000_i64] {
            for fraction in (0..1_000_000).step_by(7_919).chain([1, 499_999, 500_000, 999_999]) {
                let micros = second * 1_000_000 + fraction;
                let issued = DateTime::from_timestamp_micros(micros).unwrap_or_default();
                let minted = tokens.mint(user, None, issued, expires);
                let read = tokens.claims(&minted).and_then(|claims| claims.issued());
                assert_eq!(read, Some(issued), "{micros}");
            }
        }
    }
}
