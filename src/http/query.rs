//! Query strings.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderName, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::{IntoParams, PartialSchema};

use super::ApiError;
use super::schemas::{Id, PageSize};

/// A query string that has the members of `T`.
#[derive(Debug)]
pub struct UrlQuery<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        let wrong = |error: QueryRejection| ApiError::invalid(error.body_text());
        query.map(|Query(query)| Self(query)).map_err(wrong)
    }
}

/// Which part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page<T: PartialSchema> {
    /// only ids below this
    #[param(value_type = Option<Id>)]
    pub before: Option<T>,
    /// 1 to 100, 20 when left out
    #[serde(default)]
    #[param(value_type = Option<PageSize>)]
    pub limit: PageLimit,
}

/// How many rows of a list at most: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "i64")]
pub struct PageLimit(pub(super) i64);

impl TryFrom<i64> for PageLimit {
    type Error = &'static str;
    fn try_from(limit: i64) -> Result<Self, &'static str> {
        let limit = (1..=100).contains(&limit).then_some(Self(limit));
        limit.ok_or("it must be 1 to 100")
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(20)
    }
}

/// The next page's address (RFC 8288), if a full page suggests that there is one. `path` ends where the last id of this page follows.
pub(super) fn next_page(
    path: &str,
    PageLimit(limit): PageLimit,
    ids: impl ExactSizeIterator<Item = String>,
) -> Option<[(HeaderName, String); 1]> {
    let is_full = i64::try_from(ids.len()).is_ok_and(|count| count >= limit);
    let last = ids.last().filter(|_| is_full)?;
    Some([(header::LINK, format!("<{path}{last}&limit={limit}>; rel=\"next\""))])
}
