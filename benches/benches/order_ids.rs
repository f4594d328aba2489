//! The order-id worker, by criterion, beside what is beneath it: one `INCRBY` over the same
//! client, on the same private Redis. What lies between the two is what the worker costs.
//!
//! `order id/N tasks`: a figure is the time in which each of the tasks has drawn one.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use seckill::model::OrderId;
use seckill::store::{Keys, OrderIds, Redis};
use seckill_benches::server::keep_or;
use seckill_benches::shop::Shop;
use seckill_benches::together;
use tokio::runtime::Runtime;

const TASKS: [usize; 3] = [1, 50, 500];

fn main() -> ExitCode {
    keep_or("order_ids", compare)
}

fn compare() -> anyhow::Result<()> {
    // As `#[tokio::main]` makes it.
    let runtime = Runtime::new()?;
    // The connections need it where they end, also in a panic.
    let _inside = runtime.enter();
    let shop = Shop::open(&runtime)?;
    let redis = shop.redis.clone();
    let keys = Keys::default();
    let ids = Arc::new(OrderIds::new(redis.clone(), keys, Arc::clone(&shop.clock), None));
    // As long as the worker's.
    let counter: Arc<str> = "raw:order:2022:01:01".into();

    let mut criterion = Criterion::default().configure_from_args();
    for tasks in TASKS {
        let mut group = criterion.benchmark_group(format!("order id/{tasks} tasks"));
        group.throughput(Throughput::Elements(tasks as u64));
        settings(&mut group);
        group.bench_function("INCRBY", |bencher| {
            bencher.iter_custom(|rounds| {
                let drawn = increment(&redis, &counter, tasks, rounds);
                together::or_panic(&runtime, "INCRBY", drawn)
            });
        });
        group.bench_function("next", |bencher| {
            bencher.iter_custom(|rounds| {
                together::or_panic(&runtime, "next", draw(&ids, tasks, rounds))
            });
        });
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

fn settings(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    group.sample_size(30);
}

async fn increment(
    redis: &Redis,
    counter: &Arc<str>,
    tasks: usize,
    rounds: u64,
) -> anyhow::Result<Duration> {
    together::run(tasks, |_| {
        let (redis, counter) = (redis.clone(), Arc::clone(counter));
        async move {
            for _ in 0..rounds {
                let number: i64 =
                    redis.query(redis::cmd("INCRBY").arg(&*counter).arg(1_u32)).await?;
                ensure!(number > 0, "the counter is at {number}");
            }
            Ok(())
        }
    })
    .await
}

async fn draw(ids: &Arc<OrderIds>, tasks: usize, rounds: u64) -> anyhow::Result<Duration> {
    together::run(tasks, |_| {
        let ids = Arc::clone(ids);
        async move {
            let mut last: Option<OrderId> = None;
            for _ in 0..rounds {
                let id = ids.next().await?;
                ensure!(Some(id) > last, "{id} was drawn after {last:?}");
                last = Some(id);
            }
            Ok(())
        }
    })
    .await
}
