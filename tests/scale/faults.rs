//! Servers that die, and data that moves, in the middle of a sale on distributed data.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use seckill::model::{Clock, SystemClock};
use seckill::purchase::{Strategy, audit};
use seckill::store::{Database, StoreError, users};
use tokio::sync::{Mutex, MutexGuard};

use super::citus::Citus;
use crate::faults::crowd::{Answer, Crowd, What};
use crate::faults::sale::{MANY_USERS, Sale};
use testkit::processes::Node;
use testkit::redis_nodes::{Cluster, migrate};
use testkit::wait::eventually;

const ORDERS: usize = 50;

/// One stage at a time: each is two crowds at five servers, and two of them leave one another no processor.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A sale on each of two workers, each with a crowd of its own, on two nodes.
struct Stage {
    cluster: Citus,
    redis: Cluster,
    sales: [Sale; 2],
    crowds: [Crowd; 2],
    _nodes: [Node; 2],
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    /// `None`: Citus is not installed.
    async fn new() -> Option<Self> {
        let alone = ALONE.lock().await;
        let cluster = Citus::distributed(2).await?;
        let redis = Cluster::start(3).await;
        let urls = (&*cluster.coordinator.url(), &*redis.url());
        let first = Sale::open(urls, Strategy::GroupCommit, MANY_USERS).await;
        let at = cluster.worker_of(first.voucher.get()).await;
        let mut second = first.another(Strategy::GroupCommit).await;
        while cluster.worker_of(second.voucher.get()).await == at {
            second = first.another(Strategy::GroupCommit).await;
        }
        let sales = [first, second];
        let nodes = [sales[0].node().await, sales[0].node().await];
        let crowds = [Crowd::start(&sales[0], &nodes), Crowd::start(&sales[1], &nodes)];
        let stage = Self { cluster, redis, sales, crowds, _nodes: nodes, _alone: alone };
        stage.both_sell().await;
        Some(stage)
    }

    /// Waits until each sale has sold to some who asked after this.
    async fn both_sell(&self) {
        let now = Instant::now();
        for crowd in &self.crowds {
            crowd.orders_after(now, ORDERS).await;
        }
    }

    async fn move_first_sale_to_the_new_worker(&self) {
        let (voucher, workers) = (self.sales[0].voucher, &self.cluster.workers);
        let (from, to) = (workers[self.worker().await].port, workers[2].port);
        let moved = format!(
            "select replicate_reference_tables();
             select citus_move_shard_placement(
                 get_shard_id_for_distribution_column('orders', {voucher}),
                 '127.0.0.1', {from}, '127.0.0.1', {to})"
        );
        self.cluster.coordinator.run(&moved).await;
        assert_eq!(self.worker().await, 2);
    }

    /// Moves shards in the background until every worker has its share, while both sales sell.
    async fn rebalance(&self) {
        let mut connection = self.cluster.coordinator.connect().await;
        let start = sqlx::query("select citus_rebalance_start()");
        start.execute(&mut connection).await.unwrap();
        let states = "select state::text from citus_rebalance_status()";
        eventually("the shards are balanced", async || {
            self.both_sell().await;
            let state: String =
                sqlx::query_scalar(states).fetch_one(&mut connection).await.unwrap();
            assert_ne!(state, "failed");
            state == "finished"
        })
        .await;
        let shards: Vec<i64> = sqlx::query_scalar(
            "select count(*) from citus_shards where table_name = 'orders'::regclass group by nodeport",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        assert!(shards.len() == 3 && shards.iter().all(|count| *count >= 2), "{shards:?}");
    }

    /// The key of today's order ids.
    async fn order_counter(&self) -> String {
        let mut found = Vec::new();
        for node in &self.redis.nodes {
            found.append(&mut node.command::<Vec<String>>(&["KEYS", "icr:order:*"]).await);
        }
        found.sort();
        found.pop().unwrap()
    }

    /// Which worker has the first sale.
    async fn worker(&self) -> usize {
        self.cluster.worker_of(self.sales[0].voucher.get()).await
    }

    /// From the coordinator's copy of the users; a new one would be written to every server.
    async fn known_users_log_in(&self) {
        let log_in = async |phone: &str| {
            users::find_or_create(&self.sales[0].pool, phone, "", SystemClock.now()).await
        };
        assert_eq!(log_in("+99900000000001").await.unwrap().id.get(), 1);
        let new = log_in("+8613800138000").await;
        assert!(matches!(&new, Err(error) if error.retry_may_help()), "{new:?}");
    }

    /// The books of every sale hold at this moment, in the middle of the sale.
    async fn books_hold(&self) {
        let audits = audit::run(&self.sales[0].pool, None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    }

    /// Sends the buyers home. Nobody was told anything that does not belong to a fault, and what they were
    /// told is in the books.
    async fn settle(self) -> [Vec<Answer>; 2] {
        let [first, second] = self.crowds;
        [first.settle(&self.sales[0], &[]).await, second.settle(&self.sales[1], &[]).await]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_silent_is_waited_for_and_a_dead_one_costs_its_own_vouchers() {
    let Some(mut stage) = Stage::new().await else { return };
    let dying = stage.worker().await;
    // Silence first, as of a network that swallows everything: 503, no buyer waits longer than `CLIENT_PATIENCE`,
    // and it passes.
    let silent = Instant::now();
    stage.cluster.workers[dying].signal(Signal::SIGSTOP);
    stage.crowds[0].refusals_after(silent + Duration::from_secs(1)).await;
    stage.cluster.workers[dying].signal(Signal::SIGCONT);
    stage.both_sell().await;
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
    stage.known_users_log_in().await;
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
    let mut told = stage.settle().await;
    told.iter_mut().for_each(|told| told.retain(|answer| answer.what == What::Unavailable));
    let slowest = told.iter().flatten().map(|answer| answer.took).max();
    let while_dead = |answer: &&Answer| (killed..still_dead).contains(&answer.sent);
    let refused = told.map(|told| told.iter().filter(while_dead).count());
    eprintln!(
        "figures: a dead worker: {refused:?} x 503 of its voucher and of the other, slowest {slowest:?}"
    );
    // Reads of both together fail while it dies, and those that a busy machine lets time out.
    assert!(2 * refused[1] < refused[0], "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_moves_and_a_master_dies_in_the_middle_of_a_sale() {
    let Some(mut stage) = Stage::new().await else { return };
    // To a worker that has nothing yet: the shard of one of the sales, then what balances all of them.
    stage.cluster.add_worker().await;
    stage.move_first_sale_to_the_new_worker().await;
    stage.both_sell().await;
    stage.books_hold().await;
    stage.rebalance().await;
    stage.books_hold().await;

    // The order ids move, then the master that has them dies.
    let counter = stage.order_counter().await;
    let to = (stage.redis.index_of(&counter).await + 1) % 3;
    let replica = stage.redis.add_replica(to).await;
    migrate(&stage.redis, &counter, &stage.redis.nodes[to], async || stage.both_sell().await).await;
    stage.both_sell().await;
    stage.redis.nodes[to].kill();
    eventually("the replica is the master", async || {
        replica.field(&["INFO", "replication"], "role").await == "master"
    })
    .await;
    stage.both_sell().await;
    let survived: Option<i64> = replica.command(&["GET", &counter]).await;
    assert!(survived.is_some());
    stage.settle().await;
}

/// A worker that cannot plan a statement, because it knows the new place of one shard and the old one of another, says so
/// as it says that it does not support something, and the coordinator passes it on.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_does_not_support_while_shards_move_is_turned_away_and_what_nobody_supports_is_a_defect()
 {
    let Some(cluster) = Citus::distributed(2).await else { return };
    let refuse = "create function refuse(voucher bigint) returns void language plpgsql as
        $$ begin raise feature_not_supported; end $$;
        select create_distributed_function('refuse(bigint)', 'voucher', colocate_with := 'orders')";
    cluster.coordinator.run(refuse).await;
    let database = Database::new(&cluster.coordinator.url()).unwrap();
    let nobody = "do $$ begin raise feature_not_supported; end $$";
    for (statement, is_turned_away) in [("select refuse(1)", true), (nobody, false)] {
        let refused = sqlx::query(statement).execute(database.pool()).await.unwrap_err();
        let error = StoreError::from(refused);
        assert_eq!(error.is_turned_away(), is_turned_away, "{error}");
        assert_eq!(error.retry_may_help(), is_turned_away, "{error}");
    }
    database.close().await;
}
