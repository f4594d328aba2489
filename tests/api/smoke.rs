//! The main flow, once through everything.

use serde_json::Value;

use testkit::shop::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_buys_once_and_is_told_so_the_second_time() {
    let world = World::new().await;
    world.users(1).await;
    let voucher = world.voucher(2).await;
    let address = world.serve().await;
    let url = format!("http://{address}/api/vouchers/{}/orders", voucher.id);
    let client = reqwest::Client::new();
    let buy = || client.post(&url).bearer_auth(world.token(1)).send();

    let bought = buy().await.unwrap();
    assert_eq!(bought.status(), 201);
    let order: Value = bought.json().await.unwrap();
    let again = buy().await.unwrap();
    assert_eq!(again.status(), 409);
    let problem: Value = again.json().await.unwrap();
    assert_eq!(problem["code"], "already_bought");
    assert_eq!(problem["order_id"], order["order_id"]);
    assert!(world.audit().await.holds);
}
