//! The order writer: orders that wait together, of one voucher or of many, are placed in one transaction.
//!
//! One call of the database's function `sell_many` (migrations/0002_functions.sql) is one transaction
//! and one round trip, for one buyer or for many. A voucher whose row another session holds delays no other: its
//! orders leave the batch, and wait for the row in a call of their own.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::{Instant, sleep};

use super::connecting::PoolKind;
use super::time_limits::ANSWER_WITHIN;
use super::{Database, DatabaseClock, DatabaseSession, Service, StoreError};
use crate::model::{Clock, Due, OrderId, Refusal, UserId, VoucherId};
use crate::telemetry::name;
use group_commit::{Answer, Batcher, Limits, Slots, Turn};
use redis_link::timeout::within;

/// Between two calls that ask what became of a batch.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// Batches in flight over all vouchers. More only make the batches smaller: of 64 vouchers on two
/// cores, 8 or 16 sold a fifth less than 4.
const BATCHES_IN_FLIGHT: NonZero<usize> = NonZero::new(4).unwrap();

/// Further ones, of vouchers whose rows other sessions hold.
const HELD_IN_FLIGHT: NonZero<usize> = NonZero::new(2).unwrap();

/// An order to place, of a purchase that began `at` this time.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the names say it
pub struct NewOrder {
    pub id: OrderId,
    pub user: UserId,
    pub at: DateTime<Utc>,
}

/// What became of a [`NewOrder`]. Unless it is `Ordered`, nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// The order is committed and one is taken from the stock. `None`: it costs nothing.
    Ordered(Option<Due>),
    /// By the database's clock, as sales begin and end.
    Refused(Refusal),
    /// Another order has the id.
    IdTaken,
}

type Answered = Result<Placed, StoreError>;

/// Places orders, those that wait together in one transaction.
#[derive(Debug)]
pub struct OrderWriter {
    batcher: Batcher<NewOrder, Answered, StoreError, VoucherId>,
}

impl OrderWriter {
    /// A writer to `database`. `limits` are those of each voucher: a leader has one transaction in
    /// flight. Where the data `is_distributed`, each batch is of one voucher: it runs on the worker that has it.
    pub fn new(
        database: Database,
        clock: Arc<DatabaseClock>,
        limits: Limits,
        is_distributed: bool,
    ) -> Self {
        let keys = if is_distributed { NonZero::<usize>::MIN } else { NonZero::<usize>::MAX };
        let slots = Slots::new(BATCHES_IN_FLIGHT).alone(HELD_IN_FLIGHT).keys(keys);
        let work = move |orders: Vec<Wanted>, turn| {
            let for_row =
                if is_distributed || turn == Turn::Alone { Wait::Long } else { Wait::Briefly };
            let writer = (database.clone(), Arc::clone(&clock));
            async move { place_batch(&writer, orders, for_row).await }
        };
        Self { batcher: Batcher::keyed(limits, slots, work) }
    }

    /// Places an order of `voucher`: it is committed when this returns `Ordered`. An order that was
    /// submitted is placed even if the caller stops waiting.
    ///
    /// # Errors
    /// `Unavailable`: nothing was written. `Unknown`: the order may have been written. `Defect`: the
    /// database refused it.
    pub async fn place(&self, voucher: VoucherId, order: NewOrder) -> Result<Placed, StoreError> {
        let placed = self.batcher.submit_to(voucher, order).await;
        placed.unwrap_or_else(|error| Err(StoreError::from_batch(Service::Postgres, error)))
    }

    /// Orders that wait for a transaction now, over all vouchers. Those that a batch left out, because another session
    /// holds the row of their voucher, are not counted; the orders behind them are.
    pub fn waiting(&self) -> usize {
        self.batcher.waiting()
    }

    /// Transactions in flight now, over all vouchers.
    pub fn batches_in_flight(&self) -> usize {
        self.batcher.in_flight()
    }
}

/// An order of a voucher.
type Wanted = (VoucherId, NewOrder);

/// How long a call waits for a voucher's row that another session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For so long that a batch of another server has ended. The orders of the voucher are left out then.
    Briefly,
    /// For as long as a buyer waits. All orders are of one voucher.
    Long,
}

/// Where orders are placed, and the clock by which a buyer waits.
type Writer = (Database, Arc<DatabaseClock>);

/// Places a batch. Where the database refuses it, each order is placed by itself: whatever is wrong
/// with one of them is not the others' fault.
async fn place_batch(
    writer: &Writer,
    orders: Vec<Wanted>,
    for_row: Wait,
) -> Result<Vec<Answer<NewOrder, Answered>>, StoreError> {
    metrics::histogram!(name::ORDER_BATCH_SIZE).record(orders.len() as f64);
    let placed = match place_all(writer, &orders, for_row).await {
        Err(error) if !error.retry_may_help() => {
            tracing::warn!(%error, size = orders.len(), "a batch was refused, placing one by one");
            place_one_by_one(writer, &orders, for_row).await
        }
        placed => placed?,
    };
    let answer = |(placed, (_, order)): (Option<Answered>, &Wanted)| match placed {
        Some(placed) => Answer::Done(placed),
        None => Answer::Alone(*order),
    };
    Ok(placed.into_iter().zip(&orders).map(answer).collect())
}

/// Places each order in a transaction of its own. When the database goes away, the rest is not sent.
async fn place_one_by_one(
    writer: &Writer,
    orders: &[Wanted],
    for_row: Wait,
) -> Vec<Option<Answered>> {
    let mut all = Vec::with_capacity(orders.len());
    for order in orders {
        match place_all(writer, std::slice::from_ref(order), for_row).await {
            Ok(placed) => all.extend(placed),
            Err(error) => {
                let gone = error.retry_may_help().then(|| StoreError::skipped_after(&error));
                all.push(Some(Err(error)));
                if let Some(skipped) = gone {
                    all.resize_with(orders.len(), || Some(Err(skipped.clone())));
                    break;
                }
            }
        }
    }
    all
}

/// Places `orders` in one transaction and returns what became of each, in their order: `None` where it was left out, and
/// nothing was done for it.
///
/// Where a connection breaks, it sends the same orders again, with the same ids, until the time is over:
/// what an earlier call wrote counts as placed and is not written twice. A silent server uses up the
/// time in one call. A row that is held then may be so by the call whose answer was lost.
async fn place_all(
    (database, clock): &Writer,
    orders: &[Wanted],
    for_row: Wait,
) -> Result<Vec<Option<Answered>>, StoreError> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut first_unknown: Option<StoreError> = None;
    let mut stale_sessions = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let call = database.run(async |session| sell(session, clock, orders, for_row).await);
        // A call that takes longer is dropped here, and its connection is closed. (`within` does not
        // count the time in which this process was too busy to read the answer.)
        let answer = within(left, call)
            .await
            .unwrap_or_else(|timed_out| Err(StoreError::unknown(Service::Postgres, timed_out)));
        let is_over = Instant::now() + RESEND_PAUSE >= deadline;
        let unknown = match (answer, first_unknown) {
            (Ok(placed), None) => return Ok(placed.into_iter().map(|one| one.map(Ok)).collect()),
            (Ok(placed), Some(unknown)) if is_over || !placed.contains(&None) => {
                let known = |one: Option<Placed>| Some(one.ok_or_else(|| unknown.clone()));
                return Ok(placed.into_iter().map(known).collect());
            }
            // Each session of the pool meets it once, and is closed.
            (Err(error), first)
                if error.is_stale_plan() && stale_sessions < PoolKind::Purchases.connections() =>
            {
                (stale_sessions, first_unknown) = (stale_sessions + 1, first);
                continue;
            }
            (Err(error), None) if is_over || !error.outcome_unknown() => return Err(error),
            // Once an answer was lost, an error of a later call does not tell what the first one did.
            (_, Some(unknown)) if is_over => return Err(unknown),
            (_, Some(unknown)) | (Err(unknown), None) => unknown,
        };
        tracing::debug!(error = %unknown, "an answer was lost, asking what became of the orders");
        metrics::counter!(name::ORDER_BATCH_RESENT).increment(1);
        first_unknown = Some(unknown);
        sleep(RESEND_PAUSE).await;
    }
}

/// The function returns the orders that it did not place, and why, and those that are to be paid for. All
/// others are placed and cost nothing. `None`: the row of the voucher was held, and nothing was done.
async fn sell(
    session: &mut DatabaseSession,
    clock: &DatabaseClock,
    orders: &[Wanted],
    for_row: Wait,
) -> Result<Vec<Option<Placed>>, StoreError> {
    let vouchers: Vec<i64> = orders.iter().map(|(voucher, _)| voucher.get()).collect();
    let call = match for_row {
        Wait::Briefly => sqlx::query_as("select * from sell_many($1, $2, $3, $4)").bind(vouchers),
        Wait::Long => {
            assert!(
                vouchers.iter().all(|one| *one == vouchers[0]),
                "these are of several vouchers"
            );
            sqlx::query_as("select * from sell($1, $2, $3, $4)").bind(vouchers[0])
        }
    };
    let sold = call
        .bind(orders.iter().map(|(_, order)| order.id.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|(_, order)| order.user.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|(_, order)| order.at).collect::<Vec<_>>())
        .fetch_all(session)
        .await
        .map_err(StoreError::from);
    let rows: Vec<SoldRow> = match sold {
        Err(error) if for_row == Wait::Briefly && error.is_row_held() => {
            return Ok(vec![None; orders.len()]);
        }
        sold => sold?,
    };
    let mut named = HashMap::new();
    for row in &rows {
        named.insert((row.0, row.1), placed(row, clock)?);
    }
    let mut count = 0;
    let all = orders.iter().map(|(voucher, order)| match named.get(&(*voucher, order.id)) {
        Some(placed) => {
            count += 1;
            placed.clone()
        }
        None => Some(Placed::Ordered(None)),
    });
    let all = all.collect();
    // Where a name fits no order, an order that was refused would count as placed.
    assert_eq!(count, rows.len(), "the database names orders that it was not asked for: {rows:?}");
    Ok(all)
}

/// What is said of an order: its voucher and its id, what became of it, the order that its buyer has already, and what
/// is to be paid by when.
type SoldRow = (VoucherId, OrderId, String, Option<OrderId>, Option<i64>, Option<DateTime<Utc>>);

/// `None`: it was left out.
fn placed(row: &SoldRow, clock: &DatabaseClock) -> Result<Option<Placed>, StoreError> {
    let (_, _, word, earlier, to_pay, until) = row;
    match (word.as_str(), to_pay.zip(*until)) {
        ("held", _) => Ok(None),
        ("ordered", Some((amount, pay_by))) => {
            Ok(Some(Placed::Ordered(Some(Due { amount, pay_by }))))
        }
        ("id_taken", _) => Ok(Some(Placed::IdTaken)),
        _ => match Refusal::read(word, *earlier, *until, || clock.now()) {
            Some(refusal) => Ok(Some(Placed::Refused(refusal))),
            None => Err(StoreError::defect(Service::Postgres, format!("sold as {row:?}"))),
        },
    }
}
