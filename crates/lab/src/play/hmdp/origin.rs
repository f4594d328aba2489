//! Pages of other origins are kept out. A request that a browser sends without asking first (no JSON, no token) would
//! otherwise reach `POST /user/code`, and what is allowed to this machine without a token is only as safe as the
//! browser on it.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use seckill::http::problem::Code;
use seckill::http::{ApiError, App};

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Refuses what a page of another origin sends, unless the configuration allows the origin.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_allowed = headers.get(header::ORIGIN).is_some_and(|it| app.allowed_origins.contains(it));
    if request.method() != Method::GET && !is_allowed && is_foreign(headers) {
        let detail = "a page of another origin sent this";
        return ApiError::new(Code::Forbidden).detail(detail).into_response();
    }
    next.run(request).await
}

/// Whether a browser says that a page of another origin sent this. Where the page came through a proxy that names the
/// server differently, only the browser knows: so its own word counts first.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let authority = origin.as_ref().and_then(Uri::authority);
    !authority.zip(host).is_some_and(|(authority, host)| authority == host)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_page_is_foreign_by_its_browsers_word_or_by_its_origin() {
        let foreign = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            is_foreign(&headers.chain([(header::HOST, HeaderValue::from_static("a:80"))]).collect())
        };
        // No browser.
        assert!(!foreign(&[]));
        for origin in ["http://a:80", "https://A:80"] {
            assert!(!foreign(&[("origin", origin)]), "{origin}");
        }
        for origin in
            ["http://a", "http://a:81", "http://evil.example", "null", "", "http://a:80@b"]
        {
            assert!(foreign(&[("origin", origin)]), "{origin}");
        }
        // Through a proxy that names another host.
        assert!(!foreign(&[("origin", "http://shop.example"), ("sec-fetch-site", "same-origin")]));
        assert!(!foreign(&[("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site", "what"] {
            assert!(foreign(&[("origin", "http://a:80"), ("sec-fetch-site", site)]), "{site}");
        }
    }
}
