//! The whole purchase, by criterion: what a request goes through behind HTTP, with private
//! servers that write to disk as those of `serve` do.
//!
//! `purchase/N buyers`: N tasks buy one voucher in turn, each time as a user who never bought, by
//! each of the strategies. A figure is the time in which each of the tasks has bought once; the
//! throughput is in confirmed orders. Anything but a confirmed order ends the run, and so do books
//! that do not hold as many.
//!
//! `refusal`: what a process answers from memory, one call after the other.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use seckill::model::{Outcome, SaleStatus, UserId, VoucherId};
use seckill::seckill::{Purchases, PurchasesOptions, Strategy};
use seckill::store::Keys;
use seckill::telemetry;
use seckill_benches::server::keep_or;
use seckill_benches::shop::{Sale, Shop};
use seckill_benches::together;
use tokio::runtime::Runtime;

const BUYERS: [usize; 3] = [1, 64, 256];

fn main() -> ExitCode {
    keep_or("purchase", compare)
}

fn compare() -> anyhow::Result<()> {
    // As `#[tokio::main]` makes it.
    let runtime = Runtime::new()?;
    // The connections need it where they end, also in a panic.
    let _inside = runtime.enter();
    let shop = Arc::new(Shop::open(&runtime)?);
    // They are counted in a server, too.
    runtime.block_on(async { telemetry::start_metrics() });
    let mut sellers = Vec::new();
    for strategy in Strategy::ALL {
        sellers.push(runtime.block_on(Seller::start(&shop, strategy))?);
    }

    let mut criterion = Criterion::default().configure_from_args();
    for buyers in BUYERS {
        sell(&mut criterion, &runtime, &sellers, buyers);
    }
    refuse(&mut criterion, &runtime, &sellers[0])?;
    criterion.final_summary();

    let mut sales = Vec::new();
    for seller in sellers {
        runtime.block_on(seller.purchases.shutdown());
        sales.push(seller.sale);
    }
    let shop = Arc::try_unwrap(shop).ok().context("somebody is still in the shop")?;
    runtime.block_on(shop.audit(&sales))
}

/// A strategy, and the voucher that it alone sells.
#[derive(Clone)]
struct Seller {
    shop: Arc<Shop>,
    strategy: Strategy,
    purchases: Arc<Purchases>,
    sale: Arc<Sale>,
}

impl Seller {
    async fn start(shop: &Arc<Shop>, strategy: Strategy) -> anyhow::Result<Self> {
        let purchases = Purchases::start(
            shop.database.clone(),
            shop.redis.clone(),
            Keys::default(),
            Arc::clone(&shop.clock),
            PurchasesOptions { strategy, ..PurchasesOptions::default() },
        )
        .await?;
        let sale = shop.put_on_sale(strategy.as_str(), SaleStatus::OnSale).await?;
        Ok(Self { shop: Arc::clone(shop), strategy, purchases, sale })
    }

    /// How long it takes until each of `buyers` tasks has bought `rounds` times.
    async fn sell(&self, buyers: usize, rounds: u64) -> anyhow::Result<Duration> {
        let took = together::run(buyers, |_| {
            let seller = self.clone();
            async move {
                for _ in 0..rounds {
                    let (user, voucher) = (seller.shop.fresh_buyer()?, seller.sale.voucher);
                    match seller.purchases.buy(user, voucher).await? {
                        Outcome::Ordered(order) if order.user_id == user => {}
                        other => bail!("user {user} was told {other:?}"),
                    }
                }
                Ok(())
            }
        })
        .await?;
        self.sale.note_confirmed(buyers as u64 * rounds);
        Ok(took)
    }
}

fn sell(criterion: &mut Criterion, runtime: &Runtime, sellers: &[Seller], buyers: usize) {
    let mut group = criterion.benchmark_group(format!("purchase/{buyers} buyers"));
    group.throughput(Throughput::Elements(buyers as u64));
    // Each sample as many rounds: the first and the last batch of a sample are smaller ones.
    group.sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_secs(1));
    group.measurement_time(Duration::from_secs(5));
    group.sample_size(20);
    for seller in sellers {
        let name = seller.strategy.as_str();
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|rounds| {
                together::or_panic(runtime, name, seller.sell(buyers, rounds))
            });
        });
    }
    group.finish();
}

fn refuse(criterion: &mut Criterion, runtime: &Runtime, seller: &Seller) -> anyhow::Result<()> {
    let mut group = criterion.benchmark_group("refusal");
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    group.sample_size(30);
    for (status, code) in [
        (SaleStatus::SoldOut, "sold_out"),
        (SaleStatus::Upcoming, "sale_not_started"),
        (SaleStatus::Ended, "sale_ended"),
    ] {
        let sale = runtime.block_on(seller.shop.put_on_sale(code, status))?;
        let user = seller.shop.fresh_buyer()?;
        group.bench_function(code, |bencher| {
            bencher.iter_custom(|rounds| {
                let purchases = Arc::clone(&seller.purchases);
                let refused = be_refused(purchases, user, sale.voucher, code, rounds);
                let timed = runtime.spawn(refused);
                together::or_panic(runtime, code, async { timed.await? })
            });
        });
    }
    group.finish();
    Ok(())
}

async fn be_refused(
    purchases: Arc<Purchases>,
    user: UserId,
    voucher: VoucherId,
    code: &str,
    rounds: u64,
) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    for _ in 0..rounds {
        let outcome = purchases.buy(user, voucher).await?;
        ensure!(outcome.code() == code, "user {user} was told {outcome:?}");
    }
    Ok(begun.elapsed())
}
