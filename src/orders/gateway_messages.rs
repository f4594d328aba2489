//! What the payment gateway is told: money on its way back, and payments that are not wanted any more. And what it is asked:
//! whether a payment was paid whose order time would cancel.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::outbox::{Receiver, Unsent, pause_after};
use super::pay::take_notice;
use super::{GatewayError, PaymentGateway, RefundRequest};
use crate::model::OrderStatus;
use crate::purchase::Purchases;
use crate::store::messages::{Channel, MessageId, MessageKind};
use crate::store::notices::NoticeOutcome;
use crate::store::payments::PaymentId;
use crate::store::refunds::{self, WaitingRefund};
use crate::store::{Database, StoreError, order_steps, orders, unmatched_payments};
use crate::telemetry::name;

/// How often a gateway is told of a cancellation that it does not take: for about 24 minutes. No money depends on it.
const MAX_CANCELLATION_ATTEMPTS: i32 = 13;
/// How long an order waits for what the gateway says of its payment, unless the settings say otherwise.
pub const ASK_WITHIN: Duration = Duration::from_secs(60);
/// The longest pause between two questions about a payment: its order waits.
const LONGEST_ASK_PAUSE: Duration = Duration::from_secs(5);

/// The gateway, as it takes messages.
#[derive(Debug, Clone)]
pub struct ToGateway {
    database: Database,
    purchases: Arc<Purchases>,
    gateway: Arc<dyn PaymentGateway>,
}

impl From<GatewayError> for Unsent {
    fn from(error: GatewayError) -> Self {
        Self::NotTaken(error.to_string())
    }
}

impl Receiver for ToGateway {
    const CHANNEL: Channel = Channel::Gateway;

    async fn send(&self, message: MessageId) -> Result<bool, Unsent> {
        let payment = message.payment();
        match message.kind {
            MessageKind::Refund => self.refund(payment).await,
            MessageKind::CancelPayment => {
                self.gateway.cancel_payment(payment).await?;
                Ok(true)
            }
            MessageKind::AskPayment => self.ask(payment).await,
            kind => unreachable!("{kind:?} is no message to the gateway"),
        }
    }

    fn pause(&self, message: MessageId, attempt: i32, error: &str) -> Option<Duration> {
        let payment = message.payment();
        match message.kind {
            MessageKind::Refund => {
                tracing::warn!(%payment, attempt, error, "a refund waits");
                metrics::counter!(name::REFUNDS, "answer" => "failed").increment(1);
                Some(pause_after(attempt))
            }
            MessageKind::CancelPayment => {
                let may_try = attempt < MAX_CANCELLATION_ATTEMPTS;
                tracing::info!(%payment, attempt, error, may_try, "the gateway did not take a cancellation");
                may_try.then(|| pause_after(attempt))
            }
            MessageKind::AskPayment => {
                tracing::info!(%payment, attempt, error, "the gateway does not say whether a payment was paid");
                Some(pause_after(attempt).min(LONGEST_ASK_PAUSE))
            }
            kind => unreachable!("{kind:?} is no message to the gateway"),
        }
    }

    /// No refund waits for a metric.
    async fn measure(&self, now: DateTime<Utc>) {
        let pool = self.database.pool();
        if let Ok(count) = unmatched_payments::count_open(pool).await {
            metrics::gauge!(name::PAYMENTS_UNMATCHED).set(count as f64);
        }
        if let Ok(count) = refunds::count_partly_returned(pool).await {
            metrics::gauge!(name::PAYMENTS_PARTLY_RETURNED).set(count as f64);
        }
        if let Ok(oldest) = refunds::oldest_waiting(pool).await {
            let age_s = oldest.map_or(0.0, |since| (now - since).as_seconds_f64().max(0.0));
            metrics::gauge!(name::REFUND_OLDEST_AGE).set(age_s);
        }
    }
}

impl ToGateway {
    pub(super) fn new(
        database: Database,
        purchases: Arc<Purchases>,
        gateway: Arc<dyn PaymentGateway>,
    ) -> Self {
        Self { database, purchases, gateway }
    }

    /// Asks what became of a payment, while its order waits for that. What the gateway says counts as if it had told it by itself.
    async fn ask(&self, payment: PaymentId) -> Result<bool, Unsent> {
        let order =
            orders::find_of_voucher(self.database.pool(), payment.voucher, payment.order).await?;
        if order.is_none_or(|order| order.status != OrderStatus::Unpaid) {
            return Ok(false);
        }
        if let Some(notice) = self.gateway.payment_status(payment).await? {
            let name = payment.to_string();
            take_notice(&self.database, &self.purchases, &name, &notice).await?;
        }
        let turn = self.database.steps_of(payment.voucher).await?;
        order_steps::gateway_answered(&turn, payment).await?;
        Ok(true)
    }

    /// Asks for the money of a payment, and writes that it went back.
    async fn refund(&self, refund: PaymentId) -> Result<bool, Unsent> {
        let waiting = refunds::find_waiting(self.database.pool(), refund).await?;
        let Some(WaitingRefund { refund_id, transaction_id, amount, announced }) = waiting else {
            return Ok(false);
        };
        let payment = PaymentId { number: announced.unwrap_or(refund.number), ..refund };
        let request = RefundRequest { refund_id, payment, transaction_id, amount };
        self.gateway.refund(&request).await?;
        Ok(self.finish_refund(refund, &request).await?)
    }

    async fn finish_refund(
        &self,
        payment: PaymentId,
        RefundRequest { refund_id, amount, .. }: &RefundRequest,
    ) -> Result<bool, StoreError> {
        let turn = self.database.steps_of(payment.voucher).await?;
        match refunds::finish(&turn, payment, refund_id, *amount).await? {
            NoticeOutcome::Returned => {
                self.purchases.voucher_changed(payment.voucher);
                metrics::counter!(name::REFUNDS, "answer" => "done").increment(1);
                Ok(true)
            }
            NoticeOutcome::ReturnedTwice => {
                tracing::error!(%payment, "the gateway gave money back that had gone back another way meanwhile");
                metrics::counter!(name::REFUNDS, "answer" => "twice").increment(1);
                Ok(false)
            }
            NoticeOutcome::Repeated | NoticeOutcome::PartReturned => Ok(false),
            outcome => unreachable!("the refund of payment {payment} ended as {outcome:?}"),
        }
    }
}
