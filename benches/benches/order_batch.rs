//! The batcher, by criterion: so many orders in one transaction, on one connection, on a private
//! PostgreSQL that waits for its disk. A figure is the time of one transaction; the throughput is
//! in orders.
//!
//! * `place`: the one statement of strategy `locked`, one order in a transaction;
//! * `place_all`: what group commit sends, with all it looks at: who has bought, what is left;
//! * `plain insert`: the ceiling. The same rows into a table like that of the orders, from arrays,
//!   and neither stock nor buyers are looked at.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use seckill::model::{OrderId, SaleStatus};
use seckill::store::Commit;
use seckill::store::order_batch::{Sending, place_all};
use seckill::store::orders::{Placed, Purchase, place};
use seckill_benches::server::keep_or;
use seckill_benches::shop::{Sale, Shop};
use seckill_benches::together;
use sqlx::postgres::PgConnection;
use tokio::runtime::Runtime;

const SIZES: [usize; 4] = [1, 8, 64, 256];

fn main() -> ExitCode {
    keep_or("order_batch", compare)
}

fn compare() -> anyhow::Result<()> {
    // As `#[tokio::main]` makes it.
    let runtime = Runtime::new()?;
    // The connections need it where they end, also in a panic.
    let _inside = runtime.enter();
    let shop = Arc::new(Shop::open(&runtime)?);
    let sale = runtime.block_on(shop.put_on_sale("a batch", SaleStatus::OnSale))?;
    let table = sqlx::raw_sql("create table plain_orders (like orders including all)");
    runtime.block_on(table.execute(shop.database.pool()))?;
    let next_id = Arc::new(AtomicI64::new(1));
    let counter = Counter { shop, sale, next_id };

    let mut criterion = Criterion::default().configure_from_args();
    for size in SIZES {
        let mut group = criterion.benchmark_group(format!("orders/{size} a transaction"));
        group.throughput(Throughput::Elements(size as u64));
        group.warm_up_time(Duration::from_millis(500));
        group.measurement_time(Duration::from_secs(2));
        group.sample_size(30);
        if size == 1 {
            bench(&mut group, &runtime, &counter, Way::Place, size);
        }
        bench(&mut group, &runtime, &counter, Way::PlaceAll, size);
        bench(&mut group, &runtime, &counter, Way::PlainInsert, size);
        group.finish();
    }
    criterion.final_summary();
    let Counter { shop, sale, .. } = counter;
    let shop = Arc::try_unwrap(shop).ok().context("somebody is still in the shop")?;
    runtime.block_on(shop.audit(&[sale]))
}

/// How to write orders down.
#[derive(Debug, Clone, Copy)]
enum Way {
    Place,
    PlaceAll,
    PlainInsert,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::PlaceAll => "place_all",
            Self::PlainInsert => "plain insert",
        }
    }

    /// Writes them, and makes sure that they are written.
    async fn write(
        self,
        connection: &mut PgConnection,
        purchases: &[Purchase],
    ) -> anyhow::Result<()> {
        let placed = match (self, purchases) {
            (Self::PlainInsert, all) => return plain_insert(connection, all).await,
            (Self::Place, [one]) => vec![place(connection, one, Commit::Synchronous).await?],
            (Self::Place | Self::PlaceAll, all) => {
                place_all(connection, all, Sending::Hopeful).await?
            }
        };
        let all_ordered = placed.len() == purchases.len()
            && placed.iter().all(|placed| matches!(placed, Placed::Ordered(_)));
        ensure!(all_ordered, "not all were ordered: {placed:?}");
        Ok(())
    }
}

/// Where purchases come from.
#[derive(Debug, Clone)]
struct Counter {
    shop: Arc<Shop>,
    sale: Arc<Sale>,
    next_id: Arc<AtomicI64>,
}

impl Counter {
    /// Purchases of users who have bought nothing, with ids that rise as the worker's do.
    fn purchases(&self, size: usize) -> anyhow::Result<Vec<Purchase>> {
        let (at, voucher_id) = (self.shop.clock.now(), self.sale.voucher);
        let second = at.timestamp() - OrderId::EPOCH_SECONDS;
        let purchase = |_| {
            let sequence = self.next_id.fetch_add(1, Ordering::Relaxed);
            let order_id = OrderId::from_parts(second, sequence).context("ids are exhausted")?;
            Ok(Purchase { order_id, user_id: self.shop.fresh_buyer()?, voucher_id, at })
        };
        (0..size).map(purchase).collect()
    }

    /// The time that `rounds` transactions take, without what goes between them.
    async fn time(self, way: Way, size: usize, rounds: u64) -> anyhow::Result<Duration> {
        // As kept as that of a leader is.
        let mut connection = self.shop.database.acquire().await?;
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            let purchases = self.purchases(size)?;
            let begun = Instant::now();
            way.write(&mut connection, &purchases).await?;
            took += begun.elapsed();
            if !matches!(way, Way::PlainInsert) {
                self.sale.note_confirmed(size as u64);
            }
        }
        Ok(took)
    }
}

fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    counter: &Counter,
    way: Way,
    size: usize,
) {
    group.bench_function(way.name(), |bencher| {
        bencher.iter_custom(|rounds| {
            // In a task, as in the server: what waits outside of one is woken later.
            let timed = runtime.spawn(counter.clone().time(way, size, rounds));
            together::or_panic(runtime, way.name(), async { timed.await? })
        });
    });
}

async fn plain_insert(connection: &mut PgConnection, purchases: &[Purchase]) -> anyhow::Result<()> {
    let ids: Vec<i64> = purchases.iter().map(|one| one.order_id.get()).collect();
    let users: Vec<i64> = purchases.iter().map(|one| one.user_id.get()).collect();
    let Some(first) = purchases.first() else { return Ok(()) };
    let done = sqlx::query(
        "insert into plain_orders (id, user_id, voucher_id, created_at, updated_at)
         select id, user_id, $3, $4, $4 from unnest($1::bigint[], $2::bigint[]) as one (id, user_id)",
    )
    .bind(ids)
    .bind(users)
    .bind(first.voucher_id.get())
    .bind(first.at)
    .execute(connection)
    .await?;
    ensure!(done.rows_affected() == purchases.len() as u64, "{done:?}");
    Ok(())
}
