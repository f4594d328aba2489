//! A buyer pays, and the payment gateway says what became of it.

use std::time::Duration;

use super::outbox::pause_after;
use super::{AnnounceError, Orders, PaymentRequest};
use crate::model::refusal::{Code, Member};
use crate::model::{OrderStatus, Refusal, UserId};
use crate::purchase::Purchases;
use crate::store::notices::{self, Notice, NoticeOutcome};
use crate::store::orders::OrderKey;
use crate::store::payments::{self, OpenPayment, PaymentId, Pending};
use crate::store::{Database, Stop, StoreError, orders, unmatched_payments};
use crate::telemetry::name;

/// How long a server has to itself what it asks the gateway for: longer than the gateway may take to answer.
const ASK_WITHIN: Duration = Duration::from_secs(4);
/// The longest pause between two messages of a payment: its buyer is there, and the time to pay runs.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// When to ask a server again that has no gateway: an operator has to set one up.
const RETRY_WITHOUT_GATEWAY: Duration = Duration::from_secs(60);

impl Orders {
    /// Begins a payment of `buyer`'s order, or finds the one that is pending.
    ///
    /// # Errors
    /// `unavailable` also if the gateway does not say where to pay; `pay_url_refused` if nobody is sent to where it says.
    pub async fn pay(&self, key: impl Into<OrderKey>, buyer: UserId) -> Result<OpenPayment, Stop> {
        let order = orders::find(self.database.pool(), key.into(), Some(buyer)).await?;
        if order.status != OrderStatus::Unpaid {
            return Err(Refusal::order_state(order.status).into());
        }
        let Some(gateway) = &self.gateway else {
            let nobody = "nothing takes payments here: SECKILL_PAYMENTS";
            return Err(Refusal::unavailable(RETRY_WITHOUT_GATEWAY).detail(nobody).into());
        };
        // Each statement has its own turn: meanwhile the gateway is asked.
        let turn = async || self.database.buyers_steps_of(order.voucher_id).await;
        let Pending { id, amount, pay_by, pay_url, attempt, wait } =
            payments::open(&*turn().await?, &order, buyer, ASK_WITHIN).await?;
        let opened = |pay_url| OpenPayment { id, order_id: id.order, amount, pay_url, pay_by };
        if let Some(pay_url) = pay_url {
            return Ok(opened(pay_url));
        }
        let Some(attempt) = attempt else {
            return Err(unavailable("is being asked where to pay", wait).into());
        };
        match gateway.request_payment(PaymentRequest { payment: id, amount, pay_by }).await {
            Ok(pay_url) => {
                let status = payments::keep_pay_url(&*turn().await?, id, &pay_url).await?;
                if status != OrderStatus::Unpaid {
                    return Err(Refusal::order_state(status).into());
                }
                Ok(opened(pay_url))
            }
            Err(error) => {
                // It is asked again, by the same name, when the buyer presses again after that.
                let pause = pause_after(attempt).min(LONGEST_PAUSE);
                tracing::warn!(payment = %id, %error, "a payment could not be announced");
                // Where this fails, it is asked again when the claim ends.
                if let Ok(turn) = turn().await {
                    let _ = payments::ask_later(&turn, id, attempt, pause).await;
                }
                Err(match error {
                    AnnounceError::Gateway(_) => unavailable("does not say where to pay", pause),
                    AnnounceError::PayUrl(_) => {
                        Refusal::from(Code::PayUrlRefused).with(Member::RetryAfter(pause))
                    }
                }
                .into())
            }
        }
    }

    /// The gateway says what became of a payment. What names no payment of ours is kept, if it is money.
    pub async fn take_notice(
        &self,
        payment: &str,
        notice: &Notice,
    ) -> Result<NoticeOutcome, StoreError> {
        take_notice(&self.database, &self.purchases, payment, notice).await
    }
}

/// The gateway says what became of a payment. What names no payment of ours is kept, if it is money.
pub(super) async fn take_notice(
    database: &Database,
    purchases: &Purchases,
    payment: &str,
    notice: &Notice,
) -> Result<NoticeOutcome, StoreError> {
    let outcome = match payment.parse::<PaymentId>() {
        Ok(id) => {
            let turn = database.notices_of(id.voucher).await?;
            let outcome = notices::take_notice(&turn, id, notice).await?;
            drop(turn);
            if outcome.changes_stock() {
                purchases.voucher_changed(id.voucher);
            }
            outcome
        }
        Err(_) => NoticeOutcome::Unknown,
    };
    if outcome == NoticeOutcome::Unknown {
        keep_unmatched(database, payment, notice).await?;
    }
    log(payment, notice, outcome);
    metrics::counter!(name::PAYMENTS, "settled" => outcome.as_str()).increment(1);
    Ok(outcome)
}

/// Says what an operator has to know of.
fn log(payment: &str, notice: &Notice, outcome: NoticeOutcome) {
    let what = match outcome {
        NoticeOutcome::ReturnedTwice => {
            tracing::error!(payment, ?notice, "money went back a second time: look at the refunds");
            return;
        }
        NoticeOutcome::PartReturned => "a part of the money went back: a refund is of the rest",
        NoticeOutcome::Kept | NoticeOutcome::TooEarly => {
            "the gateway has not told yet of what went before"
        }
        NoticeOutcome::RefundFailed | NoticeOutcome::RefundWaits => "a refund failed after all",
        NoticeOutcome::ChargeBackWon => "money that was charged back is ours again",
        NoticeOutcome::Repeated if matches!(notice, Notice::ChargedBack(_)) => {
            "a charge-back that is known is told again: a dispute that was won and opened again needs another return_id"
        }
        _ => return,
    };
    tracing::warn!(payment, ?notice, "{what}");
}

/// Keeps what the gateway says of a payment that is not ours.
async fn keep_unmatched(
    database: &Database,
    payment: &str,
    notice: &Notice,
) -> Result<(), StoreError> {
    let pool = database.pool();
    match notice {
        Notice::Failed => {}
        Notice::Succeeded(money) => {
            unmatched_payments::keep(pool, payment, money).await?;
            tracing::warn!(
                payment,
                money.transaction,
                money.amount,
                "the gateway took money for a payment that is not ours: it is kept for an administrator"
            );
        }
        Notice::Refunded(money) | Notice::ChargedBack(money) => {
            unmatched_payments::mark_returned(pool, payment, money).await?;
            tracing::warn!(
                payment,
                money.transaction,
                "the gateway gave back money of a payment that is not ours"
            );
        }
        Notice::RefundFailed(money) | Notice::ChargeBackWon(money) => {
            unmatched_payments::mark_kept(pool, payment, money).await?;
            tracing::warn!(
                payment,
                money.transaction,
                "the gateway did not give back money of a payment that is not ours, as it had said"
            );
        }
    }
    Ok(())
}

/// The gateway does not say now where to pay.
fn unavailable(why: &str, wait: Duration) -> Refusal {
    let detail = format!("the payment gateway {why}: try again");
    Refusal::unavailable(wait).detail(detail)
}
