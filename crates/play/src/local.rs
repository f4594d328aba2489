//! Whether a client is on this machine. Only such a client may be the administrator of a demonstration,
//! which is logged in to without a text message.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use seckill::http::address::X_FORWARDED_FOR;

/// Whether the client asked for this machine by a loopback name, and no proxy says that it passed the
/// request on. A web site elsewhere that gives its own name our address (DNS rebinding) did not.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.parse::<Authority>().ok();
    let is_loopback = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    });
    is_loopback
        && !headers.contains_key(X_FORWARDED_FOR)
        && !headers.contains_key(header::FORWARDED)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_a_request_to_a_loopback_name_without_a_proxy_is_local() {
        let local = |host: &'static str, more: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            headers.extend(more.map(|name| {
                (HeaderName::from_static(name), HeaderValue::from_static("192.0.2.1"))
            }));
            is_local(&headers)
        };
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:80"] {
            assert!(local(host, None), "{host}");
            assert!(!local(host, Some("x-forwarded-for")) && !local(host, Some("forwarded")));
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080"] {
            assert!(!local(host, None), "{host}");
        }
        for host in ["0.0.0.0", "192.0.2.1:8080", "[::]", "a b", "user@localhost@evil.example"] {
            assert!(!local(host, None), "{host}");
        }
        assert!(!is_local(&HeaderMap::new()));
    }
}
