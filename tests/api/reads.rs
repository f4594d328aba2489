//! Readers take nothing from buyers.

use std::iter::from_fn;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use seckill::http::server::ServerLimits;
use seckill::http::{App, router};
use seckill::model::{Limiter, VoucherId};
use seckill::purchase::sales::Sales;
use seckill::store::{DatabaseClock, StoreError};
use sqlx::Connection;

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::served::Served;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// A server whose permits the test holds.
async fn api_of_app() -> (Api, App) {
    let world = World::new().await;
    let app = world.app().await;
    let address = Served::new(router(app.clone()), ServerLimits::of(100)).address;
    (Api::at(world, address), app)
}

/// Every connection of the readers is taken, and a buyer buys.
#[tokio::test]
async fn purchases_have_connections_of_their_own() {
    let (api, voucher) = Api::with_sale(1, 1).await;
    let pool = api.world.database.pool();
    let mut held = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        held.push(pool.acquire().await.unwrap());
    }
    api.get_as(1, "/api/orders").await.problem(503, "unavailable");
    api.buy(1, voucher).await.is(201);
    api.get(&format!("/api/vouchers/{voucher}")).await.is(200);
    drop(held);
    api.get_as(1, "/api/orders").await.is(200);
}

/// With all `count` of `permits` but one held `ask` is served; without the last one it is refused at once, and `others` are served.
async fn one_too_many(
    permits: &Limiter<IpAddr>,
    count: usize,
    ask: impl AsyncFn() -> Answer,
    others: impl AsyncFn(),
) {
    let mut held: Vec<_> = from_fn(|| permits.take(None).ok()).collect();
    assert_eq!(held.len(), count);
    held.pop();
    let served = ask().await.status;
    held.push(permits.take(None).unwrap());
    assert_eq!(ask().await.problem(503, "unavailable").header("retry-after"), Some("1"));
    others().await;
    drop(held);
    ask().await.is(served);
}

/// Reads of buyers, those of who is known as an administrator, logins, login codes and entries of a draw or a line.
#[tokio::test]
async fn one_request_too_many_of_a_kind_is_refused_and_takes_nothing_from_others() {
    let (api, app) = api_of_app().await;
    api.world.users(1).await;
    api.world.admin_token(2).await;
    api.get_as(2, "/api/refunds").await.is(200);
    let limits = &app.memory().limits;
    for path in ["/api/me", "/api/orders", "/api/orders/1"] {
        let others = async || {
            api.buy(1, api.world.voucher(1).await.id).await.is(201);
            for path in ["/api/vouchers", "/readyz", "/metrics"] {
                api.get(path).await.is(200);
            }
            api.get_as(2, "/api/me").await.is(200);
        };
        one_too_many(&limits.reads, 64, async || api.get_as(1, path).await, others).await;
    }
    let reads = async || {
        api.get_as(1, "/api/orders").await.is(200);
    };
    let administers = async || api.get_as(2, "/api/me").await;
    one_too_many(&limits.administration, 32, administers, &reads).await;
    let logs_in = async || api.try_code("13800138000", "000000").await;
    one_too_many(&limits.logins, 64, &logs_in, &reads).await;
    let asks = async || api.ask_code("13800138000").await;
    let others = async || {
        logs_in().await.is(401);
        reads().await;
    };
    one_too_many(&limits.login_codes, 256, asks, others).await;
    let path = format!("/api/vouchers/{}/entries", api.world.voucher_with_line(0).await.id);
    let enters = async || api.call_as(1, "POST", &path).await;
    enters().await.is(201);
    let others = async || {
        api.get_as(1, &path).await.is(200);
    };
    one_too_many(&limits.entering, 4_096, enters, others).await;
}

/// Nobody can read the tables, and yet all read the list and a voucher: from memory.
#[tokio::test]
async fn the_list_and_a_voucher_come_from_memory() {
    let (api, voucher) = Api::with_sale(0, 3).await;
    let one = format!("/api/vouchers/{voucher}");
    // A machine that is busy may take longer than the memory lasts: then once more.
    eventually("all is read from memory", async || {
        for path in ["/api/vouchers", one.as_str()] {
            api.get(path).await.is(200);
        }
        let locked = "lock table vouchers, seckill_vouchers in access exclusive mode";
        let holder = api.world.begin(locked).await;
        let answers = join_all(
            (0..50).map(|number| api.get(if number % 2 == 0 { "/api/vouchers" } else { &one })),
        );
        let all = answers.await.iter().all(|answer| answer.status == 200);
        holder.close().await.unwrap();
        all
    })
    .await;
    // And not for longer than a second.
    api.world.voucher(1).await;
    eventually("the new voucher is in the list", async || {
        api.get("/api/vouchers").await.body.as_array().is_some_and(|list| list.len() == 2)
    })
    .await;
}

/// A flood of ids without a voucher is bounded before the database is asked, and keeps nobody from a
/// voucher that memory has.
#[tokio::test]
async fn made_up_ids_are_limited_and_do_not_hold_up_a_voucher() {
    let world = World::new().await;
    let known = world.voucher(3).await.id;
    let clock = Arc::new(DatabaseClock::new(world.clock.clone()));
    let sales = Sales::new(&world.database, &clock);
    eventually("the flood met a voucher in memory", async || {
        sales.find(known).await.unwrap();
        let holder = world.begin("lock table vouchers in access exclusive mode").await;
        let flood = (1_000..21_000).map(|id| sales.find(VoucherId::new(id).unwrap()));
        let (flood, from_memory) = tokio::join!(join_all(flood), sales.find(known));
        holder.close().await.unwrap();
        let refused = |answer: &&Result<_, StoreError>| {
            answer.as_ref().is_err_and(StoreError::retry_may_help)
        };
        assert!(flood.iter().filter(refused).count() > 3_000);
        from_memory.is_ok_and(|sale| sale.is_some())
    })
    .await;
    // A voucher is there for all as soon as it is there.
    let new = world.voucher(1).await.id;
    assert!(sales.find(new).await.unwrap().is_some());
}
