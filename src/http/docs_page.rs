//! `/docs`: a page to browse the API's description, which needs no network. The program carries
//! the files of the page; none is copied for a request.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::OnceCell;
use utoipa_swagger_ui::{Config, Url, serve};

use super::problem::Code;
use super::{ApiError, openapi};

/// `index.html` and what it names.
const NAMES: [&str; 8] = [
    "index.html",
    "index.css",
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

struct PageFile {
    name: &'static str,
    content_type: HeaderValue,
    bytes: Bytes,
    /// Made for the first client that takes it, on a thread where that may take a while.
    gzip: OnceCell<Bytes>,
}

static FILES: LazyLock<Vec<PageFile>> = LazyLock::new(|| {
    let url = Url::from(openapi::PATH);
    let config = Config::new([url])
        // A token in the browser's storage would outlive the page.
        .persist_authorization(false)
        .display_request_duration(true)
        // Otherwise the page shows our document to a validator on the network.
        .validator_url("none");
    let config = Arc::new(config);
    let file = |name| {
        let file = serve(name, Arc::clone(&config)).ok().flatten()?;
        let bytes = match file.bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let content_type = HeaderValue::try_from(file.content_type).ok()?;
        Some(PageFile { name, content_type, bytes, gzip: OnceCell::new() })
    };
    NAMES.into_iter().filter_map(file).collect()
});

fn compressed(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Memory takes what is written.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// Whether gzip is among what `Accept-Encoding` names, with a weight above zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings =
        codings.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

async fn page_file(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return ApiError::new(Code::NotFound).into_response();
    };
    let mut response = if takes_gzip(headers) {
        let make = async || {
            let made = tokio::task::spawn_blocking(|| compressed(&file.bytes)).await;
            made.unwrap_or_default()
        };
        let bytes = file.gzip.get_or_init(make).await.clone();
        ([(header::CONTENT_ENCODING, "gzip")], bytes).into_response()
    } else {
        file.bytes.clone().into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, file.content_type.clone());
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// `/docs`, where the page is, and its files.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/docs", get(async || Redirect::to("/docs/")))
        .route("/docs/", get(async |headers: HeaderMap| page_file("index.html", &headers).await))
        .route(
            "/docs/{name}",
            get(async |Path(name): Path<String>, headers: HeaderMap| {
                page_file(&name, &headers).await
            }),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        let takes = |text: &'static str| {
            let text = HeaderValue::from_static(text);
            takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, text)]))
        };
        assert!(!takes_gzip(&HeaderMap::new()));
        for text in ["gzip", "br, GZIP", "deflate,gzip;q=0.1", "gzip; q=1"] {
            assert!(takes(text), "{text}");
        }
        for text in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0, br", "gzip;q=x", "x-gzip2"] {
            assert!(!takes(text), "{text}");
        }
    }
}
