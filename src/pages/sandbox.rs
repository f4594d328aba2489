//! The sandbox: a payment gateway for development, on whose page a buyer pays, declines, or pays too late.
//! No money moves. It tells the server by the same signed notifications as an operator's own gateway.

use std::time::Duration;

use async_trait::async_trait;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::page::{HtmlPage, PageFiles};
use super::site::Site;
use crate::http::body::JsonBody;
use crate::http::payments::{NotificationBody, NotifiedStatus, accept, status_of};
use crate::http::problem::Code;
use crate::http::{ApiError, App, Language, TextFile, Texts, Who, limited};
use crate::model::{Clock, OrderStatus};
use crate::orders::{AnnounceError, GatewayError, PaymentGateway, PaymentRequest, RefundRequest};
use crate::store::notices::Notice;
use crate::store::payments::{self, PaymentId, PaymentStatus};
use crate::store::{Keys, Redis, StoreError, orders};

/// What the page says. `{…}` is filled in by its script.
static TEXTS: TextFile =
    TextFile::new(concat!(include_str!("sandbox.toml"), include_str!("order_states.toml")));

/// The page of this site.
fn render(site: &Site, language: Language) -> String {
    let texts = TEXTS.of(language);
    let page = HtmlPage {
        modules: &["sandbox.js"],
        main: content(site, texts),
        ..HtmlPage::of("/sandbox", language, texts)
    };
    page.render(site)
}

fn content(site: &Site, texts: &Texts) -> Markup {
    let choices = [
        ("pay", texts["pay"], texts["pay_about"]),
        ("decline", texts["decline"], texts["decline_about"]),
        ("pay_late", texts["pay_late"], texts["pay_late_about"]),
    ];
    html! {
        div.sandbox {
            h1 { (texts["title"]) }
            p.notice { (texts["lead"]) }
            p.message #away role="status" data-kind="bad" hidden { (texts["away"]) }
            p.message #missing role="status" data-kind="bad" hidden { (texts["missing"]) }
            section #payment aria-label=(texts["title"]) hidden {
                dl.payment {
                    div { dt { (texts["amount"]) } dd.amount #amount {} }
                    div { dt { (texts["order"]) } dd.order-id #order {} }
                    div { dt { (texts["order_state"]) } dd #order-state {} }
                    div #left-line { dt { (texts["left"]) } dd.digits #left role="timer" {} }
                }
                p.message #result role="status" tabindex="-1" {}
                ul.choices #choices {
                    @for (action, name, about) in choices {
                        li {
                            button type="button" data-action=(action)
                                class=(if action == "pay" { "primary" } else { "quiet" })
                                aria-describedby={ "about-" (action) } { (name) }
                            p.hint id={ "about-" (action) } { (about) }
                        }
                    }
                }
            }
            p { a #to-orders href={ (site.base.address(site.shop)) "#orders" } { (texts["to_orders"]) } }
        }
    }
}

/// The longest delay that a caller may ask for.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// How often a late payment looks whether it is late, and for how long after the time to pay is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOK_FOR: Duration = Duration::from_secs(120);
/// Notifications that may be on their way at once; one more is refused.
const MAX_LATER: usize = 256;
/// How often it tells the server again that did not take the notification.
const TRIES: u32 = 30;

/// For how long the sandbox knows what a buyer pressed.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Takes every payment that its page is told to take, and gives everything back at once. In Redis, which all servers share, it
/// keeps what buyers pressed.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the types say it
pub struct SandboxGateway {
    pub redis: Redis,
    pub keys: Keys,
}

#[async_trait]
impl PaymentGateway for SandboxGateway {
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError> {
        Ok(format!("/sandbox/payments/{}", request.payment))
    }

    async fn cancel_payment(&self, _: PaymentId) -> Result<(), GatewayError> {
        Ok(())
    }

    async fn payment_status(&self, payment: PaymentId) -> Result<Option<Notice>, GatewayError> {
        let mut get = redis::cmd("GET");
        get.arg(self.keys.sandbox_payment(payment));
        let pressed: Option<String> =
            self.redis.query(&get).await.map_err(|error| GatewayError(error.to_string()))?;
        pressed.map_or(Ok(None), |pressed| status_of(payment, pressed.as_bytes()))
    }

    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        Ok(())
    }
}

/// The page, and what it asks for.
pub(super) fn routes(app: &App, site: &Site) -> Router {
    let api = Router::new().route("/api/sandbox/payments/{id}", get(find).post(press));
    let page = PageFiles::new(|language| render(site, language));
    limited(app, |limits| &limits.reads, Who::Anybody, api)
        .route("/sandbox/payments/{id}", page.route())
        .with_state(app.clone())
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
    let order = orders::find_of_voucher(pool, id.voucher, id.order)
        .await?
        .ok_or(ApiError::new(Code::NotFound))?;
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
    let pay_by = shown.pay_by;
    let notification = NotificationBody {
        payment_id: shown.payment_id,
        status: match press.action {
            Action::Decline => NotifiedStatus::Failed,
            Action::Pay | Action::PayLate => NotifiedStatus::Succeeded,
        },
        // The same button pressed twice takes money once.
        transaction_id: Some(format!("sandbox-{id}")),
        amount: Some(shown.amount),
        return_id: None,
    };
    // Late money is taken when it is told.
    if press.action != Action::PayLate {
        remember(&app, id, &notification).await?;
    }
    let delay = Duration::from_millis(press.delay_ms).min(MAX_DELAY);
    if press.action != Action::PayLate && delay.is_zero() {
        tell(&app, &notification).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    static LATER: Semaphore = Semaphore::const_new(MAX_LATER);
    let permit = LATER.try_acquire().map_err(|_| ApiError::unavailable())?;
    tokio::spawn(async move {
        let _permit = permit;
        sleep(delay).await;
        if press.action == Action::PayLate {
            until_late(&app, id, pay_by).await;
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

/// From now on a server that asks what became of the payment is told this. Money that was taken stays taken.
async fn remember(app: &App, id: PaymentId, pressed: &NotificationBody) -> Result<(), StoreError> {
    let mut set = redis::cmd("SET");
    set.arg(app.keys.sandbox_payment(id)).arg(json(pressed));
    set.arg("EX").arg(REMEMBERED_FOR.as_secs());
    if pressed.status != NotifiedStatus::Succeeded {
        set.arg("NX");
    }
    Ok(app.redis.query(&set).await?)
}

fn json(notification: &NotificationBody) -> Vec<u8> {
    serde_json::to_vec(notification)
        .unwrap_or_else(|error| unreachable!("it is always JSON: {error}"))
}

/// Signs what it says, as every gateway does.
async fn tell(app: &App, notification: &NotificationBody) -> Result<(), ApiError> {
    let Some(key) = &app.payment_key else { unreachable!("a sandbox has a key") };
    let body = json(notification);
    let signature = key.sign(app.clock.now().timestamp(), &body);
    accept(app, Some(&signature), &body).await
}

/// Waits until the time to pay is over, and then until the order is not unpaid any more, or nobody cancels it.
async fn until_late(app: &App, id: PaymentId, pay_by: Option<DateTime<Utc>>) {
    // The database is not asked before that: it may be 30 days.
    while pay_by.is_some_and(|pay_by| app.purchases.clock().now() < pay_by) {
        sleep(LOOK_EVERY).await;
    }
    let deadline = Instant::now() + LOOK_FOR;
    while Instant::now() < deadline {
        let order = orders::find_of_voucher(app.database.pool(), id.voucher, id.order).await;
        if order.is_ok_and(|order| order.is_none_or(|it| it.status != OrderStatus::Unpaid)) {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}
