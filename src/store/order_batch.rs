//! Many orders in one transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Executor, Row, SqlSafeStr};

use super::orders::{Placed, Purchase, ordered};
use super::{Service, StoreError};
use crate::model::{OrderId, UserId, VoucherId};

/// The calls of the functions; see [`place_all`].
const PLACE_ORDERS: &str = "select * from seckill_place_orders($1, $2, $3, $4, $5, $6, $7)";
const PLACE_NEW_ORDERS: &str = "select * from seckill_place_new_orders($1, $2, $3, $4, $5, $6, $7)";

/// PostgreSQL's `lock_not_available`: somebody held a row for longer than [`LOCK_TIMEOUT`].
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// How long a batch waits for a row. Other processes' batches take a hundredth of that; whoever
/// holds one row for longer would hold up everybody in the batch, and keep the other rows locked.
const LOCK_TIMEOUT: &str = "400ms";
const NO_LOCK_TIMEOUT: &str = "0";

/// How a batch is sent. What becomes of it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// For the first time. That a buyer has bought before is noticed when his order cannot be
    /// written: the cheapest way, where none has.
    Hopeful,
    /// For the first time. Who has bought is looked up before anything is written.
    Careful,
    /// Again: the answer was lost.
    Again,
}

/// Sells to all of `purchases` in their order, in one transaction: committed when this returns.
/// What became of each, by its place.
///
/// Sent again with the same ids it changes nothing, and as [`Sending::Again`] says the same: an
/// order that the user has under the purchase's own id is that purchase's. Whoever lost the
/// answer asks so, and waits for the rows however long it takes. Sent for the first time such an
/// order is another's: of a process that drew the same id when Redis had lost the counter, for the
/// same user.
///
/// It is one call of a function of the database (`migrations/0002_place_orders.sql`, or, where one
/// is hopeful, `0003_place_new_orders.sql`), and so one round trip: the rows are never locked across
/// another, and there is no open transaction that anybody could leave behind.
///
/// # Errors
/// `Unknown` when the connection broke after sending: all of them may be there, or none.
/// `Defect` when one of them could not be written, because another order has its id, say, or
/// somebody holds its voucher's row: then none is.
pub async fn place_all(
    connection: &mut PgConnection,
    purchases: &[Purchase],
    sending: Sending,
) -> Result<Vec<Placed>, StoreError> {
    // Of a user who comes twice for a voucher the first is sent.
    let mut buyers = HashSet::with_capacity(purchases.len());
    let firsts = purchases.iter().filter(|one| buyers.insert((one.user_id, one.voucher_id)));
    let firsts: Vec<&Purchase> = firsts.collect();
    if firsts.is_empty() {
        return Ok(Vec::new());
    }
    let row = match send(connection, &firsts, sending).await {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some(LOCK_NOT_AVAILABLE) && sending != Sending::Again =>
        {
            return Err(StoreError::defect(Service::Postgres, "somebody holds a row of the batch"));
        }
        sent => sent?,
    };
    Ok(Books::read(&row, &firsts)?.judge(purchases, sending == Sending::Again))
}

/// Makes the calls known to a connection, before the first batch waits for that.
///
/// # Errors
/// As any statement: before the migrations there are no functions.
pub(super) async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.prepare(PLACE_ORDERS.into_sql_str()).await?;
    connection.prepare(PLACE_NEW_ORDERS.into_sql_str()).await.map(drop)
}

async fn send(
    connection: &mut PgConnection,
    firsts: &[&Purchase],
    sending: Sending,
) -> Result<PgRow, sqlx::Error> {
    // In ascending order: see the function.
    let mut wanted: BTreeMap<i64, i32> = BTreeMap::new();
    for one in firsts {
        *wanted.entry(one.voucher_id.get()).or_default() += 1;
    }
    let (sales, wanted): (Vec<i64>, Vec<i32>) = wanted.into_iter().unzip();
    let (call, wait) = match sending {
        Sending::Hopeful => (PLACE_NEW_ORDERS, LOCK_TIMEOUT),
        Sending::Careful => (PLACE_ORDERS, LOCK_TIMEOUT),
        Sending::Again => (PLACE_ORDERS, NO_LOCK_TIMEOUT),
    };
    // What it returns has been read to the end, and so beyond the commit.
    sqlx::query(call)
        .bind(firsts.iter().map(|one| one.order_id.get()).collect::<Vec<_>>())
        .bind(firsts.iter().map(|one| one.user_id.get()).collect::<Vec<_>>())
        .bind(firsts.iter().map(|one| one.voucher_id.get()).collect::<Vec<_>>())
        .bind(firsts.iter().map(|one| one.at).collect::<Vec<_>>())
        .bind(sales)
        .bind(wanted)
        .bind(wait)
        .fetch_one(connection)
        .await
}

/// What the function says.
struct Books {
    sold_ids: HashSet<i64>,
    /// Left after it, of the vouchers that there are. Only where there was not enough for all.
    stocks: HashMap<i64, i32>,
    /// The order that the buyer had before, by the id that was to be this one's.
    bought: HashMap<i64, i64>,
}

impl Books {
    fn read(row: &PgRow, firsts: &[&Purchase]) -> Result<Self, StoreError> {
        let numbers = |column: &str| -> Result<Vec<i64>, StoreError> {
            Ok(row.try_get::<Option<Vec<i64>>, _>(column)?.unwrap_or_default())
        };
        let bought: HashMap<i64, i64> =
            numbers("repeats")?.into_iter().zip(numbers("bought")?).collect();
        let sold: i64 = row.try_get("sold")?;
        let sold_ids = if usize::try_from(sold) == Ok(firsts.len() - bought.len()) {
            let ids = firsts.iter().map(|one| one.order_id.get());
            ids.filter(|id| !bought.contains_key(id)).collect()
        } else {
            numbers("sold_ids")?.into_iter().collect()
        };
        let stocks = row.try_get::<Option<Vec<i32>>, _>("stocks")?.unwrap_or_default();
        Ok(Self {
            sold_ids,
            stocks: numbers("vouchers")?.into_iter().zip(stocks).collect(),
            bought,
        })
    }

    fn judge(&self, purchases: &[Purchase], sent_before: bool) -> Vec<Placed> {
        if self.sold_ids.len() == purchases.len() {
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
                // A row that was not there to be locked, perhaps: nobody is told "sold out" while
                // there is some.
                Some(_) => Placed::StockCameBack,
            },
        };
        purchases.iter().map(judge).collect()
    }
}
