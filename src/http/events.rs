//! Server-sent events: what changes in the sales, as it changes.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use futures_util::stream::unfold;
use rand::RngExt;
use tokio::sync::watch;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::address::ClientAddress;
use super::auth::Anybody;
use super::event_hub::{Newest, Topic};
use super::limits::StreamPermit;
use super::problem::Code;
use super::vouchers::PathId;
use super::{ApiError, App};
use crate::model::{Clock, VoucherId};

/// After so much silence the time is sent. So the server notices listeners that are gone: it closes a
/// connection that takes nothing for 20 seconds.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// When a client whose stream ended opens another one, in milliseconds: not all at one moment.
const RETRY_MS: std::ops::Range<u32> = 1000..4000;

/// `Retry-After` when there are as many streams as there may be.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(30);

const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    // Otherwise nginx keeps events back until it has a buffer full of them.
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
];

/// An event as a reader of the stream has it.
#[derive(ToSchema)]
#[allow(dead_code)] // only described
struct StreamEvent {
    event: EventName,
    /// JSON: a `VoucherEvent` or a `TimeEvent`.
    #[schema(content_media_type = "application/json")]
    data: String,
    /// Of the first event: how many milliseconds after the stream's end another one is to be opened.
    #[schema(value_type = i32, minimum = 1000, maximum = 3999, required = false)]
    retry: Option<u32>,
}

/// What an event tells of.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)] // only described
enum EventName {
    /// A voucher: `data` is a `VoucherEvent`.
    Voucher,
    /// The time: `data` is a `TimeEvent`.
    Time,
}

/// What time it is by the clock that sales go by.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // only described
pub(super) struct TimeEvent {
    now: DateTime<Utc>,
}

/// One listener's stream.
struct EventStream {
    app: App,
    newest: watch::Receiver<Newest>,
    /// The version that was sent last; `None`: nothing was sent yet.
    sent: Option<u64>,
    _permit: StreamPermit,
}

impl EventStream {
    /// What to send next; `None`: the hub is closed.
    async fn next(&mut self) -> Option<Bytes> {
        let Some(sent) = self.sent else {
            self.sent = Some(0);
            let retry = rand::rng().random_range(RETRY_MS);
            return Some(format!("retry: {retry}\n{}", self.time()).into());
        };
        loop {
            let missed = self.newest.borrow_and_update().after(sent);
            if let Some((version, event)) = missed {
                self.sent = Some(version);
                return Some(event);
            }
            match timeout(HEARTBEAT_EVERY, self.newest.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_closed)) => return None,
                Err(_elapsed) => return Some(self.time().into()),
            }
        }
    }

    /// The time as an event. The `now` of a voucher's event may be long past.
    fn time(&self) -> String {
        let now = self.app.purchases.clock().now();
        let now = now.to_rfc3339_opts(SecondsFormat::Micros, true);
        format!("event: time\ndata: {{\"now\":\"{now}\"}}\n\n")
    }
}

async fn stream(app: &App, client: ClientAddress, topic: Topic) -> Result<Response, ApiError> {
    let full = || ApiError::unavailable().retry_after(RETRY_WHEN_FULL);
    let permit = app.memory().limits.admit_stream(client).ok_or_else(full)?;
    let newest = app.memory().events.subscribe(topic).await?;
    let newest = newest.ok_or(ApiError::new(Code::VoucherNotFound))?;
    let stream = EventStream { app: app.clone(), newest, sent: None, _permit: permit };
    let body = unfold(stream, async |mut stream| {
        let next = stream.next().await?;
        Some((Ok::<_, Infallible>(next), stream))
    });
    Ok((HEADERS, Body::from_stream(body)).into_response())
}

/// Events of the 20 newest vouchers, also of those that are created meanwhile.
///
/// Server-sent events. First comes the time (`event: time`, `data: {"now": …}`), then each voucher as it is
/// (`event: voucher`), then each that changes, at most twice a second. `now` of a voucher is when it had
/// changed. A reader who is slow gets the newest state and not what was between. After 15 seconds of
/// silence comes the time. The stream ends when the server stops; `retry` says when to open another one. When there are as many
/// streams as there may be, in all or of one address, the answer is 503.
#[utoipa::path(get, path = "/api/events", operation_id = "watch_vouchers",
    responses((status = 200, content_type = "text/event-stream", body = StreamEvent,
        description = "events, until the client leaves; the schema is that of each event")))]
pub async fn of_all(State(app): State<App>, client: ClientAddress) -> Result<Response, ApiError> {
    stream(&app, client, Topic::FirstPage).await
}

/// Events of one voucher.
///
/// As `GET /api/events`.
#[utoipa::path(get, path = "/api/vouchers/{id}/events", operation_id = "watch_voucher",
    responses((status = 200, content_type = "text/event-stream", body = StreamEvent,
        description = "events, until the client leaves; the schema is that of each event")))]
pub async fn of_voucher(
    State(app): State<App>,
    from: Anybody,
    PathId(id): PathId<VoucherId>,
) -> Result<Response, ApiError> {
    app.sale_for(&from, id).await?;
    stream(&app, from.address, Topic::Voucher(id)).await
}
