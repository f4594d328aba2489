//! Every route, and what happens around them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::body;
use super::problem::{Code, Problem};
use super::rung_service::RungService;
use super::state::{FIRST_STOCK, State};
use crate::ladder;
use crate::model::{UserId, VoucherId};
use crate::seckill::audit::VoucherAudit;

/// The most that is put on sale at once.
const MAX_STOCK: i32 = 1_000_000;

type Lab = Shared<Arc<State>>;
type Segments<T> = Result<Path<T>, PathRejection>;

/// The lab's API.
pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/lab", get(index))
        .route("/lab/{rung}/vouchers", post(put_on_sale))
        .route("/lab/{rung}/vouchers/{id}", get(books))
        .route("/lab/{rung}/vouchers/{id}/orders", post(buy))
        .with_state(state)
        .fallback(|| async { Problem::new(Code::NotFound).detail("GET /lab says what there is") })
        .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
        .layer(from_fn(around))
}

/// Every body is small and read to its end, and a panic becomes an answer.
async fn around(request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(async {
        match body::whole(request).await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    });
    answered.catch_unwind().await.unwrap_or_else(|_| {
        // The panic's own message is on standard error.
        Problem::new(Code::Internal).into_response()
    })
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
struct NewVoucher {
    stock: Option<i32>,
}

/// Puts a voucher on sale. `curl -d` says that JSON is a form: what it is called matters not.
async fn put_on_sale(
    Shared(state): Lab,
    rung: Segments<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let service = service(&state, &rung.map_err(unreadable)?.0)?;
    let new: NewVoucher = match body.trim_ascii() {
        b"" => NewVoucher::default(),
        // serde would take an array for a struct, member by member.
        [b'{', ..] => serde_json::from_slice(&body)
            .map_err(|error| Problem::invalid(format!("the body is not as expected: {error}")))?,
        _ => return Err(Problem::invalid("the body is not a JSON object")),
    };
    let stock = new.stock.unwrap_or(FIRST_STOCK);
    if !(0..=MAX_STOCK).contains(&stock) {
        return Err(Problem::invalid(format!("stock must lie between 0 and {MAX_STOCK}")));
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
struct Books {
    rung: &'static str,
    oversold: i64,
    duplicates: i64,
    #[serde(flatten)]
    audit: VoucherAudit,
}

async fn books(
    Shared(state): Lab,
    segments: Segments<(String, String)>,
) -> Result<Json<Books>, Problem> {
    let (service, voucher) = service_and_voucher(&state, segments)?;
    let audit = service.books(voucher).await?;
    let (oversold, duplicates) = (audit.oversold(), audit.duplicates());
    Ok(Json(Books { rung: service.rung.id, oversold, duplicates, audit }))
}

/// What a buyer is told who got one.
#[derive(Debug, Serialize)]
struct Ordered {
    /// A string, as everywhere.
    order_id: String,
    voucher_id: VoucherId,
    user_id: UserId,
}

async fn buy(
    Shared(state): Lab,
    segments: Segments<(String, String)>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Ordered>), Problem> {
    let (service, voucher_id) = service_and_voucher(&state, segments)?;
    service.check(voucher_id).await?;
    let user_id = state.strangers.who(&headers)?;
    let place = Arc::clone(&state.places).try_acquire_owned();
    let place = place.map_err(|_| Problem::unavailable("too many purchases are under way"))?;
    // A task of its own: a purchase that began runs to its end if the buyer leaves.
    let purchase = state.purchases.spawn(async move {
        let bought = service.buy(user_id, voucher_id).await;
        drop(place);
        bought
    });
    let order = purchase.await.map_err(|_| Problem::new(Code::Internal))??;
    let ordered = Ordered { order_id: order.to_string(), voucher_id, user_id };
    Ok((StatusCode::CREATED, Json(ordered)))
}

fn service_and_voucher(
    state: &State,
    segments: Segments<(String, String)>,
) -> Result<(Arc<RungService>, VoucherId), Problem> {
    let Path((rung, voucher)) = segments.map_err(unreadable)?;
    let service = service(state, &rung)?;
    let voucher = voucher.parse();
    Ok((service, voucher.map_err(|error| Problem::invalid(format!("the voucher: {error}")))?))
}

fn service(state: &State, name: &str) -> Result<Arc<RungService>, Problem> {
    let not_here = |why: String| Problem::new(Code::RungNotFound).detail(why);
    let rung = ladder::find(name).map_err(|unknown| not_here(unknown.to_string()))?;
    let service = state.services.iter().find(|service| service.rung.id == rung.id);
    service.cloned().ok_or_else(|| not_here(format!("{} is not sold by here", rung.id)))
}

fn unreadable(rejection: PathRejection) -> Problem {
    Problem::invalid(rejection.body_text())
}
