//! What the page asks for. Not in the OpenAPI document, which describes the production API.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};

use super::director::{NewShow, ShowDirector};
use super::show::CrowdKind;
use super::{html, place};
use crate::login::is_here;
use seckill::http::address::{ClientAddress, Peer};
use seckill::http::body::JsonBody;
use seckill::http::problem::Code;
use seckill::http::{ApiError, App, Language, Who, limited};
use seckill::pages::Site;

/// `Retry-After` when too many pages watch.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(10);

const STREAM: [(HeaderName, HeaderValue); 2] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// What the handlers of the stage reach.
#[derive(Debug, Clone)]
pub(crate) struct StageState {
    pub(crate) app: App,
    pub(crate) stage: Arc<ShowDirector>,
}

impl FromRef<StageState> for App {
    fn from_ref(state: &StageState) -> Self {
        state.app.clone()
    }
}

/// The page, and what it asks for.
pub(crate) fn routes(state: StageState, site: &Arc<Site>) -> Router {
    let places = Router::new().route("/api/stage/place", get(place::find));
    let page = html::routes(site, state.stage.size());
    Router::new()
        .route("/api/stage/shows", post(create))
        .route("/api/stage/kill", post(kill))
        .route("/api/stage/events", get(events))
        .merge(limited(&state.app, |limits| &limits.reads, Who::Anybody, places))
        .with_state(state)
        .merge(page)
}

/// A show as it is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowBody {
    crowd: CrowdKind,
    /// A rung that meets the same crowd.
    against: Option<String>,
}

/// A show that is under way.
#[derive(Debug, Serialize)]
struct StartedBody {
    number: u64,
}

/// Begins a show, or finds the one that is under way.
async fn create(
    State(StageState { stage, .. }): State<StageState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<ShowBody>,
) -> Result<(StatusCode, Json<StartedBody>), ApiError> {
    check_place(peer, &headers)?;
    let against = body.against.as_deref().map(ladder::find).transpose();
    let against = against.map_err(|error| ApiError::invalid(error.to_string()))?;
    if body.crowd != CrowdKind::Rush && against.is_some() {
        return Err(ApiError::invalid("a design is compared under a rush"));
    }
    let title = Language::preferred(&headers)
        .choose("On the stage: 100 yuan for 80", "演示：100 元券仅售 80 元");
    let started = stage.start(NewShow { crowd: body.crowd, against, title });
    let number = started.ok_or_else(ApiError::unavailable)?;
    Ok((StatusCode::ACCEPTED, Json(StartedBody { number })))
}

/// Kills one of the two servers that sell, with SIGKILL. Nothing where there are none.
async fn kill(
    State(StageState { stage, .. }): State<StageState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    check_place(peer, &headers)?;
    let is_killed = stage.watchers.kill();
    Ok(if is_killed { StatusCode::ACCEPTED } else { StatusCode::NO_CONTENT })
}

/// What happens on the stage is decided here, from its own page.
fn check_place(peer: Option<Extension<Peer>>, headers: &HeaderMap) -> Result<(), ApiError> {
    if is_here(peer.as_ref().map(|Extension(peer)| peer), headers) && is_from_here(headers) {
        return Ok(());
    }
    let detail = "a show is begun on the machine on which the server runs, from its own page";
    Err(ApiError::new(Code::Forbidden).detail(detail))
}

/// Whether no page of another site sends this. A browser says where a request comes from; a program says
/// nothing.
fn is_from_here(headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (said("sec-fetch-site"), said("origin")) {
        (Some(site), _) => ["same-origin", "none"].contains(&site),
        (None, Some(origin)) => {
            origin.strip_prefix("http://").is_some_and(|host| said("host") == Some(host))
        }
        (None, None) => true,
    }
}

/// What happens on the stage, as it happens: server-sent events.
async fn events(
    State(StageState { app, stage }): State<StageState>,
    client: ClientAddress,
) -> Result<Response, ApiError> {
    let full = || ApiError::unavailable().retry_after(RETRY_WHEN_FULL);
    // The same shares as those of all streams of events.
    let permit = app.memory().limits.admit_stream(client).ok_or_else(full)?;
    let body = unfold((stage.watchers.admit(), permit), async |(mut watcher, permit)| {
        let next = watcher.next().await?;
        Some((Ok::<_, Infallible>(next), (watcher, permit)))
    });
    Ok((STREAM, Body::from_stream(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_begins_no_show() {
        let from = |said: &[(&'static str, &'static str)]| {
            let all = [("host", "localhost:8080")];
            is_from_here(&HeaderMap::from_iter(all.iter().chain(said).map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            })))
        };
        assert!(from(&[]) && from(&[("origin", "http://localhost:8080")]));
        assert!(from(&[("sec-fetch-site", "same-origin")]) && from(&[("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site", "", "x"] {
            assert!(!from(&[("sec-fetch-site", site)]), "{site}");
        }
        for origin in
            ["http://localhost:8081", "https://localhost:8080", "null", "", "http://evil.example"]
        {
            assert!(!from(&[("origin", origin)]), "{origin}");
        }
    }
}
