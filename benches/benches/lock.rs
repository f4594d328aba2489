//! Uncontended pairs of acquire and release, by criterion: ours and the peers in one run, on
//! one private Redis. A figure is the time in which each of the tasks has done one pair; the
//! throughput is in pairs. `contender.rs` says what a pair is for each of them.

use std::process::ExitCode;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use seckill_benches::contender::{Contender, Ours, OursFair, Rlock, Rslock};
use seckill_benches::server::{Server, keep_or};
use seckill_benches::{pairs, together};
use tokio::runtime::Runtime;

const TASKS: [usize; 3] = [1, 50, 500];

fn main() -> ExitCode {
    keep_or("lock", compare)
}

fn compare() -> anyhow::Result<()> {
    let server = Server::start()?;
    // As `#[tokio::main]` makes it.
    let runtime = Runtime::new()?;
    let ours = runtime.block_on(Ours::connect(server.url()))?;
    let fair = runtime.block_on(OursFair::connect(server.url()))?;
    let rlock = runtime.block_on(Rlock::connect(server.url()))?;
    let rslock = runtime.block_on(Rslock::connect(server.url()))?;

    let mut criterion = Criterion::default().configure_from_args();
    for tasks in TASKS {
        let mut group = criterion.benchmark_group(format!("pair/{tasks} tasks"));
        group.throughput(Throughput::Elements(tasks as u64));
        group.warm_up_time(Duration::from_millis(500));
        group.measurement_time(Duration::from_secs(3));
        group.sample_size(30);
        bench(&mut group, &runtime, &ours, tasks);
        bench(&mut group, &runtime, &fair, tasks);
        bench(&mut group, &runtime, &rlock, tasks);
        bench(&mut group, &runtime, &rslock, tasks);
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

fn bench<C: Contender>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    contender: &C,
    tasks: usize,
) {
    group.bench_function(BenchmarkId::from_parameter(C::NAME), |bencher| {
        bencher.iter_custom(|rounds| {
            together::or_panic(runtime, C::NAME, pairs::run(contender, tasks, rounds))
        });
    });
}
