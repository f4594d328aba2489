//! Many orders in one transaction.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{Display, Write as _};

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use super::orders::{Placed, Purchase, ordered};
use super::{Service, StoreError};
use crate::model::{OrderId, UserId, VoucherId};

/// The two statements of a batch, planned once per connection: to plan them costs more than to
/// sell to fifty.
///
/// `order by` lets all processes lock rows in one order, so that no two wait for each other.
const PREPARE: &str = "
prepare seckill_batch_lock (bigint[]) as
select from seckill_vouchers where voucher_id = any ($1) order by voucher_id for no key update;

prepare seckill_batch_place (bigint[], bigint[], bigint[], bigint[], bigint[], bigint) as
with member as materialized (
  select m.*, (select o.id from orders o
               where o.user_id = m.user_id and o.voucher_id = m.voucher_id) as bought
  from unnest($1, $2, $3, $4) with ordinality as m (id, user_id, voucher_id, micros, place)
), sale as materialized (
  select voucher_id, stock from seckill_vouchers where voucher_id = any ($5)
), inserted as (
  insert into orders (id, user_id, voucher_id, created_at, updated_at)
  select id, user_id, voucher_id, at, at
  from (select *, row_number() over (partition by voucher_id order by place) as rank
        from member where bought is null) m
    join sale using (voucher_id),
    lateral (
      select timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond' as at
    ) t
  where rank <= stock
  returning id, voucher_id
), taken as (
  update seckill_vouchers v set stock = v.stock - sold
  from (select voucher_id, count(*) as sold from inserted group by voucher_id) s
  where v.voucher_id = s.voucher_id
  returning v.voucher_id, v.stock
)
select (select count(*) from inserted) as sold,
       (select array_agg(id) from inserted having count(*) < $6) as sold_ids,
       (select array_agg(voucher_id) from sale) as vouchers,
       (select array_agg(coalesce(t.stock, s.stock))
        from sale s left join taken t using (voucher_id)) as stocks,
       (select array_agg(id) from member where bought is not null) as repeats,
       (select array_agg(bought) from member where bought is not null) as bought";

/// PostgreSQL's `invalid_sql_statement_name`: this connection has not prepared them yet.
const NOT_PREPARED: &str = "26000";
/// PostgreSQL's `lock_not_available`: somebody held a row for longer than [`LOCK_TIMEOUT`].
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// How long a batch waits for its rows. Other processes' batches take a hundredth of that; whoever
/// holds one row for longer would hold up everybody in the batch, and keep the other rows locked.
const LOCK_TIMEOUT: &str = "400ms";

/// Sells to all of `purchases` in their order, in one transaction: committed when this returns.
/// What became of each, by its place.
///
/// Sent again with the same ids it changes nothing, and with `sent_before` says the same: an
/// order that the user has under the purchase's own id is that purchase's. Whoever lost the
/// answer asks so. Sent for the first time such an order is another's: of a process that drew
/// the same id when Redis had lost the counter, for the same user.
///
/// # One message, two statements
///
/// The first waits for the vouchers' rows and locks them, the second sees, with a snapshot of its
/// own, everything that was committed before. In one statement it would see the time before it
/// waited. As long as a row is locked nobody else writes orders of its voucher; so who has
/// bought, and how many are left, is exact, a rank sells the last voucher to whoever came
/// first, and the insert is a plain one. (`on conflict do nothing` would look into both indexes
/// once more for each order.)
///
/// Both travel in one message of the simple protocol, which the server runs as one
/// transaction. The rows are then never locked across a round trip: a process that is stopped,
/// killed or cut off between two statements would keep them from all others until a time-out.
/// And there is no open transaction that anybody could leave behind.
///
/// The simple protocol knows no parameters: all that is put into the text are numbers.
///
/// # Errors
/// `Unknown` when the connection broke after sending: all of them may be there, or none.
/// `Defect` when one of them could not be written, because another order has its id, say, or
/// somebody holds its voucher's row: then none is.
pub async fn place_all(
    connection: &mut PgConnection,
    purchases: &[Purchase],
    sent_before: bool,
) -> Result<Vec<Placed>, StoreError> {
    if purchases.is_empty() {
        return Ok(Vec::new());
    }
    let message = message(purchases, sent_before);
    let sent = match send(connection, &message).await {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NOT_PREPARED) => {
            // Nothing was done. As with a script that Redis does not know: say it, and again.
            prepare(connection).await?;
            send(connection, &message).await
        }
        sent => sent,
    };
    let rows = match sent {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) && !sent_before =>
        {
            return Err(StoreError::defect(Service::Postgres, "somebody holds a row of the batch"));
        }
        sent => sent?,
    };
    let defect = || StoreError::defect(Service::Postgres, "a batch of orders has no result");
    Ok(Books::read(rows.last().ok_or_else(defect)?)?.judge(purchases, sent_before))
}

/// Prepares the statements on a connection that has not got them.
///
/// # Errors
/// As any statement: before the migration there are no tables.
pub(super) async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(PREPARE).execute(connection).await.map(drop)
}

/// Of a user who comes twice for a voucher the first is sent.
///
/// The plan is one for all batches, and is made when the tables may be nearly empty: without
/// `enable_seqscan = off` it would read them from end to end when they are not any more. Whoever
/// asks what became of a batch waits for its rows however long it takes.
fn message(purchases: &[Purchase], sent_before: bool) -> String {
    let mut buyers = HashSet::with_capacity(purchases.len());
    let firsts = purchases.iter().filter(|one| buyers.insert((one.user_id, one.voucher_id)));
    let firsts: Vec<&Purchase> = firsts.collect();
    let vouchers: BTreeSet<VoucherId> = firsts.iter().map(|one| one.voucher_id).collect();
    let vouchers = array(vouchers);
    let lock_timeout = if sent_before { "0" } else { LOCK_TIMEOUT };
    format!(
        "set local plan_cache_mode = force_generic_plan;
         set local enable_seqscan = off;
         set local lock_timeout = '{lock_timeout}';
         execute seckill_batch_lock({vouchers});
         execute seckill_batch_place({}, {}, {}, {}, {vouchers}, {})",
        array(firsts.iter().map(|one| one.order_id)),
        array(firsts.iter().map(|one| one.user_id)),
        array(firsts.iter().map(|one| one.voucher_id)),
        array(firsts.iter().map(|one| one.at.timestamp_micros())),
        purchases.len(),
    )
}

/// An array of `bigint`, as text.
pub(super) fn array<T: Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let mut text = String::from("'{");
    for number in numbers {
        let comma = if text.len() == 2 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{number}");
    }
    text.push_str("}'");
    text
}

async fn send(connection: &mut PgConnection, message: &str) -> Result<Vec<PgRow>, sqlx::Error> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(message)).fetch_all(connection).await
}

/// What the second statement says.
struct Books {
    /// Left after it, of the vouchers that there are.
    stocks: HashMap<i64, i32>,
    sold: i64,
    /// Only where not all were sold.
    sold_ids: HashSet<i64>,
    /// The order that the buyer had before, by the id that was to be this one's.
    bought: HashMap<i64, i64>,
}

impl Books {
    fn read(row: &PgRow) -> Result<Self, StoreError> {
        let numbers = |column: &str| -> Result<Vec<i64>, StoreError> {
            Ok(row.try_get::<Option<Vec<i64>>, _>(column)?.unwrap_or_default())
        };
        let stocks = row.try_get::<Option<Vec<i32>>, _>("stocks")?.unwrap_or_default();
        Ok(Self {
            stocks: numbers("vouchers")?.into_iter().zip(stocks).collect(),
            sold: row.try_get("sold")?,
            sold_ids: numbers("sold_ids")?.into_iter().collect(),
            bought: numbers("repeats")?.into_iter().zip(numbers("bought")?).collect(),
        })
    }

    fn judge(&self, purchases: &[Purchase], sent_before: bool) -> Vec<Placed> {
        if usize::try_from(self.sold) == Ok(purchases.len()) {
            return purchases.iter().map(|one| Placed::Ordered(ordered(one))).collect();
        }
        // Before this batch, or in it by another purchase of the same user.
        let mut orders: HashMap<(UserId, VoucherId), i64> = HashMap::new();
        for one in purchases {
            let id = one.order_id.get();
            let order = self.sold_ids.get(&id).or_else(|| self.bought.get(&id));
            if let Some(order) = order {
                orders.insert((one.user_id, one.voucher_id), *order);
            }
        }
        let judge = |one: &Purchase| match orders.get(&(one.user_id, one.voucher_id)) {
            Some(order)
                if *order == one.order_id.get()
                    && (sent_before || self.sold_ids.contains(order)) =>
            {
                Placed::Ordered(ordered(one))
            }
            Some(order) => OrderId::new(*order).map_or(Placed::IdTaken, Placed::AlreadyBought),
            None => match self.stocks.get(&one.voucher_id.get()) {
                None => Placed::NoVoucher,
                Some(0) => Placed::SoldOut,
                // Not under the row's lock: but nobody is told "sold out" while there is some.
                Some(_) => Placed::StockCameBack,
            },
        };
        purchases.iter().map(judge).collect()
    }
}
