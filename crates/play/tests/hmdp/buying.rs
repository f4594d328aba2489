//! Buying in the application's dialect.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use testkit::processes::{living_in, send};
use testkit::shop::private_server::PrivateServer;
use testkit::wait::eventually;

use super::{
    FAR_AWAY, LONG_AGO, ask, buy, data, error_of, log_in, minted, on_sale, refused, sell, voucher,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_of_a_buyer() {
    let server = PrivateServer::start().await;
    let (one, two) = (log_in(&server, "13800138000").await, log_in(&server, "13800138001").await);
    let me = ask(&server, "GET", "/user/me", &one, None).await;
    let me = data(&me);
    assert!(me["id"].is_i64() && me["nickName"] == "user_8000" && me["icon"] == "", "{me}");

    let id = on_sale(&server, 1).await;
    let listed = ask(&server, "GET", "/voucher/list/7", "", None).await;
    let listed = data(&listed)[0].clone();
    let mut expected = voucher(1, LONG_AGO, FAR_AWAY);
    (expected["id"], expected["shopId"], expected["status"]) = (json!(id), json!(7), json!(1));
    assert_eq!(listed, expected);

    let bought = buy(&server, id, &one).await;
    let order = data(&bought).as_i64().unwrap();
    // Beyond what a browser's number holds: the text has every digit.
    assert!(order > 1 << 53 && bought.text.contains(&format!("\"data\":{order}")), "{bought:?}");
    refused(&buy(&server, id, &one).await, "用户已经购买过一次");
    refused(&buy(&server, id, &two).await, "库存不足");
    // Counted as purchases of the server's own route are.
    let metrics = server.api.get("/metrics").await;
    for outcome in ["ordered", "already_bought", "sold_out"] {
        let line = format!("seckill_purchases_total{{outcome=\"{outcome}\"}} 1\n");
        assert!(metrics.is(200).text.contains(&line), "{outcome}: {}", metrics.text);
    }
    refused(&buy(&server, id + 1, &two).await, "优惠券不存在");
    for (begin, end, why) in [
        ("2089-01-01T00:00:00", FAR_AWAY, "秒杀尚未开始"),
        (LONG_AGO, "2026-01-25T10:09:18", "秒杀已经结束"),
    ] {
        let new = voucher(1, begin, end);
        let created = sell(&server, &new).await;
        refused(&buy(&server, data(&created).as_i64().unwrap(), &two).await, why);
    }

    // The list has what was put on sale a moment ago, the newest first, and what is left.
    for stock in [7, 8] {
        let id = on_sale(&server, stock).await;
        let listed = ask(&server, "GET", "/voucher/list/1", "", None).await;
        let newest = &data(&listed)[0];
        assert_eq!((&newest["id"], &newest["stock"]), (&json!(id), &json!(stock)));
    }

    // Under `/api` as well, where the front end asks.
    let path = format!("/api/voucher-order/seckill/{id}");
    refused(&ask(&server, "POST", &path, &one, None).await, "用户已经购买过一次");
    data(&ask(&server, "GET", "/api/user/me", &one, None).await);

    let left = ask(&server, "POST", "/user/logout", &one, None).await;
    assert_eq!(data(&left), &Value::Null);
    assert_eq!(ask(&server, "GET", "/user/me", &one, None).await.is(401).text, "");
    data(&ask(&server, "GET", "/user/me", &two, None).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_dialects_see_one_voucher_and_one_order() {
    let server = PrivateServer::start().await;
    let (one, two) = (log_in(&server, "13800138000").await, log_in(&server, "13800138001").await);
    let id = on_sale(&server, 10).await;
    let ours = server.api.get(&format!("/api/vouchers/{id}")).await;
    let ours = &ours.is(200).body;
    for (member, expected) in [
        ("title", json!("100元代金券")),
        ("subtitle", json!("周一至周日均可使用")),
        ("terms", json!("全场通用")),
        ("price", json!(8000)),
        ("value", json!(10_000)),
        ("initial_stock", json!(10)),
        ("pay_within_s", json!(2_592_000)),
        ("status", json!("on_sale")),
    ] {
        assert_eq!(ours[member], expected, "{member}");
    }

    let order = data(&buy(&server, id, &one).await).as_i64().unwrap().to_string();
    let buying = format!("/api/vouchers/{id}/orders");
    let again = server.send("POST", &buying, &one, None).await;
    assert_eq!(again.problem(409, "already_bought").text_of("order_id"), order);
    let kept = server.send("GET", &format!("/api/orders/{order}"), &one, None).await;
    assert_eq!(
        (&kept.is(200).body["status"], &kept.body["amount"]),
        (&json!("unpaid"), &json!(8000))
    );

    let bought = server.send("POST", &buying, &two, None).await;
    bought.is(201);
    refused(&buy(&server, id, &two).await, "用户已经购买过一次");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rush_of_200_users_sells_exactly_the_stock() {
    let server = PrivateServer::start().await;
    let tokens = minted(&server, &["--users", "200"]).await;
    let id = on_sale(&server, 50).await;
    // Each twice, as impatient as people are.
    let attempts = tokens.iter().chain(&tokens).map(|token| buy(&server, id, token));
    let answers = join_all(attempts).await;
    let mut orders = HashMap::new();
    for (at, answer) in answers.iter().enumerate() {
        if answer.body["success"] == true {
            let earlier = orders.insert(at % tokens.len(), data(answer).as_i64().unwrap());
            assert_eq!(earlier, None, "two orders of one user");
        } else {
            let why = error_of(answer, 200);
            let expected = ["库存不足", "用户已经购买过一次", "不允许重复下单"];
            assert!(expected.contains(&why), "{why}");
        }
    }
    assert_eq!(orders.len(), 50);
    assert_eq!(orders.values().collect::<BTreeSet<_>>().len(), 50);
    let admin = server.admin().await;
    let audit = server.insist("POST", &format!("/api/vouchers/{id}/audit"), &admin).await;
    let audit = &audit.is(200).body;
    assert_eq!((&audit["holds"], &audit["orders"]), (&json!(true), &json!(50)), "{audit}");
    // Who has bought hears so also now; the others hear that nothing is left.
    for (at, token) in tokens.iter().enumerate().step_by(20) {
        let has = orders.contains_key(&at);
        let why = if has { "用户已经购买过一次" } else { "库存不足" };
        refused(&buy(&server, id, token).await, why);
    }
}

/// A load test that looks at the status alone must not take this for a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_redis_answers_503_with_retry_after() {
    let server = PrivateServer::start().await;
    let id = on_sale(&server, 10).await;
    let token = log_in(&server, "13800138000").await;
    let is_redis = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "redis-server"
    };
    let redis = living_in(server.place.path()).into_iter().find(is_redis).unwrap();
    send(redis, Signal::SIGSTOP);
    let failed = buy(&server, id, &token).await;
    send(redis, Signal::SIGCONT);
    assert!(error_of(&failed, 503).starts_with("服务暂不可用，请稍后再试"), "{failed:?}");
    assert!(failed.header("retry-after").is_some(), "{failed:?}");
    eventually("it sells again", async || buy(&server, id, &token).await.body["success"] == true)
        .await;
}
