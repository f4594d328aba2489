//! Servers that die, and data that moves, in the middle of a sale on distributed data.

use std::time::Instant;

use seckill::seckill::{Strategy, audit};

use super::citus::{Citus, is_installed};
use crate::faults::crowd::{Answer, Crowd, What, in_progress, only};
use crate::faults::sale::Sale;
use crate::processes::{Node, eventually};
use crate::redis_nodes::Cluster;

const ORDERS: usize = 50;

/// A sale on each of two workers, each with a crowd of its own, on two nodes.
struct Stage {
    cluster: Citus,
    redis: Cluster,
    sales: [Sale; 2],
    crowds: [Crowd; 2],
    _nodes: [Node; 2],
}

impl Stage {
    async fn new() -> Self {
        let redis = Cluster::start(3).await;
        let cluster = Citus::distributed(2).await;
        let url = cluster.coordinator.url();
        let first = Sale::open(&url, &redis.url(), Strategy::GroupCommit).await;
        let at = cluster.worker_of(first.voucher.get()).await;
        let mut second = first.another(Strategy::GroupCommit).await;
        while cluster.worker_of(second.voucher.get()).await == at {
            second = first.another(Strategy::GroupCommit).await;
        }
        let sales = [first, second];
        let nodes = [sales[0].node().await, sales[0].node().await];
        let addresses = [nodes[0].address, nodes[1].address];
        let crowds = [Crowd::start(&sales[0], &addresses), Crowd::start(&sales[1], &addresses)];
        let stage = Self { cluster, redis, sales, crowds, _nodes: nodes };
        stage.both_sell().await;
        stage
    }

    /// Waits until each sale has sold to some who asked after this.
    async fn both_sell(&self) {
        let now = Instant::now();
        for crowd in &self.crowds {
            crowd.orders_after(now, ORDERS).await;
        }
    }

    /// Which worker has the first sale.
    async fn worker(&self) -> usize {
        self.cluster.worker_of(self.sales[0].voucher.get()).await
    }

    /// The books of every sale hold at this moment, in the middle of the sale.
    async fn books_hold(&self) {
        let audits = audit::run(&self.sales[0].pool, None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    }

    /// Sends the buyers home. Nobody was told anything that does not belong to a fault, and what they were
    /// told is in the books.
    async fn settle(self) -> Settled {
        let [first, second] = self.crowds;
        let told = [first.go_home().await, second.go_home().await];
        for (sale, answers) in self.sales.iter().zip(&told) {
            only(answers, &[What::Unavailable, in_progress()]);
            sale.settle(answers).await;
        }
        Settled { told }
    }
}

struct Settled {
    told: [Vec<Answer>; 2],
}

impl Settled {
    fn refused(&self, sale: usize, from: Instant, to: Instant) -> usize {
        let refused = |answer: &&Answer| {
            answer.what == What::Unavailable && (from..to).contains(&answer.sent)
        };
        self.told[sale].iter().filter(refused).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_takes_no_other_workers_vouchers_along() {
    if !is_installed() {
        return;
    }
    let mut stage = Stage::new().await;
    let dying = stage.worker().await;
    let killed = Instant::now();
    stage.cluster.workers[dying].kill();
    let dead = Instant::now();
    // The sale on the dead worker refuses; the other one sells on, also when what memory knew of the
    // vouchers is too old.
    stage.crowds[0].refusals_after(dead).await;
    stage.crowds[1].orders_after(dead, ORDERS).await;
    stage.crowds[0].refusals_after(Instant::now()).await;
    let whole = Instant::now();
    stage.crowds[1].orders_after(whole, ORDERS).await;
    let still_dead = Instant::now();
    stage.cluster.workers[dying].start_again().await;
    stage.both_sell().await;
    stage.books_hold().await;
    // The coordinator takes both along, and both come back.
    stage.cluster.coordinator.kill();
    let dead_too = Instant::now();
    for crowd in &stage.crowds {
        crowd.refusals_after(dead_too).await;
    }
    stage.cluster.coordinator.start_again().await;
    stage.both_sell().await;
    let settled = stage.settle().await;
    eprintln!(
        "figures: a dead worker: {} x 503 of its voucher, {} of the other's",
        settled.refused(0, killed, still_dead),
        settled.refused(1, killed, still_dead),
    );
    let slowest = settled.told.iter().flatten().filter(|answer| answer.what == What::Unavailable);
    eprintln!("figures: slowest refusal {:?}", slowest.map(|answer| answer.took).max());
    // Reads of both together fail while it dies; then no more.
    assert_eq!(settled.refused(1, whole, still_dead), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_moves_and_a_master_dies_in_the_middle_of_a_sale() {
    if !is_installed() {
        return;
    }
    let mut stage = Stage::new().await;
    let before = stage.worker().await;
    // To a worker that has nothing yet; the balance is restored in the background.
    stage.cluster.add_worker().await;
    stage.cluster.coordinator.run(&move_shard_of(&stage, before)).await;
    assert_eq!(stage.worker().await, 2);
    stage.both_sell().await;
    stage.books_hold().await;

    let mut connection = stage.cluster.coordinator.connect().await;
    sqlx::query("select citus_rebalance_start()").execute(&mut connection).await.unwrap();
    eventually("the shards are balanced", async || {
        stage.both_sell().await;
        let state: Option<String> =
            sqlx::query_scalar("select state::text from citus_rebalance_status() limit 1")
                .fetch_optional(&mut connection)
                .await
                .unwrap();
        assert_ne!(state.as_deref(), Some("failed"));
        state.is_none_or(|state| state == "finished")
    })
    .await;
    stage.books_hold().await;

    let settled = stage.settle().await;
    drop(settled);
}

fn move_shard_of(stage: &Stage, from: usize) -> String {
    let (from, to) = (stage.cluster.workers[from].port, stage.cluster.workers[2].port);
    format!(
        "select citus_move_shard_placement(
             get_shard_id_for_distribution_column('orders', {}), '127.0.0.1', {from}, '127.0.0.1', {to},
             shard_transfer_mode := 'force_logical')",
        stage.sales[0].voucher
    )
}
