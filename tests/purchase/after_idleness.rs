//! The first purchase after a while without any. Meanwhile Redis closed what was idle, or was restarted.

use super::shops::LOCKING;
use redis_link::Redis;
use testkit::redis_nodes::Node;
use testkit::shop::world::{World, each_of, user};
use testkit::wait::eventually;

/// Sells one voucher, has Redis close the connections by `close`, and sells another one.
async fn sells_on(world: World, node: &mut Node, close: impl AsyncFnOnce(&mut Node)) {
    let world = World { redis: Redis::new(&node.url()).unwrap(), ..world };
    world.users(2).await;
    let (voucher, shop) = (world.voucher(2).await.id, world.shop().await);
    assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), "ordered");
    close(node).await;
    eventually("it is noticed", async || world.redis.generation().is_none()).await;
    assert_eq!(shop.buy(user(2), voucher).await.unwrap().code(), "ordered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_closes_idle_connections_costs_the_first_buyer_nothing() {
    each_of(LOCKING, async |world| {
        sells_on(world, &mut Node::start(&[]).await, async |node| {
            node.command::<()>(&["CONFIG", "SET", "timeout", "1"]).await;
            eventually("Redis closes what is idle", async || {
                node.command::<String>(&["CLIENT", "LIST"]).await.lines().count() == 1
            })
            .await;
            node.command::<()>(&["CONFIG", "SET", "timeout", "0"]).await;
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_was_restarted_while_nobody_bought_costs_the_first_buyer_nothing() {
    each_of(LOCKING, async |world| {
        sells_on(world, &mut Node::start(&[]).await, async |node| node.restart().await).await;
    })
    .await;
}
