//! Entries: buyers enter a draw or stand in line, and what is published of a draw.

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::auth::{AdminSession, Anybody, Session};
use super::body::JsonBody;
use super::draw_documents::{Part, READ_WITHIN};
use super::problem::Code;
use super::query::UrlQuery;
use super::vouchers::PathId;
use super::{ApiError, App};
use crate::model::voucher_terms::check_reason;
use crate::model::{
    Draw, DrawService, Entry, InvalidId, Line, PUBLIC_NUMBER, UserId, VoucherId, is_public_number,
};
use crate::store::{Database, ReadCache, Service, draws, entries};

async fn own(app: &App, voucher: VoucherId, buyer: UserId) -> Result<Entry, ApiError> {
    let entry = app.orders.find_entry(voucher, buyer).await?;
    entry.ok_or(ApiError::new(Code::EntryNotFound))
}

/// Enters the draw of a voucher, or stands in line for it: once, however often it is asked for.
#[utoipa::path(post, path = "/api/vouchers/{id}/entries", operation_id = "enter",
    responses(
        (status = 200, body = Entry, description = "the buyer had entered before"),
        (status = 201, body = Entry, description = "entered"),
    ))]
pub async fn enter(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
) -> Result<(StatusCode, Json<Entry>), ApiError> {
    if let Some(entry) = app.orders.enter(voucher, session.user).await? {
        return Ok((StatusCode::CREATED, Json(entry)));
    }
    // From here on the request asks the database by itself.
    let _permit = app.memory().limits.reads.take(None)?;
    // An entry that another request of the buyer's took back meanwhile is found as `left`.
    Ok((StatusCode::OK, Json(own(&app, voucher, session.user).await?)))
}

/// One's own latest entry for a voucher, and the place in line as of a second ago, or a few seconds if the line is long.
#[utoipa::path(get, path = "/api/vouchers/{id}/entries", operation_id = "find_entry",
    responses((status = 200, body = Entry, description = "the entry")))]
pub async fn find(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
) -> Result<Json<Entry>, ApiError> {
    own(&app, voucher, session.user).await.map(Json)
}

/// Leaves the draw, or the line: the place is lost.
///
/// Nobody leaves a draw between the close of its entries and the draw (409 `draw_closed`).
#[utoipa::path(delete, path = "/api/vouchers/{id}/entries", operation_id = "leave",
    responses((status = 204, description = "the buyer waits no longer, or did not")))]
pub async fn leave(
    State(app): State<App>,
    session: Session,
    PathId(voucher): PathId<VoucherId>,
) -> Result<StatusCode, ApiError> {
    app.orders.leave(voucher, session.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A voucher and an entry from the path.
#[derive(Debug)]
pub struct EntryPath(VoucherId, Uuid);

impl<S: Send + Sync> FromRequestParts<S> for EntryPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let no_id = || ApiError::invalid(InvalidId.to_string());
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((voucher, entry)) = path.map_err(|_| no_id())?;
        let voucher = voucher.parse().map_err(|_| no_id())?;
        let entry = entry.parse().map_err(|_| ApiError::invalid("the id of an entry is a UUID"))?;
        Ok(Self(voucher, entry))
    }
}

/// Why an entry is removed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Removal {
    /// why: published with the service of a draw
    #[param(min_length = 1, max_length = 200)]
    reason: String,
}

/// Removes somebody's entry from the draw, or the line, for good: its buyer does not enter this voucher again.
///
/// It can be read by anybody with its reason (`GET …/draw/service`). `entry_not_found`: it does not wait, or no longer.
/// `already_bought`: it was offered the order. Nobody is removed between the close of the entries and the draw (`draw_closed`).
#[utoipa::path(delete, path = "/api/vouchers/{id}/entries/{entry_id}", operation_id = "remove_entry",
    params(("entry_id" = String, Path, format = "uuid", description = "the entry"), Removal),
    responses((status = 204, description = "it waits no longer")))]
pub async fn remove(
    State(app): State<App>,
    AdminSession { user }: AdminSession,
    EntryPath(voucher, entry): EntryPath,
    UrlQuery(Removal { reason }): UrlQuery<Removal>,
) -> Result<StatusCode, ApiError> {
    check_reason(&reason).map_err(ApiError::invalid)?;
    let turn = app.database.steps_of(voucher).await?;
    entries::remove(&turn, voucher, entry, &reason, user).await?;
    drop(turn);
    app.memory().lines.forget(voucher);
    // With the last one who waits it changes who may buy.
    app.purchases.voucher_changed(voucher);
    Ok(StatusCode::NO_CONTENT)
}

/// What is published of the draw of a voucher: the seed's hash from the first moment, the entries once they are closed,
/// the seed and the places once they are drawn. From then on it never changes.
///
/// `not_found`: the voucher has no draw.
#[utoipa::path(get, path = "/api/vouchers/{id}/draw", operation_id = "find_draw",
    responses(
        (status = 200, body = Draw, description = "at most a second old, with an `ETag`"),
        (status = 304, description = "the client has it, by its `If-None-Match`"),
    ))]
pub async fn draw(
    State(app): State<App>,
    from: Anybody,
    PathId(voucher): PathId<VoucherId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    document(&app, &from, (voucher, Part::Draw), &headers).await
}

/// What became of the entries of the draw of a voucher: who was offered an order, and who left, in the order of their places; and
/// those that an administrator removed, and why.
///
/// `not_found`: the voucher has no draw.
#[utoipa::path(get, path = "/api/vouchers/{id}/draw/service", operation_id = "find_draw_service",
    responses(
        (status = 200, body = DrawService, description = "at most a second old, or more if it is long, with an `ETag`"),
        (status = 304, description = "the client has it, by its `If-None-Match`"),
    ))]
pub async fn draw_service(
    State(app): State<App>,
    from: Anybody,
    PathId(voucher): PathId<VoucherId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    document(&app, &from, (voucher, Part::Service), &headers).await
}

async fn document(
    app: &App,
    from: &Anybody,
    of: (VoucherId, Part),
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    app.admit_anybody(from)?;
    let draws = &app.memory().draws;
    let last = draws.last(&of);
    // It waits for no document that is read, however many do.
    if let Some(document) = last.iter().flatten().find(|document| document.is_final) {
        return Ok(document.clone().answer(headers));
    }
    // A request for a made-up voucher, or for one without a draw, waits for no document, and evicts
    // none.
    let has_one = last.is_some()
        || app.purchases.sale(of.0).await?.is_some_and(|sale| sale.voucher.draw_time.is_some());
    let document = if has_one { draws.get_or_recent(of, READ_WITHIN).await? } else { None };
    let document =
        document.ok_or_else(|| ApiError::new(Code::NotFound).detail("this voucher has no draw"))?;
    Ok(document.answer(headers))
}

/// Lines that are remembered, and administrators who may wait for a count.
const COUNTED: usize = 128;

/// The counts of [`line`]: one line is counted at a time, and at most once a second.
pub(super) fn lines(database: &Database) -> ReadCache<VoucherId, Option<Line>> {
    let database = database.clone();
    ReadCache::new(Service::Postgres, COUNTED, COUNTED, move |voucher, _| {
        let database = database.clone();
        async move { entries::line(database.pool(), voucher).await }
    })
}

/// How many wait for a voucher, and how far its draw is: as of at most a second ago.
#[utoipa::path(get, path = "/api/vouchers/{id}/line", operation_id = "count_line",
    responses((status = 200, body = Line, description = "the numbers")))]
pub async fn line(
    State(app): State<App>,
    _: AdminSession,
    PathId(voucher): PathId<VoucherId>,
) -> Result<Json<Line>, ApiError> {
    let line = app.memory().lines.get(voucher).await?;
    line.map(Json).ok_or(ApiError::new(Code::VoucherNotFound))
}

/// The public number of a draw.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NumberBody {
    /// Drand's randomness in hex, lower case; of another source all its digits; neither with leading zeros: each number has
    /// one spelling.
    #[schema(pattern = "^(0|[1-9a-f][0-9a-f]{0,199})$", example = "7f3a90")]
    pub number: String,
}

/// Tells the public number that goes into a draw, once its source has published it: once, while the sale is on.
///
/// `draw_open`: the entries are not closed, or the number is not published yet. `draw_closed`: the draw has another number, or takes
/// none. `not_found`: the voucher has no draw. While the sale is paused or over, nothing is drawn.
#[utoipa::path(put, path = "/api/vouchers/{id}/draw", operation_id = "tell_number",
    request_body = NumberBody,
    responses((status = 204, description = "the draw has this number")))]
pub async fn tell_number(
    State(app): State<App>,
    AdminSession { user }: AdminSession,
    PathId(voucher): PathId<VoucherId>,
    JsonBody(NumberBody { number }): JsonBody<NumberBody>,
) -> Result<StatusCode, ApiError> {
    if !is_public_number(&number) {
        return Err(ApiError::invalid(PUBLIC_NUMBER));
    }
    let turn = app.database.steps_of(voucher).await?;
    draws::tell_number(&turn, voucher, &number, Some(user)).await?;
    app.memory().lines.forget(voucher);
    Ok(StatusCode::NO_CONTENT)
}
