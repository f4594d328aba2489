//! A buyer pays, and the payment gateway says what became of it.

use std::time::Duration;

use super::gateway_work::pause_after;
use super::{GatewayError, Orders, PaymentRequest};
use crate::model::{OrderStatus, UserId, VoucherId};
use crate::store::orders::{Found, OrderKey};
use crate::store::payments::{self, Notice, OpenPayment, Opened, PaymentId, Settled};
use crate::store::{StoreError, orders, unmatched_payments};
use crate::telemetry;

/// How long a server has to itself what it asks the gateway for: longer than the gateway may take to answer.
const ASK_WITHIN: Duration = Duration::from_secs(4);
/// The longest pause between two messages of a payment: its buyer is there, and the time to pay runs.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A buyer cannot pay.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PayError {
    #[error("the buyer has no such order")]
    NotFound,
    #[error("the buyer has an order by this id of several vouchers")]
    OfVouchers(Vec<VoucherId>),
    #[error("there is nothing to pay, the order is {}", .0.as_str())]
    Refused(OrderStatus),
    #[error("nothing takes payments here")]
    NoGateway,
    #[error("the gateway is being asked, or was asked in vain a moment ago")]
    AskLater(Duration),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Orders {
    /// Begins a payment of `buyer`'s order, or finds the one that is pending. The `pay_url` is there.
    pub async fn pay(
        &self,
        key: impl Into<OrderKey>,
        buyer: UserId,
    ) -> Result<OpenPayment, PayError> {
        let order = match orders::find(self.database.pool(), key.into(), Some(buyer)).await? {
            Found::Order(order) => order,
            Found::Nothing => return Err(PayError::NotFound),
            Found::OfVouchers(vouchers) => return Err(PayError::OfVouchers(vouchers)),
        };
        if order.status != OrderStatus::Unpaid {
            return Err(PayError::Refused(order.status));
        }
        let gateway = self.gateway.as_ref().ok_or(PayError::NoGateway)?;
        let steps = self.database.steps();
        let (mut payment, attempt) = match payments::open(steps, &order, buyer, ASK_WITHIN).await? {
            Opened::Payment(payment) => return Ok(payment),
            Opened::Ask { payment, attempt } => (payment, attempt),
            Opened::AskLater { wait } => return Err(PayError::AskLater(wait)),
            Opened::Refused(status) => return Err(PayError::Refused(status)),
            Opened::NotFound => return Err(PayError::NotFound),
        };
        let OpenPayment { id, amount, pay_by, .. } = payment;
        match gateway.request_payment(PaymentRequest { payment: id, amount, pay_by }).await {
            Ok(pay_url) => {
                payments::keep_pay_url(steps, id, &pay_url).await?;
                payment.pay_url = Some(pay_url);
                Ok(payment)
            }
            Err(error) => {
                // It is asked again, by the same name, when the buyer presses again after that.
                let pause = pause_after(attempt).min(LONGEST_PAUSE);
                payments::ask_later(steps, id, pause).await?;
                Err(error.into())
            }
        }
    }

    /// The gateway says what became of a payment. What names no payment of ours is kept, if it is money.
    pub async fn settle(&self, payment: &str, notice: &Notice) -> Result<Settled, StoreError> {
        let settled = match payment.parse::<PaymentId>() {
            Ok(id) => {
                let settled = payments::settle(self.database.steps(), id, notice).await?;
                if settled.changes_stock() {
                    self.purchases.voucher_changed(id.voucher);
                }
                settled
            }
            Err(_) => Settled::Unknown,
        };
        if settled == Settled::Unknown {
            self.keep_unmatched(payment, notice).await?;
        }
        if settled == Settled::ReturnedTwice {
            tracing::error!(payment, ?notice, "money went back a second time: look at the refunds");
        }
        telemetry::payment_settled(settled.as_str());
        Ok(settled)
    }

    /// Keeps what the gateway says of a payment that is not ours.
    async fn keep_unmatched(&self, payment: &str, notice: &Notice) -> Result<(), StoreError> {
        let pool = self.database.pool();
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
                let is_kept = unmatched_payments::give_back(pool, payment, money).await?;
                tracing::warn!(
                    payment,
                    money.transaction,
                    is_kept,
                    "the gateway gave back money of a payment that is not ours"
                );
            }
        }
        Ok(())
    }
}
