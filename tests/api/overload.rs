//! An overload, as a buyer sees it.

use seckill::http::router;
use seckill::http::server::ServerLimits;
use seckill::purchase::Strategy;
use sqlx::Connection;

use testkit::raw_http::{Raw, purchase_head};
use testkit::shop::served::Served;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// Without the buyer's lock, too: a flood of one buyer leaves room for the others.
#[tokio::test(flavor = "multi_thread")]
async fn one_buyers_flood_does_not_take_the_places_of_others() {
    let strategy = Strategy::GroupCommitUnlocked;
    let world = World::with(|settings| settings.strategy = strategy).await;
    world.users(3).await;
    world.wait_long_for_rows().await;
    let voucher = world.voucher(10).await.id;
    let app = world.app().await;
    let address = Served::new(router(app.clone()), ServerLimits::of(100)).address;
    let row = world.hold_the_row().await;
    let one_more =
        async |buyer| Raw::sent(address, purchase_head(&world.token(buyer), voucher, "")).await;
    let mut flood = Vec::new();
    for _ in 0..8 {
        flood.push(one_more(1).await);
    }
    eventually("eight are under way", async || app.purchases.load().in_flight == 8).await;
    for _ in 0..20 {
        let refused = one_more(1).await.answer().await.unwrap();
        assert_eq!(refused.json()["code"], "order_in_progress");
    }
    assert_eq!(app.purchases.load().in_flight, 8);
    let mut other = one_more(2).await;
    row.close().await.unwrap();
    // 503 when the machine was so slow that the row was held for longer than the buyer waits.
    let answer = other.answer().await.unwrap();
    assert!(answer.status == 201 || answer.json()["detail"].is_string(), "{answer:?}");
}
