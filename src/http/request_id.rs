//! The id of a request: it goes through the logs of the balancer and of this server, and to the client.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use rand::RngExt;

/// Carries the id, in the request and in the answer.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A longer id is not taken over.
const MAX_BYTES: usize = 128;

/// The id that the request brought, if it is visible ASCII and not too long; else a new one, 32 hexadecimal
/// digits as nginx makes them.
pub(super) fn of(headers: &HeaderMap) -> HeaderValue {
    match headers.get(X_REQUEST_ID) {
        Some(id) if is_good(id.as_bytes()) => id.clone(),
        _ => fresh(),
    }
}

fn is_good(id: &[u8]) -> bool {
    (1..=MAX_BYTES).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

fn fresh() -> HeaderValue {
    HeaderValue::try_from(hex::encode(rand::rng().random::<[u8; 16]>()))
        .unwrap_or_else(|_| unreachable!("hexadecimal digits are a good header"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_over_where_a_log_can_show_it_and_made_elsewhere() {
        let seen = |id: &[u8]| {
            let id = HeaderValue::from_bytes(id).ok()?;
            Some(of(&HeaderMap::from_iter([(X_REQUEST_ID, id)])))
        };
        let longest = "x".repeat(MAX_BYTES);
        for good in ["a", "7f3b-11 ".trim_end(), longest.as_str()] {
            assert_eq!(seen(good.as_bytes()).as_ref().and_then(|id| id.to_str().ok()), Some(good));
        }
        let too_long = "x".repeat(MAX_BYTES + 1);
        for bad in ["", "a b", "a\tb", "\u{e9}", &too_long] {
            let id = seen(bad.as_bytes()).unwrap_or_else(fresh);
            let is_fresh = id.len() == 32 && id.as_bytes().iter().all(u8::is_ascii_hexdigit);
            assert!(is_fresh, "{bad:?}: {id:?}");
        }
        assert_ne!(of(&HeaderMap::new()), of(&HeaderMap::new()));
    }
}
