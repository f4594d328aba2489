//! The sandbox: a payment gateway for development, on whose page a buyer pays, declines, or pays too late.
//! No money moves. It tells the server by the same signed notifications as an operator's own gateway.

use std::time::Duration;

use async_trait::async_trait;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use maud::html;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::page::HtmlPage;
use super::site::Site;
use crate::http::body::JsonBody;
use crate::http::payments::{NotificationBody, PaymentVerdict, accept};
use crate::http::problem::Code;
use crate::http::{ApiError, App, Language};
use crate::model::{Clock, OrderStatus};
use crate::orders::{GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use crate::store::payments::{self, PaymentId, PaymentStatus};
use crate::store::{StoreError, orders};
use crate::texts;

texts! {
    /// What the page says. `{…}` is filled in by its script.
    Sandbox {
        title: "Sandbox payment", "沙箱支付";
        lead: "A payment page for development. No money moves.", "仅供开发使用的支付页面，不会产生真实扣款。";
        pay: "Pay", "支付";
        decline: "Decline", "拒绝支付";
        pay_late: "Pay too late", "超时后支付";
    }
}

/// The page of this site.
pub(super) fn render(site: &Site, language: Language) -> String {
    let texts = Sandbox::of(language);
    let page = HtmlPage {
        language,
        title: texts.title,
        path: "/sandbox",
        styles: &[],
        libraries: &[],
        modules: &["sandbox.js"],
        texts,
        main: html! {
            h1 { (texts.title) }
            p.lead { (texts.lead) }
        },
    };
    page.render(site)
}

/// The longest delay that a caller may ask for.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// How often a late payment looks whether it is late, and for how long after the time to pay is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOK_FOR: Duration = Duration::from_secs(120);
/// How often it tells the server again that did not take the notification.
const TRIES: u32 = 30;

/// Takes every payment that its page is told to take, and gives everything back at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct SandboxGateway;

#[async_trait]
impl PaymentGateway for SandboxGateway {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, GatewayError> {
        Ok(format!("/sandbox/payments/{}", request.payment))
    }

    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        Ok(())
    }
}

/// The routes of the sandbox's page.
pub fn api(app: App) -> Router {
    Router::new().route("/api/sandbox/payments/{id}", get(find).post(press)).with_state(app)
}

/// A payment as the sandbox's page shows it.
#[derive(Debug, Serialize)]
struct SandboxPayment {
    payment_id: String,
    amount: i64,
    status: PaymentStatus,
    order_status: OrderStatus,
    pay_by: Option<DateTime<Utc>>,
    /// By the clock that payments go by.
    now: DateTime<Utc>,
}

async fn look(app: &App, text: &str) -> Result<(PaymentId, SandboxPayment), ApiError> {
    let id: PaymentId = text.parse().map_err(|_| ApiError::new(Code::NotFound))?;
    let pool = app.database.pool();
    let payment = payments::find(pool, id).await?.ok_or(ApiError::new(Code::NotFound))?;
    let order = orders::find(pool, id.order).await?.ok_or(ApiError::new(Code::NotFound))?;
    let shown = SandboxPayment {
        payment_id: id.to_string(),
        amount: payment.amount,
        status: payment.status,
        order_status: order.status,
        pay_by: order.pay_by,
        now: app.purchases.clock().now(),
    };
    Ok((id, shown))
}

async fn find(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<SandboxPayment>, ApiError> {
    Ok(Json(look(&app, &id).await?.1))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Pay,
    Decline,
    /// Pays when the order is not unpaid any more.
    PayLate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Press {
    action: Action,
    /// The notification comes so much later: for tests.
    #[serde(default)]
    delay_ms: u64,
}

/// A button was pressed. 204: the server was told. 202: it will be.
async fn press(
    State(app): State<App>,
    Path(id): Path<String>,
    JsonBody(press): JsonBody<Press>,
) -> Result<StatusCode, ApiError> {
    let (id, shown) = look(&app, &id).await?;
    let notification = NotificationBody {
        payment_id: shown.payment_id,
        status: match press.action {
            Action::Decline => PaymentVerdict::Failed,
            Action::Pay | Action::PayLate => PaymentVerdict::Succeeded,
        },
        // The same button pressed twice takes money once.
        transaction_id: Some(format!("sandbox-{id}")),
        amount: Some(shown.amount),
    };
    let delay = Duration::from_millis(press.delay_ms).min(MAX_DELAY);
    if press.action != Action::PayLate && delay.is_zero() {
        tell(&app, &notification).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    tokio::spawn(async move {
        sleep(delay).await;
        if press.action == Action::PayLate {
            until_late(&app, id).await;
        }
        for attempt in 1..=TRIES {
            match tell(&app, &notification).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(?error, attempt, "the sandbox tells it again"),
            }
            sleep(Duration::from_secs(1)).await;
        }
    });
    Ok(StatusCode::ACCEPTED)
}

/// Signs what it says, as every gateway does.
async fn tell(app: &App, notification: &NotificationBody) -> Result<(), ApiError> {
    let Some(key) = &app.payment_key else { unreachable!("a sandbox has a key") };
    let Ok(body) = serde_json::to_vec(notification) else { unreachable!("it is always JSON") };
    let signature = key.sign(app.clock.now().timestamp(), &body);
    accept(app, Some(&signature), &body).await
}

/// Waits until the order is not unpaid any more, or nobody cancels it.
async fn until_late(app: &App, id: PaymentId) {
    let mut deadline = Instant::now() + LOOK_FOR;
    loop {
        let order: Result<_, StoreError> = orders::find(app.database.pool(), id.order).await;
        match order {
            Ok(Some(order)) if order.status == OrderStatus::Unpaid => {
                // The longest time to pay is 30 days: only what comes after it is bounded.
                if order.pay_by.is_some_and(|pay_by| app.purchases.clock().now() < pay_by) {
                    deadline = Instant::now() + LOOK_FOR;
                }
            }
            Ok(_) => return,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}
