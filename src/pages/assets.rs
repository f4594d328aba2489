//! The scripts and styles of `web/`. Their addresses carry one digest of all of them: a browser keeps a
//! file for ever, and a module names its neighbours by their plain names.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{Context, SHA256};

use crate::http::ApiError;
use crate::http::problem::Code;
use crate::http::static_file::StaticFile;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Name, media type and bytes of a file of `web/`.
macro_rules! web {
    ($name:literal, $content_type:expr) => {
        ($name, $content_type, include_bytes!(concat!("../../web/", $name)).as_slice())
    };
}

/// Every file that a page may load.
const ASSETS: &[(&str, &str, &[u8])] = &[
    web!("style.css", STYLE),
    web!("page.js", SCRIPT),
    web!("live.js", SCRIPT),
    web!("session.js", SCRIPT),
    web!("orders.js", SCRIPT),
    web!("storefront.js", SCRIPT),
    web!("board.css", STYLE),
    web!("board.js", SCRIPT),
    web!("board_crowd.js", SCRIPT),
    web!("board_form.js", SCRIPT),
    web!("board_login.js", SCRIPT),
    web!("board_plots.js", SCRIPT),
    web!("board_verdict.js", SCRIPT),
    web!("metrics.js", SCRIPT),
    #[cfg(feature = "lab")]
    web!("lab.js", SCRIPT),
    #[cfg(feature = "lab")]
    web!("lab.css", STYLE),
    web!("vendor/uplot.js", SCRIPT),
    web!("vendor/uplot.css", STYLE),
    web!("vendor/uplot-LICENSE.txt", TEXT),
];

static FILES: LazyLock<Vec<(&str, StaticFile)>> = LazyLock::new(|| {
    let file = |(name, content_type, bytes): &(&'static str, &'static str, &'static [u8])| {
        let content_type = HeaderValue::from_static(content_type);
        (*name, StaticFile::new(content_type, Bytes::from_static(bytes)))
    };
    ASSETS.iter().map(file).collect()
});

/// Changes with every file.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut context = Context::new(&SHA256);
    for (name, _, bytes) in ASSETS {
        context.update(name.as_bytes());
        context.update(bytes);
    }
    let digest = context.finish();
    digest.as_ref().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
});

/// Where the asset of this name is.
pub(super) fn address(name: &str) -> String {
    debug_assert!(ASSETS.iter().any(|(known, ..)| *known == name), "{name} is no asset");
    format!("/assets/{}/{name}", *VERSION)
}

/// An asset. During a rolling update a page of the other release asks with another version: it gets the
/// file of this one, to be used once.
pub(super) async fn file(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some((_, file)) = FILES.iter().find(|(known, _)| *known == name) else {
        return ApiError::new(Code::NotFound).into_response();
    };
    let kept = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-store" };
    let mut response = file.answer(&headers).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    response
}
