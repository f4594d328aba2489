//! What every answer tells a browser: to run, frame and send along nothing.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

const ON_EVERY_ANSWER: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Adds the headers to an answer. A page that needs more has said so in a policy of its own.
pub(super) fn add(headers: &mut HeaderMap) {
    for (name, value) in ON_EVERY_ANSWER {
        headers.entry(name).or_insert(value);
    }
}
