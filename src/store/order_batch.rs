//! Many orders of one voucher in one transaction.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use super::orders::{Placed, Purchase, ordered};
use super::{Service, StoreError};
use crate::model::OrderId;

/// Sells to all of `purchases`, which are of one voucher, in their order, in one transaction: committed when
/// this returns. What became of each, by its place; `None` where that does not follow from
/// what was seen: judge that purchase by itself.
///
/// Sent again with the same ids it changes nothing and says the same: an order that is there
/// under the purchase's own id is that purchase's. Whoever lost the answer asks so.
///
/// # One message, two statements
///
/// The first waits for the row and locks it, the second sees, with a snapshot of its own,
/// everything that was committed before. In one statement it would see the time before it
/// waited. As long as the row is locked nobody else writes orders of this voucher; so who has
/// bought, and how many are left, is exact, and a `limit` sells the last voucher to whoever
/// came first.
///
/// Both travel in one message of the simple protocol, which the server runs as one
/// transaction. The row is then never locked across a round trip: a process that is stopped,
/// killed or cut off between two statements would keep it from all others until a time-out.
/// And there is no open transaction that anybody could leave behind.
///
/// The simple protocol knows no parameters: all that is put into the text are numbers.
///
/// # Errors
/// `Unknown` when the connection broke after sending: all of them may be there, or none.
pub async fn place_all(
    connection: &mut PgConnection,
    purchases: &[Purchase],
) -> Result<Vec<Option<Placed>>, StoreError> {
    let Some(voucher) = purchases.first().map(|purchase| purchase.voucher_id) else {
        return Ok(Vec::new());
    };
    let ids = list(purchases, |purchase| purchase.order_id.get());
    let users = list(purchases, |purchase| purchase.user_id.get());
    let times = list(purchases, |purchase| purchase.at.timestamp_micros());
    let statements = format!(
        "select from seckill_vouchers where voucher_id = {voucher} for no key update;

         with member as materialized (
           select m.*, (select o.id from orders o
                        where o.user_id = m.user_id and o.voucher_id = {voucher}) as bought
           from unnest('{{{ids}}}'::bigint[], '{{{users}}}'::bigint[], '{{{times}}}'::bigint[])
             with ordinality as m (id, user_id, micros, place)
         ), inserted as (
           insert into orders (id, user_id, voucher_id, created_at, updated_at)
           select id, user_id, {voucher}, at, at
           from member, lateral (
             select timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond' as at
           ) t
           where bought is null
           order by place
           -- Without a voucher null, which would be no limit.
           limit coalesce((select stock from seckill_vouchers where voucher_id = {voucher}), 0)
           on conflict do nothing
           returning id
         ), taken as (
           update seckill_vouchers set stock = stock - (select count(*) from inserted)
           where voucher_id = {voucher} and exists (select from inserted)
           returning stock
         )
         select coalesce((select stock from taken),
                         (select stock from seckill_vouchers where voucher_id = {voucher})) as stock,
                (select count(*) from inserted) as sold,
                (select case when count(*) < {count} then array_agg(id) end from inserted) as sold_ids,
                (select array_agg(user_id) from member where bought is not null) as buyers,
                (select array_agg(bought) from member where bought is not null) as bought",
        count = purchases.len(),
    );
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).fetch_all(connection).await?;
    let defect = || StoreError::defect(Service::Postgres, "a batch of orders has no result");
    Ok(Books::read(rows.last().ok_or_else(defect)?)?.judge(purchases))
}

/// What the second statement says.
struct Books {
    /// Left after it; `None`: no such voucher.
    stock: Option<i32>,
    sold: i64,
    /// Only where not all were sold.
    sold_ids: Vec<i64>,
    /// Who had bought before.
    bought: HashMap<i64, i64>,
}

impl Books {
    fn read(row: &PgRow) -> Result<Self, StoreError> {
        let numbers = |column: &str| -> Result<Vec<i64>, StoreError> {
            Ok(row.try_get::<Option<Vec<i64>>, _>(column)?.unwrap_or_default())
        };
        Ok(Self {
            stock: row.try_get("stock")?,
            sold: row.try_get("sold")?,
            sold_ids: numbers("sold_ids")?,
            bought: numbers("buyers")?.into_iter().zip(numbers("bought")?).collect(),
        })
    }

    fn judge(self, purchases: &[Purchase]) -> Vec<Option<Placed>> {
        if usize::try_from(self.sold) == Ok(purchases.len()) {
            return purchases.iter().map(|one| Some(Placed::Ordered(ordered(one)))).collect();
        }
        let sold: HashSet<i64> = self.sold_ids.into_iter().collect();
        let mut orders = HashMap::new();
        for purchase in purchases.iter().filter(|one| sold.contains(&one.order_id.get())) {
            orders.insert(purchase.user_id.get(), purchase.order_id.get());
        }
        orders.extend(self.bought);
        let judge = |purchase: &Purchase| match orders.get(&purchase.user_id.get()) {
            Some(order) if *order == purchase.order_id.get() => {
                Some(Placed::Ordered(ordered(purchase)))
            }
            // Before this batch, or in it by another purchase of the same user.
            Some(order) => OrderId::new(*order).map(Placed::AlreadyBought),
            None => match self.stock {
                None => Some(Placed::NoVoucher),
                Some(0) => Some(Placed::SoldOut),
                // Its id is taken, or a user who came twice used up the limit.
                Some(_) => None,
            },
        };
        purchases.iter().map(judge).collect()
    }
}

fn list(purchases: &[Purchase], number: impl Fn(&Purchase) -> i64) -> String {
    let mut text = String::with_capacity(purchases.len() * 20);
    for purchase in purchases {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}", number(purchase));
    }
    text
}
