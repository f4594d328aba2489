//! The order writer: orders of one voucher that wait together are placed in one transaction.
//!
//! One call of the database's function `sell` (migrations/0002_functions.sql) is one transaction
//! and one round trip, for one buyer or for many. Each voucher has a batcher of its own. A voucher whose
//! row is locked delays no other voucher, unless as many rows are locked as batches may be in flight.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::postgres::PURCHASE_CONNECTIONS;
use super::time_limits::ANSWER_WITHIN;
use super::{Database, DatabaseSession, Service, StoreError};
use crate::model::{Due, OrderId, RecentPeak, UserId, VoucherId};
use crate::telemetry;
use group_commit::{Batcher, Limits};
use redisson_lock::timeout::within;

/// Between two calls that ask what became of a batch.
const RESEND_PAUSE: Duration = Duration::from_millis(50);

/// Batches in flight over all vouchers. More only make the batches smaller: of 64 vouchers on two
/// cores, 8 or 16 sold a fifth less than 4.
const MAX_BATCHES_IN_FLIGHT: usize = 4;

/// Vouchers that have a batcher at once. A batcher that the cache evicts is made again when needed.
const MAX_BATCHERS: usize = 10_000;

/// An order to place, of a purchase that began `at` this time.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // the names say it
pub struct NewOrder {
    pub id: OrderId,
    pub user: UserId,
    pub at: DateTime<Utc>,
}

/// The outcome of a [`NewOrder`]. Unless it is `Ordered`, nothing was written. Sales begin and end by the
/// database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Placement {
    /// The order is committed and one is taken from the stock. `None`: it costs nothing.
    Ordered(Option<Due>),
    /// The user has this live order of the voucher.
    AlreadyBought(OrderId),
    SoldOut,
    SaleNotStarted,
    SaleEnded,
    SalePaused,
    VoucherNotFound,
    /// Another order has the id.
    IdTaken,
    /// The user has cancelled an order of the voucher, and may buy again at this instant.
    TooSoon(DateTime<Utc>),
}

type OrderBatcher = Batcher<QueuedOrder, Result<Placement, StoreError>, StoreError>;

/// Places orders, those of one voucher together.
#[derive(Debug)]
pub struct OrderWriter {
    database: Database,
    limits: Limits,
    slots: Arc<Semaphore>,
    batchers: Cache<VoucherId, OrderBatcher>,
    queue: Arc<OrderQueue>,
}

/// How many orders wait, over all vouchers, and how many did so lately.
#[derive(Debug)]
struct OrderQueue {
    depth: AtomicUsize,
    peak: RecentPeak,
    began: Instant,
}

/// An order that waits until it is dropped: a batch takes the order out, or gives it up.
#[derive(Debug)]
struct QueuedOrder {
    order: NewOrder,
    queue: Arc<OrderQueue>,
}

impl QueuedOrder {
    fn new(order: NewOrder, queue: &Arc<OrderQueue>) -> Self {
        let depth = queue.depth.fetch_add(1, Ordering::Relaxed) + 1;
        queue.peak.record(depth, queue.began.elapsed());
        Self { order, queue: Arc::clone(queue) }
    }
}

impl Drop for QueuedOrder {
    fn drop(&mut self) {
        self.queue.depth.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OrderWriter {
    /// A writer to `database`. `limits` are those of each voucher: a leader has one transaction in
    /// flight.
    pub fn new(database: Database, limits: Limits) -> Self {
        Self {
            database,
            limits,
            slots: Arc::new(Semaphore::new(MAX_BATCHES_IN_FLIGHT)),
            batchers: Cache::new(MAX_BATCHERS),
            queue: Arc::new(OrderQueue {
                depth: AtomicUsize::new(0),
                peak: RecentPeak::default(),
                began: Instant::now(),
            }),
        }
    }

    /// Places an order of `voucher`: it is committed when this returns `Ordered`. An order that was
    /// submitted is placed even if the caller stops waiting.
    ///
    /// # Errors
    /// `Unavailable`: nothing was written. `Unknown`: the order may have been written. `Defect`: the
    /// database refused it.
    pub async fn place(
        &self,
        voucher: VoucherId,
        order: NewOrder,
    ) -> Result<Placement, StoreError> {
        let order = QueuedOrder::new(order, &self.queue);
        let placed = self.batcher(voucher).submit(order).await;
        placed.unwrap_or_else(|error| Err(StoreError::from_batch(Service::Postgres, error)))
    }

    /// Orders that wait for a transaction now, over all vouchers.
    pub fn waiting(&self) -> usize {
        self.queue.depth.load(Ordering::Relaxed)
    }

    /// The most orders that waited at once lately
    /// ([`PEAK_LASTS`](crate::model::recent_peak::PEAK_LASTS)).
    pub fn waiting_peak(&self) -> usize {
        let now = self.queue.began.elapsed();
        // An order may wait for longer than a peak is remembered.
        self.queue.peak.record(self.waiting(), now);
        self.queue.peak.highest(now)
    }

    /// Transactions in flight now, over all vouchers.
    pub fn batches_in_flight(&self) -> usize {
        MAX_BATCHES_IN_FLIGHT - self.slots.available_permits()
    }

    fn batcher(&self, voucher: VoucherId) -> OrderBatcher {
        let Ok(batcher) = self.batchers.get_or_insert_with(&voucher, || {
            let database = self.database.clone();
            let work = move |queued: Vec<QueuedOrder>| {
                let orders: Vec<NewOrder> = queued.iter().map(|queued| queued.order).collect();
                // The transaction begins: they wait no longer.
                drop(queued);
                let database = database.clone();
                async move { place_batch(&database, voucher, &orders).await }
            };
            Ok::<_, Infallible>(Batcher::with_slots(self.limits, Arc::clone(&self.slots), work))
        });
        batcher
    }
}

/// Places a batch. Where the database refuses it, each order is placed by itself: whatever is wrong
/// with one of them is not the others' fault.
async fn place_batch(
    database: &Database,
    voucher: VoucherId,
    orders: &[NewOrder],
) -> Result<Vec<Result<Placement, StoreError>>, StoreError> {
    telemetry::order_batch(orders.len());
    match place_all(database, voucher, orders).await {
        Ok(placed) => Ok(placed.into_iter().map(Ok).collect()),
        Err(error) if error.retry_may_help() => Err(error),
        Err(error) => {
            tracing::warn!(%error, size = orders.len(), "a batch was refused, placing one by one");
            Ok(place_one_by_one(database, voucher, orders).await)
        }
    }
}

/// Places each order in a transaction of its own. When the database goes away, the rest is not sent.
async fn place_one_by_one(
    database: &Database,
    voucher: VoucherId,
    orders: &[NewOrder],
) -> Vec<Result<Placement, StoreError>> {
    let mut all = Vec::with_capacity(orders.len());
    for order in orders {
        let placed = place_all(database, voucher, std::slice::from_ref(order)).await;
        let gone = placed.as_ref().err().filter(|error| error.retry_may_help()).cloned();
        all.push(placed.map(|placed| placed[0]));
        if let Some(error) = gone {
            all.resize_with(orders.len(), || Err(StoreError::skipped_after(&error)));
            break;
        }
    }
    all
}

/// Places `orders` in one transaction and returns what became of each, in their order.
///
/// Where a connection breaks, it sends the same orders again, with the same ids, until the time is over:
/// what an earlier call wrote counts as placed and is not written twice. A silent server uses up the
/// time in one call.
async fn place_all(
    database: &Database,
    voucher: VoucherId,
    orders: &[NewOrder],
) -> Result<Vec<Placement>, StoreError> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let mut first_unknown: Option<StoreError> = None;
    let mut stale_sessions = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let call = database.run(async |session| sell(session, voucher, orders).await);
        // A call that takes longer is dropped here, and its connection is closed. (`within` does not
        // count the time in which this process was too busy to read the answer.)
        let error = match within(left, call).await {
            Ok(Ok(placed)) => return Ok(placed),
            Ok(Err(error)) => error,
            Err(timed_out) => StoreError::unknown(Service::Postgres, timed_out),
        };
        // Each session of the pool meets it once, and is closed.
        if error.is_stale_plan() && stale_sessions < PURCHASE_CONNECTIONS {
            stale_sessions += 1;
            continue;
        }
        // Once an answer was lost, an error of a later call does not tell what the first one did.
        let nothing_was_done = first_unknown.is_none() && !error.outcome_unknown();
        if nothing_was_done {
            return Err(error);
        }
        let unknown = first_unknown.unwrap_or(error);
        if Instant::now() + RESEND_PAUSE >= deadline {
            return Err(unknown);
        }
        tracing::debug!(error = %unknown, "an answer was lost, asking what became of the orders");
        telemetry::order_batch_resent();
        first_unknown = Some(unknown);
        sleep(RESEND_PAUSE).await;
    }
}

/// The function returns the orders that it did not place, and why, and those that are to be paid for. All
/// others are placed and cost nothing.
async fn sell(
    session: &mut DatabaseSession,
    voucher: VoucherId,
    orders: &[NewOrder],
) -> Result<Vec<Placement>, StoreError> {
    let rows: Vec<SoldRow> = sqlx::query_as("select * from sell($1, $2, $3, $4)")
        .bind(voucher.get())
        .bind(orders.iter().map(|order| order.id.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.user.get()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.at).collect::<Vec<_>>())
        .fetch_all(session)
        .await?;
    let mut named = HashMap::new();
    for row in &rows {
        named.insert(row.0, placement(row)?);
    }
    let placed: Vec<Option<Placement>> =
        orders.iter().map(|order| named.get(&order.id).copied()).collect();
    // Where a name fits no order, an order that was refused would count as placed.
    assert_eq!(
        placed.iter().flatten().count(),
        rows.len(),
        "sell names orders that it was not asked for: {rows:?}"
    );
    Ok(placed.into_iter().map(|named| named.unwrap_or(Placement::Ordered(None))).collect())
}

/// What `sell` says of an order: its id, what became of it, the order that its buyer has already, and what
/// is to be paid by when.
type SoldRow = (OrderId, String, Option<OrderId>, Option<i64>, Option<DateTime<Utc>>);

fn placement(row: &SoldRow) -> Result<Placement, StoreError> {
    let (_, reason, earlier, to_pay, until) = row;
    Ok(match (reason.as_str(), *earlier, to_pay.zip(*until)) {
        ("ordered", _, Some((amount, pay_by))) => Placement::Ordered(Some(Due { amount, pay_by })),
        ("already_bought", Some(earlier), _) => Placement::AlreadyBought(earlier),
        ("sold_out", ..) => Placement::SoldOut,
        ("sale_not_started", ..) => Placement::SaleNotStarted,
        ("sale_ended", ..) => Placement::SaleEnded,
        ("sale_paused", ..) => Placement::SalePaused,
        ("voucher_not_found", ..) => Placement::VoucherNotFound,
        ("id_taken", ..) => Placement::IdTaken,
        ("too_soon", ..) if until.is_some() => Placement::TooSoon(until.unwrap_or_default()),
        _ => return Err(StoreError::defect(Service::Postgres, format!("sell says {row:?}"))),
    })
}
