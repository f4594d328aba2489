//! Purchases whose locks and order ids are in a cluster.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis_link::Redis;
use seckill::model::Clock;
use seckill::purchase::PurchasesOptions;

use crate::purchase::placing::orders_in_good_books;
use crate::purchase::shops::{LOCKING, buyers, nothing_was_done, rush};
use testkit::redis_nodes::Cluster;
use testkit::shop::world::{World, each_of, each_strategy, user};
use testkit::wait::eventually;

/// The same world with its locks and ids in `cluster`.
fn through(cluster: &Cluster, world: World) -> World {
    World { redis: Redis::new(&cluster.url()).unwrap(), ..world }
}

/// The node that has the lock of each of the users 1 to `count`.
async fn owners(world: &World, cluster: &Cluster, count: i64) -> Vec<usize> {
    let names = (1..=count).map(|number| world.keys.order_lock(user(number)));
    join_all(names.map(async |name| cluster.index_of(&name).await)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_there_is_is_sold_once_to_each_whatever_node_has_the_lock() {
    let cluster = Cluster::start(3).await;
    each_strategy(async |world| {
        let world = through(&cluster, world);
        world.users(50).await;
        let owners = owners(&world, &cluster, 50).await;
        assert!((0..3).all(|index| owners.contains(&index)), "{owners:?}");
        let voucher = world.voucher(20).await.id;
        let shops = [world.shop().await, world.shop().await];
        let (codes, sold) = rush(&shops, voucher, 50, 4).await;
        assert_eq!((sold.len(), codes.values().sum()), (20, 200), "{codes:?}");
        let refused = ["ordered", "sold_out", "already_bought", "order_in_progress"];
        assert!(codes.keys().all(|code| refused.contains(code)), "{codes:?}");
        let audit = world.audit().await;
        assert!(audit.holds && audit.stock == 0, "{audit:?}");
        for number in 1..=50 {
            let name = world.keys.order_lock(user(number));
            eventually("every lock is free", async || {
                cluster.node_of(&name).await.command::<i64>(&["EXISTS", &name]).await == 0
            })
            .await;
        }
    })
    .await;
}

/// They are not let in together with the others, as where there is one Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_master_that_is_silent_costs_those_a_503_whose_locks_it_has_and_nobody_else() {
    // Otherwise the others stop, too, when they think that it is gone.
    let cluster = Cluster::start_with(3, &["--cluster-require-full-coverage", "no"]).await;
    each_of(LOCKING, async |world| {
        let world = through(&cluster, world);
        world.users(30).await;
        let voucher = world.voucher(30).await.id;
        let options = PurchasesOptions { lease: Duration::from_secs(1), ..world.options() };
        let shop = Arc::new(world.purchases(options).await);
        shop.sale(voucher).await.unwrap();
        // Without ids nobody buys.
        let counter = world.keys.order_counter(world.clock.now().date_naive());
        let silent = (cluster.index_of(&counter).await + 1) % 3;
        let owners = owners(&world, &cluster, 30).await;
        assert!(owners.contains(&silent), "{owners:?}");

        cluster.nodes[silent].pause();
        let told = buyers(&shop, voucher, 1, 30).join_all().await;
        cluster.nodes[silent].resume();
        for (number, answer) in told {
            if owners[number as usize - 1] == silent {
                nothing_was_done((number, answer));
            } else {
                assert_eq!(answer.unwrap().code(), "ordered", "{number}");
            }
        }
        for number in (1..=30).filter(|number| owners[*number as usize - 1] == silent) {
            // A lock that was granted too late for its buyer ends by itself.
            eventually("they buy, too", async || {
                let answer = shop.buy(user(number), voucher).await;
                answer.is_ok_and(|outcome| outcome.code() == "ordered")
            })
            .await;
        }
        assert_eq!(orders_in_good_books(&world).await, 30);
        cluster.settled().await;
    })
    .await;
}
