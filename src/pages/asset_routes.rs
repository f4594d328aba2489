//! The routes of what pages load.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::assets::ICON;
use super::site::Site;
use crate::http::ApiError;
use crate::http::problem::Code;

/// An asset. During a rolling update a page of the other release asks with another version: it gets the
/// file of this one, to be used once.
pub(super) async fn file(
    State(site): State<Arc<Site>>,
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(file) = site.assets.find(&name) else {
        return ApiError::new(Code::NotFound).into_response();
    };
    let is_current = version == site.assets.version;
    let kept = if is_current { "public, max-age=31536000, immutable" } else { "no-store" };
    let mut response = file.answer(&headers).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    response
}

/// The icon, at the address that browsers try by themselves.
pub(super) async fn icon(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let Some(icon) = site.assets.find(ICON) else { unreachable!("every site has {ICON}") };
    let mut response = icon.answer(&headers).await;
    let kept = HeaderValue::from_static("public, max-age=86400");
    response.headers_mut().insert(header::CACHE_CONTROL, kept);
    response
}
