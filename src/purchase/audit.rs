//! Judges the promises from the database alone. Shares no code with what sells: it counts.

use std::time::Duration;

use serde::Serialize;
use sqlx::postgres::{PgConnection, PgPool, PgRow};
use sqlx::{FromRow, Row};
use utoipa::ToSchema;

use crate::model::{UserId, VoucherId};
use crate::store::{Database, StoreError};

/// The books of a voucher, as `seckill audit --json` writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditBody)]
pub struct VoucherAudit {
    /// The voucher.
    pub voucher_id: VoucherId,
    /// Vouchers at the beginning.
    pub initial_stock: i64,
    /// Vouchers left.
    pub stock: i64,
    /// Orders written.
    pub orders: i64,
    /// Different users among them.
    pub distinct_users: i64,
    /// Whether every promise was kept.
    pub holds: bool,
    /// Each promise that was not: its name, a colon, and the figures in words. The names are
    /// `no_oversell`, `one_per_user`, `no_undersell`, `orphans` and `sale_window`.
    pub violations: Vec<String>,
}

impl VoucherAudit {
    /// Orders beyond the initial stock.
    pub fn oversold(&self) -> i64 {
        (self.orders - self.initial_stock).max(0)
    }

    /// Orders beyond one per user.
    pub fn duplicates(&self) -> i64 {
        self.orders - self.distinct_users
    }

    fn judge(&mut self, orders_of_nobody: i64, orders_out_of_time: i64) {
        let mut violations = Vec::new();
        if self.oversold() > 0 {
            violations.push(format!(
                "no_oversell: {} orders for {} vouchers",
                self.orders, self.initial_stock
            ));
        }
        if self.duplicates() > 0 {
            violations.push(format!(
                "one_per_user: {} orders of only {} users",
                self.orders, self.distinct_users
            ));
        }
        if self.orders + self.stock != self.initial_stock {
            violations.push(format!(
                "no_undersell: {} orders + {} left is not {} at the beginning",
                self.orders, self.stock, self.initial_stock
            ));
        }
        if self.stock < 0 {
            violations.push(format!("no_oversell: the stock is {}", self.stock));
        }
        if orders_of_nobody > 0 {
            violations.push(format!("orphans: {orders_of_nobody} orders of users unknown"));
        }
        if orders_out_of_time > 0 {
            violations.push(format!(
                "sale_window: {orders_out_of_time} orders before the sale began or after it ended"
            ));
        }
        self.holds = violations.is_empty();
        self.violations = violations;
    }
}

/// Counts one voucher, or all, the oldest first, each from one snapshot.
///
/// Orders of a voucher that does not exist are reported as a voucher with an initial
/// stock of 0, so that they cannot hide.
pub async fn run(pool: &PgPool, only: Option<VoucherId>) -> Result<Vec<VoucherAudit>, StoreError> {
    let mut transaction = pool.begin().await?;
    // Counting a large sale may take longer than a purchase ever should.
    sqlx::query("set local statement_timeout = '10min'").execute(&mut *transaction).await?;
    let counted = count(&mut transaction, only).await?;
    transaction.commit().await?;
    Ok(counted)
}

/// Counts one voucher while it may be on sale, in at most `limit`; `None`: there is no such voucher.
///
/// # Errors
/// `Unavailable` when the time is over.
pub async fn run_within(
    limit: Duration,
    database: &Database,
    voucher: VoucherId,
) -> Result<Option<VoucherAudit>, StoreError> {
    let count = async |connection: &mut PgConnection| count(connection, Some(voucher)).await;
    Ok(database.read_within(limit, count).await?.pop())
}

async fn count(
    connection: &mut PgConnection,
    only: Option<VoucherId>,
) -> sqlx::Result<Vec<VoucherAudit>> {
    sqlx::query_as(
        "with counted as (
           select o.voucher_id, count(*) as orders, count(distinct o.user_id) as distinct_users,
                  count(*) filter (where u.id is null) as of_nobody,
                  count(*) filter (where o.created_at < s.begin_time
                                      or o.created_at >= s.end_time) as out_of_time
           from orders o
           left join users u on u.id = o.user_id
           left join seckill_vouchers s on s.voucher_id = o.voucher_id
           where $1::bigint is null or o.voucher_id = $1
           group by o.voucher_id
         )
         select coalesce(s.voucher_id, c.voucher_id) as voucher_id,
                coalesce(s.initial_stock, 0)::bigint as initial_stock,
                coalesce(s.stock, 0)::bigint as stock,
                coalesce(c.orders, 0) as orders,
                coalesce(c.distinct_users, 0) as distinct_users,
                coalesce(c.of_nobody, 0) as of_nobody,
                coalesce(c.out_of_time, 0) as out_of_time
         from (select * from seckill_vouchers where $1::bigint is null or voucher_id = $1) s
         full join counted c on c.voucher_id = s.voucher_id
         order by 1",
    )
    .bind(only.map(VoucherId::get))
    .fetch_all(connection)
    .await
}

impl FromRow<'_, PgRow> for VoucherAudit {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let mut audit = Self {
            voucher_id: row.try_get("voucher_id")?,
            initial_stock: row.try_get("initial_stock")?,
            stock: row.try_get("stock")?,
            orders: row.try_get("orders")?,
            distinct_users: row.try_get("distinct_users")?,
            holds: false,
            violations: Vec::new(),
        };
        audit.judge(row.try_get("of_nobody")?, row.try_get("out_of_time")?);
        Ok(audit)
    }
}

/// How many orders of `voucher` the users `first ..= last` have.
pub async fn count_orders_of(
    pool: &PgPool,
    voucher: VoucherId,
    (first, last): (UserId, UserId),
) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar(
        "select count(*) from orders where voucher_id = $1 and user_id between $2 and $3",
    );
    Ok(count.bind(voucher.get()).bind(first.get()).bind(last.get()).fetch_one(pool).await?)
}

/// How many of the orders that buyers were `told` of, as (user, order), are not in the database for that
/// user and voucher. An order that two buyers were told of is lost for one of them.
pub async fn count_lost(
    pool: &PgPool,
    voucher: VoucherId,
    told: &[(i64, i64)],
) -> Result<i64, StoreError> {
    let (users, orders): (Vec<i64>, Vec<i64>) = told.iter().copied().unzip();
    let lost = sqlx::query_scalar(
        "select count(*) - count(distinct o.id)
         from unnest($1::bigint[], $2::bigint[]) as told (user_id, order_id)
         left join orders o on o.id = told.order_id
           and o.user_id = told.user_id and o.voucher_id = $3",
    )
    .bind(users)
    .bind(orders)
    .bind(voucher.get())
    .fetch_one(pool)
    .await?;
    Ok(lost)
}
