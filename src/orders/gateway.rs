//! What takes the buyers' money, and gives it back.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::store::notices::Notice;
use crate::store::payments::PaymentId;

/// The gateway did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the payment gateway: {0}")]
pub struct GatewayError(pub String);

/// Why nobody can be sent to the gateway to pay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnounceError {
    /// It does not say where to pay.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// It says where, and no buyer is sent there. For the log: why.
    #[error("the payment gateway: its pay_url {0}")]
    PayUrl(String),
}

/// A payment to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentRequest {
    /// Its name. The same name is the same payment, however often the gateway is told of it.
    pub payment: PaymentId,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// The order is cancelled after this instant.
    pub pay_by: DateTime<Utc>,
}

/// Money to be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRequest {
    /// The name of the refund: what is asked for twice is given back once. A refund that failed after all gets another one.
    pub refund_id: String,
    /// The payment for which the gateway took the money, as it was announced.
    pub payment: PaymentId,
    /// The gateway's own name of the money.
    pub transaction_id: String,
    /// In the currency's smallest unit.
    pub amount: i64,
}

/// Takes payments, and gives them back. It tells of a payment by a signed notification
/// (`POST /api/payments/notifications`), which may come twice, late, or out of order.
#[async_trait]
pub trait PaymentGateway: Send + Sync + std::fmt::Debug {
    /// Announces a payment. Returns where the buyer makes it.
    async fn request_payment(&self, request: PaymentRequest) -> Result<String, AnnounceError>;

    /// Says that a payment is not wanted any more: its order was cancelled, or paid by another payment. Money that comes all
    /// the same is judged as any late money: it goes back, or revives an order that time had cancelled.
    async fn cancel_payment(&self, payment: PaymentId) -> Result<(), GatewayError>;

    /// What became of a payment, of which it has not told yet: [`Notice::Succeeded`], [`Notice::Failed`], or `None`, if it was not
    /// paid until now.
    async fn payment_status(&self, payment: PaymentId) -> Result<Option<Notice>, GatewayError>;

    /// Gives money back. `Ok`: it is on its way, now or since an earlier call.
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError>;
}
