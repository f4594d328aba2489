//! One's own orders.

use chrono::TimeDelta;
use seckill::model::Clock;
use serde_json::json;

use testkit::program::Program;
use testkit::shop::api_client::Api;

/// `count` orders of user 1, the oldest first, a second apart.
async fn orders(api: &Api, count: usize) -> Vec<String> {
    let mut orders = Vec::new();
    for _ in 0..count {
        let voucher = api.world.voucher(5).await;
        let bought = api.buy(1, voucher.id).await;
        orders.push(bought.is(201).text_of("order_id").to_owned());
        api.world.set_time(api.world.clock.now() + TimeDelta::seconds(1)).await;
    }
    orders
}

#[tokio::test]
async fn ones_own_orders_come_newest_first_and_page_by_page() {
    let api = Api::with_users(2).await;
    let mut expected = orders(&api, 5).await;
    expected.reverse();
    let voucher = api.world.voucher(5).await;
    api.buy(2, voucher.id).await.is(201);

    let of_two: Vec<_> = expected.chunks(2).map(<[String]>::to_vec).collect();
    assert_eq!(api.pages(1, "/api/orders?limit=2", "order_id").await, of_two);
    assert_eq!(api.pages(1, "/api/orders", "order_id").await, [expected]);
    assert_eq!(api.get_as(3, "/api/orders").await.body, json!([]));
}

/// Redis had lost its counter, and two orders of a user, of two vouchers, have one id: the end of a page may fall between
/// them.
#[tokio::test]
async fn of_two_orders_with_one_id_no_page_leaves_one_out() {
    let api = Api::with_users(1).await;
    orders(&api, 6).await;
    let same = "with ordered as (select id, row_number() over (order by id) as number from orders)
        update orders set id = 1000 + (number + 1) / 2 from ordered where ordered.id = orders.id";
    sqlx::query(same).execute(api.world.database.pool()).await.unwrap();
    for limit in 1..=7 {
        let path = format!("/api/orders?limit={limit}");
        let seen = api.pages(1, &path, "order_id").await.concat();
        assert_eq!(seen, ["1003", "1003", "1002", "1002", "1001", "1001"], "{limit}");
    }
}

/// The same where all orders are written to a file, a thousand at a time.
#[tokio::test]
async fn of_two_orders_with_one_id_an_export_leaves_none_out() {
    let api = Api::new().await;
    let vouchers = [api.world.voucher(1).await.id, api.world.voucher(1).await.id];
    // The newest has an id of its own: a thousand orders end between two that have one.
    let orders = format!(
        "insert into orders (id, user_id, voucher_id, status, amount)
         select 1 + (n + 1) / 2, n + 1, case n % 2 when 0 then {} else {} end, 2, 0
         from generate_series(0, 1999) n",
        vouchers[0], vouchers[1]
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(orders)).execute(api.world.database.pool()).await.unwrap();
    let program = Program::on(&api.world);
    for arguments in [&["orders", "export"][..], &["orders", "export", "--status", "paid"]] {
        // The first line is the head.
        assert_eq!(program.says(arguments).await.lines().count(), 1 + 2000, "{arguments:?}");
    }
    let lines = program.says(&["orders", "export", "--format", "json"]).await;
    assert_eq!(lines.lines().count(), 2000);
}

#[tokio::test]
async fn somebody_elses_order_is_not_found() {
    let api = Api::with_users(2).await;
    let order = &orders(&api, 1).await[0];
    let path = format!("/api/orders/{order}");
    api.get_as(1, &path).await.is(200);
    api.get_as(2, &path).await.problem(404, "order_not_found");
    api.world.admin_token(2).await;
    api.get_as(2, &path).await.problem(404, "order_not_found");
    api.get(&path).await.problem(401, "unauthenticated");
    api.get_as(1, "/api/orders/9223372036854775807").await.problem(404, "order_not_found");
}
