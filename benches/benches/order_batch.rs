//! A batch of orders, by criterion: so many in one transaction, on one connection, on a private
//! PostgreSQL that waits for its disk. A figure is the time of one transaction; the throughput is
//! in orders.
//!
//! * `place_orders`: the function that every strategy calls;
//! * `plain insert`: the ceiling. The same rows into a table like that of the orders, from arrays,
//!   and neither stock nor buyers are looked at.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use seckill::model::{OrderId, SaleStatus, VoucherId};
use seckill::store::NewOrder;
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
        bench(&mut group, &runtime, &counter, Way::PlaceOrders, size);
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
    PlaceOrders,
    PlainInsert,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::PlaceOrders => "place_orders",
            Self::PlainInsert => "plain insert",
        }
    }

    /// Writes them, and makes sure that they are written.
    async fn write(
        self,
        connection: &mut PgConnection,
        voucher: VoucherId,
        orders: &[NewOrder],
    ) -> anyhow::Result<()> {
        let statement = match self {
            Self::PlaceOrders => sqlx::query("select * from place_orders($1, $2, $3, $4)"),
            Self::PlainInsert => sqlx::query(
                "insert into plain_orders (voucher_id, id, user_id, created_at, updated_at)
                 select $1, id, user_id, at, at
                 from unnest($2::bigint[], $3::bigint[], $4::timestamptz[]) as m (id, user_id, at)
                 returning id",
            ),
        };
        let rows = statement
            .bind(voucher.get())
            .bind(orders.iter().map(|order| order.id.get()).collect::<Vec<_>>())
            .bind(orders.iter().map(|order| order.user.get()).collect::<Vec<_>>())
            .bind(orders.iter().map(|order| order.at).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        // The function names the orders that it did not place, the insert those that it wrote.
        let expected = if matches!(self, Self::PlaceOrders) { 0 } else { orders.len() };
        ensure!(rows.len() == expected, "{} rows", rows.len());
        Ok(())
    }
}

/// The source of new orders.
#[derive(Debug, Clone)]
struct Counter {
    shop: Arc<Shop>,
    sale: Arc<Sale>,
    next_id: Arc<AtomicI64>,
}

impl Counter {
    /// Orders of users who have bought nothing, with ids that rise as the worker's do.
    fn orders(&self, size: usize) -> anyhow::Result<Vec<NewOrder>> {
        let at = self.shop.clock.now();
        let second = at.timestamp() - OrderId::EPOCH_SECONDS;
        let order = |_| {
            let sequence = self.next_id.fetch_add(1, Ordering::Relaxed);
            let id = OrderId::from_parts(second, sequence).context("ids are exhausted")?;
            Ok(NewOrder { id, user: self.shop.fresh_buyer()?, at })
        };
        (0..size).map(order).collect()
    }

    /// The time that `rounds` transactions take, without what goes between them.
    async fn time(self, way: Way, size: usize, rounds: u64) -> anyhow::Result<Duration> {
        let mut connection = self.shop.database.pool().acquire().await?;
        let mut took = Duration::ZERO;
        for _ in 0..rounds {
            let orders = self.orders(size)?;
            let begun = Instant::now();
            way.write(&mut connection, self.sale.voucher, &orders).await?;
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
