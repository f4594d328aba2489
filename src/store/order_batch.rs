//! Many orders of one voucher in one transaction.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use super::orders::{Placed, Purchase, ordered};
use super::{Service, StoreError};
use crate::model::OrderId;

/// Sells to all of `purchases`, which are of one voucher, in their order, in one transaction: committed when
/// this returns. What became of each, by its place.
///
/// Sent again with the same ids it changes nothing, and with `sent_before` says the same: an
/// order that the user has under the purchase's own id is that purchase's. Whoever lost the
/// answer asks so. Sent for the first time such an order is another's: of a process that drew
/// the same id when Redis had lost the counter, for the same user.
///
/// # One message, two statements
///
/// The first waits for the row and locks it, the second sees, with a snapshot of its own,
/// everything that was committed before. In one statement it would see the time before it
/// waited. As long as the row is locked nobody else writes orders of this voucher; so who has
/// bought, and how many are left, is exact, a `limit` sells the last voucher to whoever came
/// first, and the insert is a plain one. (`on conflict do nothing` would look into both indexes
/// once more for each order.)
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
/// `Defect` when one of them could not be written, because another order has its id, say: then
/// none is.
pub async fn place_all(
    connection: &mut PgConnection,
    purchases: &[Purchase],
    sent_before: bool,
) -> Result<Vec<Placed>, StoreError> {
    let Some(voucher) = purchases.first().map(|purchase| purchase.voucher_id) else {
        return Ok(Vec::new());
    };
    // Of a user who comes twice the first is sent.
    let mut users = HashSet::with_capacity(purchases.len());
    let firsts: Vec<&Purchase> =
        purchases.iter().filter(|purchase| users.insert(purchase.user_id)).collect();
    let ids = list(&firsts, |purchase| purchase.order_id.get());
    let users = list(&firsts, |purchase| purchase.user_id.get());
    let times = list(&firsts, |purchase| purchase.at.timestamp_micros());
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
    Ok(Books::read(rows.last().ok_or_else(defect)?)?.judge(purchases, sent_before))
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

    fn judge(self, purchases: &[Purchase], sent_before: bool) -> Vec<Placed> {
        if usize::try_from(self.sold) == Ok(purchases.len()) {
            return purchases.iter().map(|one| Placed::Ordered(ordered(one))).collect();
        }
        let sold: HashSet<i64> = self.sold_ids.into_iter().collect();
        let is_sold = |one: &&Purchase| sold.contains(&one.order_id.get());
        let mut orders: HashMap<i64, i64> = self.bought;
        let now = purchases.iter().filter(is_sold);
        orders.extend(now.map(|one| (one.user_id.get(), one.order_id.get())));
        let judge = |one: &Purchase| match orders.get(&one.user_id.get()) {
            Some(order) if *order == one.order_id.get() && (sent_before || is_sold(&one)) => {
                Placed::Ordered(ordered(one))
            }
            // Before this batch, or in it by another purchase of the same user.
            Some(order) => OrderId::new(*order).map_or(Placed::IdTaken, Placed::AlreadyBought),
            None => match self.stock {
                None => Placed::NoVoucher,
                Some(0) => Placed::SoldOut,
                // Not under the row's lock: but nobody is told "sold out" while there is some.
                Some(_) => Placed::StockCameBack,
            },
        };
        purchases.iter().map(judge).collect()
    }
}

fn list(purchases: &[&Purchase], number: impl Fn(&Purchase) -> i64) -> String {
    let mut text = String::with_capacity(purchases.len() * 20);
    for purchase in purchases {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}", number(purchase));
    }
    text
}
