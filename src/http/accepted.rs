//! What a client accepts (the headers `Accept`, `Accept-Encoding` and `Accept-Language`), and what it has (`If-None-Match`).

use axum::http::{HeaderMap, HeaderName};

/// The items of such a header with their weights, without those that the client does not take (RFC 9110, section 12.4.2).
pub(crate) fn accepted(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&str, f32)> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let items = values.flat_map(|value| value.split(',')).map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        (name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
    });
    items.filter(|(_, weight)| *weight > 0.0)
}

/// Whether `what` is among the items of such a header.
pub(crate) fn accepts(headers: &HeaderMap, name: HeaderName, what: &str) -> bool {
    accepted(headers, name).any(|(item, _)| item.eq_ignore_ascii_case(what))
}
