//! Every route, and what happens around them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, Path, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use super::problem::{self, RUNG_NOT_FOUND};
use super::rung_service::RungService;
use super::state::{FIRST_STOCK, LabState};
use seckill::http::problem::Code;
use seckill::http::{ApiError, with_common_layers};
use seckill::model::{UserId, VoucherId};
use seckill::purchase::audit::VoucherAudit;

/// The most that is put on sale at once.
const MAX_STOCK: i32 = 1_000_000;

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

type Lab = Shared<Arc<LabState>>;
type Segments<T> = Result<Path<T>, PathRejection>;

/// The lab's API.
pub(super) fn router(state: Arc<LabState>) -> Router {
    let routes = Router::new()
        .route("/", get(index))
        .route("/lab", get(index))
        .route("/lab/{rung}/vouchers", post(put_on_sale))
        .route("/lab/{rung}/vouchers/{id}", get(books))
        .route("/lab/{rung}/vouchers/{id}/orders", post(buy).get(status))
        .with_state(state)
        .fallback(|| async { ApiError::new(Code::NotFound).detail("GET /lab says what there is") })
        .method_not_allowed_fallback(|| async { ApiError::new(Code::MethodNotAllowed) });
    with_common_layers(routes)
}

/// The rungs, each with its idea and a command that buys.
async fn index(Shared(state): Lab) -> Response {
    let rung = |service: &Arc<RungService>| {
        let rung = service.rung;
        json!({
            "rung": rung.id,
            "idea": rung.line("Idea"),
            "keeps": rung.claims,
            "breaks_in": rung.breaks,
        })
    };
    let mut rungs: Vec<_> = state.services.iter().map(rung).collect();
    for (rung, on_sale) in rungs.iter_mut().zip(state.on_sale()) {
        rung["voucher_id"] = json!(on_sale.voucher);
        rung["buy"] = json!(on_sale.curl);
    }
    let text = format!("{:#}\n", json!({ "rungs": rungs }));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// What may be said of a new voucher.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLabVoucher {
    stock: Option<i32>,
}

/// Puts a voucher on sale. The content type is not looked at: `curl -d` says that JSON is a form.
async fn put_on_sale(
    Shared(state): Lab,
    rung: Segments<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let service = service(&state, &rung.map_err(unreadable)?.0)?;
    let arriving = timeout(ARRIVES_WITHIN, Bytes::from_request(request, &())).await;
    let body = arriving.map_err(|_| ApiError::invalid("the body did not arrive in time"))?;
    let body = body.map_err(|_| ApiError::invalid("the body broke off"))?;
    let new: NewLabVoucher = match body.trim_ascii() {
        b"" => NewLabVoucher::default(),
        // serde would take an array for a struct, member by member.
        [b'{', ..] => serde_json::from_slice(&body)
            .map_err(|error| ApiError::invalid(format!("the body is not as expected: {error}")))?,
        _ => return Err(ApiError::invalid("the body is not a JSON object")),
    };
    let stock = new.stock.unwrap_or(FIRST_STOCK);
    if !(0..=MAX_STOCK).contains(&stock) {
        return Err(ApiError::invalid(format!("stock must lie between 0 and {MAX_STOCK}")));
    }
    let voucher = service.put_on_sale(stock).await?;
    let body = json!({
        "voucher_id": voucher,
        "rung": service.rung.id,
        "initial_stock": stock,
        "stock": stock,
    });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// A voucher's books, and what they show.
#[derive(Debug, Serialize)]
struct BooksBody {
    rung: &'static str,
    oversold: i64,
    duplicates: i64,
    #[serde(flatten)]
    audit: VoucherAudit,
}

async fn books(
    Shared(state): Lab,
    segments: Segments<(String, String)>,
) -> Result<Json<BooksBody>, ApiError> {
    let (service, voucher) = service_and_voucher(&state, segments)?;
    let audit = service.books(voucher).await?;
    let (oversold, duplicates) = (audit.oversold(), audit.duplicates());
    Ok(Json(BooksBody { rung: service.rung.id, oversold, duplicates, audit }))
}

/// What a buyer hears of an order, or of one that is not decided yet.
#[derive(Debug, Serialize)]
struct LabOrder {
    /// A string, as everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<String>,
    voucher_id: VoucherId,
    user_id: UserId,
}

impl LabOrder {
    /// `decided` is the status where there is an order.
    fn answer(
        decided: StatusCode,
        order: Option<i64>,
        voucher_id: VoucherId,
        user_id: UserId,
    ) -> (StatusCode, Json<Self>) {
        let status = if order.is_some() { decided } else { StatusCode::ACCEPTED };
        let order_id = order.map(|order| order.to_string());
        (status, Json(Self { order_id, voucher_id, user_id }))
    }
}

async fn buy(
    Shared(state): Lab,
    segments: Segments<(String, String)>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<LabOrder>), ApiError> {
    let (service, voucher_id) = service_and_voucher(&state, segments)?;
    service.check(voucher_id).await?;
    let user_id = state.strangers.who(&headers)?;
    let place = Arc::clone(&state.places).try_acquire_owned();
    let place = place.map_err(|_| problem::unavailable("too many purchases are under way"))?;
    // A task of its own: a purchase that began runs to its end if the buyer leaves.
    let purchase = state.purchases.spawn(async move {
        let bought = service.buy(user_id, voucher_id).await;
        drop(place);
        bought
    });
    let order = purchase.await.map_err(|_| ApiError::new(Code::Internal))??;
    Ok(LabOrder::answer(StatusCode::CREATED, order, voucher_id, user_id))
}

/// What became of a purchase: the same answers, but for a 200 in place of a 201.
async fn status(
    Shared(state): Lab,
    segments: Segments<(String, String)>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<LabOrder>), ApiError> {
    let (service, voucher_id) = service_and_voucher(&state, segments)?;
    service.check(voucher_id).await?;
    let user_id = state.strangers.who(&headers)?;
    let order = service.status(user_id, voucher_id).await?;
    Ok(LabOrder::answer(StatusCode::OK, order, voucher_id, user_id))
}

fn service_and_voucher(
    state: &LabState,
    segments: Segments<(String, String)>,
) -> Result<(Arc<RungService>, VoucherId), ApiError> {
    let Path((rung, voucher)) = segments.map_err(unreadable)?;
    let service = service(state, &rung)?;
    let voucher = voucher.parse();
    Ok((service, voucher.map_err(|error| ApiError::invalid(format!("the voucher: {error}")))?))
}

fn service(state: &LabState, name: &str) -> Result<Arc<RungService>, ApiError> {
    let not_here = |why: String| ApiError::new(&RUNG_NOT_FOUND).detail(why);
    let rung = ladder::find(name).map_err(|unknown| not_here(unknown.to_string()))?;
    let service = state.services.iter().find(|service| service.rung.id == rung.id);
    service.cloned().ok_or_else(|| not_here(format!("{} is not sold by here", rung.id)))
}

fn unreadable(rejection: PathRejection) -> ApiError {
    ApiError::invalid(rejection.body_text())
}
