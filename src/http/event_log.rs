//! What happened, for programs: told to the operator's own service, and listed.

use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use serde::Deserialize;
use serde_json::json;

use super::auth::AdminSession;
use super::query::{PageLimit, UrlQuery, next_page};
use super::schemas::PageSize;
use super::webhook::Webhook;
use super::{ApiError, App};
use crate::model::Refusal;
use crate::orders::event_sender::EventReceiver;
use crate::store::event_log::{self, Event};
use crate::store::has_distributed_orders;

/// When a client that asks for events that cannot be is to ask again.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// `{"events": […]}` is answered with any 2xx. Each event may come more than once, by the same id.
#[async_trait]
impl EventReceiver for Webhook {
    fn name(&self) -> &'static str {
        "programs"
    }

    async fn take(&self, events: &[Event]) -> Result<(), String> {
        self.send(&json!({ "events": events }), 1).await.map(drop)
    }
}

/// Which events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    #[serde(default)]
    after: i64,
    #[serde(default)]
    limit: PageLimit,
}

/// What happened to orders and vouchers, the oldest first: what is told to `SECKILL_EVENTS_URL`, also if none is set.
///
/// An event is here once no earlier one can come any more, mostly within a second. 503 with `Retry-After: 3600`: the data is
/// distributed over Citus, where events of several vouchers have no common order.
#[utoipa::path(get, path = "/api/events/log", operation_id = "list_events",
    params(
        ("after" = Option<i64>, Query, description = "only what comes after this `position`; from the beginning when left out"),
        ("limit" = Option<PageSize>, Query, description = "1 to 100, 20 when left out"),
    ),
    responses((status = 200, body = [Event], description = "a page",
        headers(("Link" = String, description = "the next page, if there may be one")))))]
pub async fn list(
    State(app): State<App>,
    _: AdminSession,
    UrlQuery(EventsQuery { after, limit }): UrlQuery<EventsQuery>,
) -> Result<(Option<[(HeaderName, String); 1]>, Json<Vec<Event>>), ApiError> {
    let pool = app.database.pool();
    if has_distributed_orders(pool).await? {
        let why = "there are no events of data that is distributed over Citus";
        return Err(Refusal::unavailable(ASK_AGAIN).detail(why).into());
    }
    let complete_to = event_log::complete_to(pool).await?;
    let events = event_log::list(pool, after, complete_to, limit.0).await?;
    let positions = events.iter().map(|event| event.position.to_string());
    Ok((next_page("/api/events/log?after=", limit, positions), Json(events)))
}
