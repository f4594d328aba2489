//! `/docs`: a page to browse the API's description, which needs no network. The program carries
//! the files of the page; none is copied for a request.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use utoipa_swagger_ui::{Config, Url, serve};

use super::problem::Code;
use super::static_file::StaticFile;
use super::{ApiError, openapi};

/// The page is ours, because that of Swagger UI knows neither phones nor the way back.
const OURS: [(&str, &str, &str); 2] = [
    ("index.html", "text/html; charset=utf-8", include_str!("../../web/docs/index.html")),
    ("index.css", "text/css; charset=utf-8", include_str!("../../web/docs/index.css")),
];

/// What it names of Swagger UI.
const NAMES: [&str; 6] = [
    "swagger-ui.css",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "swagger-initializer.js",
    "favicon-16x16.png",
    "favicon-32x32.png",
];

/// What the page loads is ours. Its icons are `data:` addresses in its style sheet; the digest is that
/// of the one style element that its script makes, the logo's.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; \
     style-src 'self' 'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; \
     img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

static FILES: LazyLock<Vec<(&str, StaticFile)>> = LazyLock::new(|| {
    let url = Url::from(format!("..{}", openapi::PATH));
    let config = Config::new([url])
        // A token in the browser's storage would outlive the page.
        .persist_authorization(false)
        .display_request_duration(true)
        // Otherwise the page shows our document to a validator on the network.
        .validator_url("none");
    let config = Arc::new(config);
    let file = |name| {
        let Ok(Some(file)) = serve(name, Arc::clone(&config)) else {
            unreachable!("the library has no file {name}")
        };
        let bytes = match file.bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let Ok(content_type) = HeaderValue::try_from(file.content_type) else {
            unreachable!("{name} has no content type")
        };
        (name, StaticFile::new(content_type, bytes))
    };
    let ours = OURS.map(|(name, content_type, text)| {
        let content_type = HeaderValue::from_static(content_type);
        (name, StaticFile::new(content_type, Bytes::from_static(text.as_bytes())))
    });
    ours.into_iter().chain(NAMES.into_iter().map(file)).collect()
});

async fn page_file(name: &str, headers: &HeaderMap) -> Response {
    let Some((_, file)) = FILES.iter().find(|(known, _)| *known == name) else {
        return ApiError::new(Code::NotFound).into_response();
    };
    let mut response = file.answer(headers).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    response
}

/// `/docs`, where the page is, and its files.
pub(super) fn routes() -> Router {
    let page = async |headers: HeaderMap| page_file("index.html", &headers).await;
    let file =
        async |Path(name): Path<String>, headers: HeaderMap| page_file(&name, &headers).await;
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(page))
        .route("/docs/{name}", get(file))
}
