//! What the payment gateway says of payments and their money, and what became of it.

use sqlx::postgres::PgPool;

use super::columns::column;
use super::payments::PaymentId;
use super::statements::step_in_time;
use super::vouchers::breaks;
use super::{Service, StoreError};

/// What the gateway says of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// It took money.
    Succeeded(Money),
    /// It took nothing.
    Failed,
    /// It gave the money back by itself.
    Refunded(Money),
    /// The buyer's bank took the money back.
    ChargedBack(Money),
    /// It did not give the money back, as it had said, or as we had taken from its answer.
    RefundFailed(Money),
    /// The buyer's bank gave back what it had taken.
    ChargeBackWon(Money),
}

/// Money that the gateway took, or gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    /// The gateway's own name of it.
    pub transaction: String,
    /// In the currency's smallest unit.
    pub amount: i64,
    /// The name of what was given back: the gateway's own, or ours of a refund. Without one, a part counts once for each notice.
    pub return_id: Option<String>,
}

/// What became of a notice. The functions in migrations/0002_functions.sql decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)] // the names say it
pub enum NoticeOutcome {
    /// There is no such payment.
    Unknown,
    /// It was said before.
    Repeated,
    Failed,
    /// The order is paid.
    Applied,
    /// The order, which time had cancelled, is paid and live again.
    Revived,
    /// The money goes back: it is not what was asked for.
    WrongAmount,
    /// The money goes back: the order is cancelled.
    OrderCancelled,
    /// The money goes back: the order is paid already.
    OrderPaid,
    /// The money goes back: there is no such order any more.
    OrderMissing,
    /// The gateway gave the money back, and our books say so.
    Returned,
    /// The gateway gave money back that had gone back another way before.
    ReturnedTwice,
    /// The gateway gave money back that it has not told us of yet: this waits for it.
    Kept,
    /// The gateway gave a part of the money back: a refund is of the rest.
    PartReturned,
    /// The gateway gave back more than is left: nothing was changed.
    Partial,
    /// A return failed after all: the buyer is owed the money, if nothing else paid for it.
    RefundFailed,
    /// A refund failed that was not known to be done: it is asked for by another name.
    RefundWaits,
    /// Money that was charged back is ours again.
    ChargeBackWon,
    /// A return failed, or was won, that the gateway has not told us of yet: it is to say so again. Nothing was changed.
    TooEarly,
    /// Another amount than this went back: nothing was changed.
    OtherAmount,
    /// A payment failed whose money came, and went back: nothing was changed.
    WasRefunded,
}

column!(NoticeOutcome: &str);

impl NoticeOutcome {
    /// As the database and the metrics write it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the voucher changed by more than a sale: one came back, or one was taken.
    pub const fn changes_stock(self) -> bool {
        matches!(self, Self::Revived | Self::Returned | Self::ReturnedTwice)
    }
}

/// Writes what the gateway says of a payment. The same notice may come twice, late, and in any order.
pub async fn take_notice(
    pool: &PgPool,
    id: PaymentId,
    notice: &Notice,
) -> Result<NoticeOutcome, StoreError> {
    let (calls, money): (&[&'static str], &Money) = match notice {
        Notice::Failed => {
            let query = sqlx::query_scalar("select fail_payment($1, $2, $3)")
                .bind(id.voucher.get())
                .bind(id.order.get())
                .bind(id.number);
            return step_in_time(pool, async |session| query.fetch_one(session).await).await;
        }
        Notice::Succeeded(money) => {
            let calls = &[
                "select apply_payment($1, $2, $3, $4, $5)",
                "select judge_payment($1, $2, $3, $4, $5)",
            ];
            return settle_money(pool, calls, id, money, None).await;
        }
        Notice::Refunded(money) => {
            (&["select return_payment($1, $2, $3, $4, $5, by_the_gateway_itself(), $6)"], money)
        }
        Notice::ChargedBack(money) => {
            (&["select return_payment($1, $2, $3, $4, $5, by_charge_back(), $6)"], money)
        }
        Notice::RefundFailed(money) => {
            (&["select undo_return($1, $2, $3, $4, $5, by_the_gateway_itself(), $6)"], money)
        }
        Notice::ChargeBackWon(money) => {
            (&["select undo_return($1, $2, $3, $4, $5, by_charge_back(), $6)"], money)
        }
    };
    settle_money(pool, calls, id, money, Some(&money.return_id)).await
}

/// Calls functions that move money, one after the other, until one of them has decided.
async fn settle_money(
    pool: &PgPool,
    calls: &[&'static str],
    id: PaymentId,
    money: &Money,
    part: Option<&Option<String>>,
) -> Result<NoticeOutcome, StoreError> {
    for call in calls {
        let query = sqlx::query_scalar(*call)
            .bind(id.voucher.get())
            .bind(id.order.get())
            .bind(id.number)
            .bind(&money.transaction)
            .bind(money.amount);
        let query = if let Some(part) = part { query.bind(part) } else { query };
        // The money of an order of another voucher is found by this unique index alone.
        let said = step_in_time(pool, async |session| match query.fetch_one(session).await {
            Err(sqlx::Error::Database(error))
                if breaks(&*error, "payments_one_per_transaction") =>
            {
                tracing::warn!(payment = %id, transaction = money.transaction,
                    "the gateway names for this payment a transaction that paid for another order");
                Ok(Some(NoticeOutcome::Unknown))
            }
            said => said,
        });
        if let Some(outcome) = said.await? {
            return Ok(outcome);
        }
    }
    Err(StoreError::defect(Service::Postgres, format!("{calls:?} say nothing")))
}
