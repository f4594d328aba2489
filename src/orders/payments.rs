//! A buyer's payment, and what the gateway says of it.

use super::{GatewayError, Orders, PaymentRequest};
use crate::model::{OrderId, OrderStatus, UserId};
use crate::store::payments::{self, OpenPayment, Opened, PaymentId, Settled, Verdict};
use crate::store::{StoreError, orders};
use crate::telemetry;

/// A buyer cannot pay.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PayError {
    #[error("the buyer has no such order")]
    NotFound,
    #[error("there is nothing to pay, the order is {}", .0.as_str())]
    Refused(OrderStatus),
    #[error("nothing takes payments here")]
    NoGateway,
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Orders {
    /// Begins a payment of `buyer`'s order, or finds the one that is pending. The `pay_url` is there.
    pub async fn pay(&self, id: OrderId, buyer: UserId) -> Result<OpenPayment, PayError> {
        let order = orders::find(self.database.pool(), id, Some(buyer)).await?;
        let order = order.ok_or(PayError::NotFound)?;
        if order.status != OrderStatus::Unpaid {
            return Err(PayError::Refused(order.status));
        }
        let gateway = self.gateway.as_ref().ok_or(PayError::NoGateway)?;
        let mut payment = match payments::open(self.database.pool(), &order, buyer).await? {
            Opened::Payment(payment) => payment,
            Opened::Refused(status) => return Err(PayError::Refused(status)),
            Opened::NotFound => return Err(PayError::NotFound),
        };
        if payment.pay_url.is_none() {
            let OpenPayment { id, amount, pay_by, .. } = payment;
            let request = PaymentRequest { payment: id, amount, pay_by };
            // It is asked again, by the same name, when the buyer presses again.
            let pay_url = gateway.request_payment(request).await?;
            payments::keep_pay_url(self.database.pool(), id, &pay_url).await?;
            payment.pay_url = Some(pay_url);
        }
        Ok(payment)
    }

    /// The gateway says what became of a payment. What names no payment of ours is kept, if it is money.
    pub async fn settle(&self, payment: &str, verdict: &Verdict) -> Result<Settled, StoreError> {
        let pool = self.database.pool();
        let settled = match payment.parse::<PaymentId>() {
            Ok(id) => {
                let settled = payments::settle(self.database.steps(), id, verdict).await?;
                if settled == Settled::Revived {
                    self.purchases.voucher_changed(id.voucher);
                }
                settled
            }
            Err(_) => Settled::Unknown,
        };
        if let (Settled::Unknown, Verdict::Succeeded { transaction, amount }) = (settled, verdict) {
            payments::keep_unmatched(pool, transaction, payment, *amount).await?;
            tracing::warn!(
                payment,
                transaction,
                amount,
                "the gateway took money for a payment that is not ours: it is kept for an administrator"
            );
        }
        telemetry::payment_settled(settled.as_str());
        Ok(settled)
    }
}
