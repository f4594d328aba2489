//! `seckill play` speaks the HTTP of hm-dianping: one sale, in two dialects.

mod hostile;

use axum::Router;
use nix::sys::signal::Signal;
use seckill::http::server::ServerLimits;
use seckill::model::UserId;
use seckill_play::play::demonstrated;
use serde_json::{Value, json};
use testkit::processes::{living_in, seckill, send};
use testkit::program::finished;
use testkit::shop::api_client::{Answer, Api, Client};
use testkit::shop::private_server::{DEMO_ADMIN_PHONE, PrivateServer};
use testkit::shop::served::Served;
use testkit::shop::world::{ADMIN_PHONE, World, user};
use testkit::wait::eventually;

const ADMIN: i64 = 99;
const LONG_AGO: &str = "2026-01-25T10:09:17";
const FAR_AWAY: &str = "2090-01-25T12:09:04";

/// A server of this process with users 1 and 2, and the administrator of a demonstration.
async fn dialect() -> Api {
    dialect_of(Some((ADMIN_PHONE, user(ADMIN)))).await
}

/// The same with this administrator of a demonstration, or with one by configuration alone.
async fn dialect_of(admin: Option<(&'static str, UserId)>) -> Api {
    let world = World::new().await;
    world.users(2).await;
    world.admin_token(ADMIN).await;
    let routes = demonstrated(world.app().await, admin, Router::new());
    Api::at(world, Served::new(routes, ServerLimits::of(100)).address)
}

/// The application's client: a bare token, and whatever the answer is.
async fn ask(api: &Client, method: &str, path: &str, token: &str) -> Answer {
    api.send(api.request(method, path).header("authorization", token)).await
}

async fn post(api: &Client, path: &str, token: &str, body: &Value) -> Answer {
    api.send(api.request("POST", path).header("authorization", token).json(body)).await
}

/// `data` of a success.
#[track_caller]
fn data(answer: &Answer) -> Value {
    let body = &answer.is(200).body;
    assert_eq!((&body["success"], &body["errorMsg"]), (&json!(true), &Value::Null), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json;charset=UTF-8"));
    body["data"].clone()
}

/// `errorMsg` of a failure with this status.
#[track_caller]
fn error_of(answer: &Answer, status: u16) -> &str {
    let body = &answer.is(status).body;
    assert_eq!((&body["success"], &body["data"]), (&json!(false), &Value::Null), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json;charset=UTF-8"));
    assert!(answer.header("www-authenticate").is_none(), "{answer:?}");
    body["errorMsg"].as_str().unwrap_or_else(|| panic!("no errorMsg in {answer:?}"))
}

/// A refusal that is expected.
#[track_caller]
fn refused(answer: &Answer, why: &str) {
    assert_eq!(error_of(answer, 200), why, "{answer:?}");
}

/// Logs in as the application's front end does.
async fn log_in(api: &Client, phone: &str) -> String {
    let code = data(&ask(api, "POST", &format!("/user/code?phone={phone}"), "").await);
    let entered = post(api, "/user/login", "", &json!({ "phone": phone, "code": code })).await;
    data(&entered).as_str().unwrap().to_owned()
}

/// A voucher as the course puts it on sale.
fn voucher(stock: i64, begin: &str, end: &str) -> Value {
    json!({
        "shopId": 1, "title": "100元代金券", "subTitle": "周一至周日均可使用", "rules": "全场通用",
        "payValue": 8000, "actualValue": 10000, "type": 1, "stock": stock,
        "beginTime": begin, "endTime": end,
    })
}

async fn sell(api: &Client, admin: &str, new: &Value) -> Answer {
    post(api, "/voucher/seckill", admin, new).await
}

/// Puts a voucher on sale that sells for years.
async fn on_sale(api: &Client, admin: &str, stock: i64) -> i64 {
    data(&sell(api, admin, &voucher(stock, LONG_AGO, FAR_AWAY)).await).as_i64().unwrap()
}

async fn buy(api: &Client, voucher: i64, token: &str) -> Answer {
    ask(api, "POST", &format!("/voucher-order/seckill/{voucher}"), token).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_life_of_a_buyer() {
    let server = PrivateServer::start().await;
    let (api, admin) = (&server.api, server.admin().await);
    let (one, two) = (log_in(api, "13800138000").await, log_in(api, "13800138001").await);
    let me = data(&ask(api, "GET", "/user/me", &one).await);
    assert!(me["id"].is_i64() && me["nickName"] == "user_8000" && me["icon"] == "", "{me}");

    let id = on_sale(api, &admin, 1).await;
    let mut expected = voucher(1, LONG_AGO, FAR_AWAY);
    (expected["id"], expected["shopId"], expected["status"]) = (json!(id), json!(7), json!(1));
    assert_eq!(data(&ask(api, "GET", "/voucher/list/7", "").await)[0], expected);

    let bought = buy(api, id, &one).await;
    let order = data(&bought).as_i64().unwrap();
    // Beyond what a browser's number holds: the text has every digit.
    assert!(order > 1 << 53 && bought.text.contains(&format!("\"data\":{order}")), "{bought:?}");
    refused(&buy(api, id, &one).await, "用户已经购买过一次");
    refused(&buy(api, id, &two).await, "库存不足");
    // Counted as purchases of the server's own route are.
    let metrics = api.get("/metrics").await;
    for outcome in ["ordered", "already_bought", "sold_out"] {
        let line = format!("seckill_purchases_total{{outcome=\"{outcome}\"}} 1\n");
        assert!(metrics.is(200).text.contains(&line), "{outcome}: {}", metrics.text);
    }
    refused(&buy(api, id + 1, &two).await, "优惠券不存在");
    for (begin, end, why) in [
        ("2089-01-01T00:00:00", FAR_AWAY, "秒杀尚未开始"),
        (LONG_AGO, "2026-01-25T10:09:18", "秒杀已经结束"),
    ] {
        let created = data(&sell(api, &admin, &voucher(1, begin, end)).await);
        refused(&buy(api, created.as_i64().unwrap(), &two).await, why);
    }

    // The list has what was put on sale a moment ago, the newest first, and what is left.
    for stock in [7, 8] {
        let id = on_sale(api, &admin, stock).await;
        let newest = data(&ask(api, "GET", "/voucher/list/1", "").await)[0].clone();
        assert_eq!((&newest["id"], &newest["stock"]), (&json!(id), &json!(stock)));
    }

    // Under `/api` as well, where the front end asks.
    let path = format!("/api/voucher-order/seckill/{id}");
    refused(&ask(api, "POST", &path, &one).await, "用户已经购买过一次");
    data(&ask(api, "GET", "/api/user/me", &one).await);

    assert_eq!(data(&ask(api, "POST", "/user/logout", &one).await), Value::Null);
    assert_eq!(ask(api, "GET", "/user/me", &one).await.is(401).text, "");
    data(&ask(api, "GET", "/user/me", &two).await);

    // The code of an administrator is in the log alone.
    let path = format!("/user/code?phone={}", DEMO_ADMIN_PHONE.replace('+', "%2B"));
    assert_eq!(data(&ask(api, "POST", &path, "").await), Value::Null);
    minted_tokens_buy(&server, on_sale(api, &admin, 6).await).await;
    without_its_redis_it_is_unavailable(&server, on_sale(api, &admin, 9).await, &two).await;
}

/// A load test that looks at the status alone must not take this for a refusal.
async fn without_its_redis_it_is_unavailable(server: &PrivateServer, voucher: i64, token: &str) {
    let is_redis = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "redis-server")
    };
    let redis = living_in(server.place.path()).into_iter().find(is_redis).unwrap();
    send(redis, Signal::SIGSTOP);
    let failed = buy(&server.api, voucher, token).await;
    send(redis, Signal::SIGCONT);
    assert!(error_of(&failed, 503).starts_with("服务暂不可用，请稍后再试"), "{failed:?}");
    assert!(failed.header("retry-after").is_some(), "{failed:?}");
    let sells = async || buy(&server.api, voucher, token).await.body["success"] == true;
    eventually("it sells again", sells).await;
}

/// Two engines of a load generator take the tokens of a part of the users each: no user is in both.
async fn minted_tokens_buy(server: &PrivateServer, voucher: i64) {
    let (data_of_server, out) = (server.place.path().join("data"), server.place.path().join("out"));
    let mut users = Vec::new();
    for first in ["100001", "100004"] {
        let mut command =
            seckill(&["tokens", "--format", "hmdp", "--users", "3", "--first", first]);
        command.arg("--out").arg(&out).arg("--data-dir").arg(&data_of_server);
        let output = finished(command).await;
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(text.ends_with('\n'));
        for token in text.lines() {
            let me = data(&ask(&server.api, "GET", "/user/me", token).await);
            users.push(me["id"].as_i64().unwrap());
            data(&buy(&server.api, voucher, token).await);
        }
    }
    users.sort_unstable();
    assert_eq!(users, [100_001, 100_002, 100_003, 100_004, 100_005, 100_006]);
}

/// Summer time in central Europe, as a rule that needs no file of time zones: it begins at 02:00, which is then 03:00,
/// and ends at 03:00, which is then 02:00.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_time_is_of_this_machines_zone_also_where_it_is_twice_or_never() {
    let variables = [("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")];
    let server = PrivateServer::start_with(&["--listen", "127.0.0.1:0"], &variables).await;
    for (local, instant) in [
        ("2027-01-15T12:00:00", "2027-01-15T11:00:00Z"),
        ("2027-07-15 12:00:00", "2027-07-15T10:00:00Z"),
        // The gap: one before, its bounds, its middle, one after.
        ("2027-03-28T01:59:59", "2027-03-28T00:59:59Z"),
        ("2027-03-28T02:00:00", "2027-03-28T01:00:00Z"),
        ("2027-03-28T02:30:00", "2027-03-28T01:30:00Z"),
        ("2027-03-28T02:59:59", "2027-03-28T01:59:59Z"),
        ("2027-03-28T03:00:00", "2027-03-28T01:00:00Z"),
        // The hour that comes twice: the first time.
        ("2027-10-31T01:59:59", "2027-10-30T23:59:59Z"),
        ("2027-10-31T02:00:00", "2027-10-31T00:00:00Z"),
        ("2027-10-31T02:59:59", "2027-10-31T00:59:59Z"),
        ("2027-10-31T03:00:00", "2027-10-31T02:00:00Z"),
    ] {
        let new = voucher(1, local, FAR_AWAY);
        let id = data(&sell(&server.api, &server.admin().await, &new).await);
        let ours = server.api.get(&format!("/api/vouchers/{id}")).await;
        assert_eq!(ours.is(200).body["begin_time"], instant, "{local}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_dialects_see_one_voucher_and_one_order() {
    let api = dialect().await;
    let [one, two, admin] = [1, 2, ADMIN].map(|user| api.world.token(user));
    let id = on_sale(&api, &admin, 10).await;
    let ours = api.get(&format!("/api/vouchers/{id}")).await.is(200).body.clone();
    let expected = json!({
        "title": "100元代金券", "subtitle": "周一至周日均可使用", "terms": "全场通用", "price": 8000, "value": 10_000,
        "initial_stock": 10, "pay_within_s": 2_592_000, "status": "on_sale",
    });
    for (member, expected) in expected.as_object().unwrap() {
        assert_eq!(&ours[member], expected, "{member}");
    }

    let order = data(&buy(&api, id, &one).await).to_string();
    let again = api.buy(1, id).await;
    assert_eq!(again.problem(409, "already_bought").text_of("order_id"), order);
    let kept = api.get_as(1, &format!("/api/orders/{order}")).await.is(200).body.clone();
    assert_eq!((&kept["status"], &kept["amount"]), (&json!("unpaid"), &json!(8000)));
    api.buy(2, id).await.is(201);
    refused(&buy(&api, id, &two).await, "用户已经购买过一次");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_administrator_puts_vouchers_on_sale_and_that_of_a_demonstration_only_here() {
    let api = dialect().await;
    let (admin, new) = (api.world.token(ADMIN), voucher(1, LONG_AGO, FAR_AWAY));
    assert_eq!(sell(&api, "", &new).await.is(401).text, "");
    assert_eq!(error_of(&sell(&api, &api.world.token(1), &new).await, 403), "没有权限");
    // As nginx asks without `proxy_set_header` (of this machine, it seems) and with it; and by another site's name.
    for (name, value, is_here) in [
        ("origin", "http://shop.example", true),
        ("host", "localhost:1", true),
        ("host", "evil.example", false),
        ("x-forwarded-for", "192.0.2.1", false),
    ] {
        let request = api.request("POST", "/voucher/seckill").header("authorization", &admin);
        let sold = api.send(request.header(name, value).json(&new)).await;
        if is_here {
            data(&sold);
        } else {
            assert!(error_of(&sold, 403).contains("SECKILL_ADMIN_PHONES"), "{name}: {sold:?}");
        }
    }
    // One whom the configuration names is one wherever he asks from.
    let api = dialect_of(None).await;
    let admin = api.world.token(ADMIN);
    data(&sell(&api, &admin, &new).await);
    let request = api.request("POST", "/voucher/seckill").header("authorization", &admin);
    data(&api.send(request.header("x-forwarded-for", "192.0.2.1").json(&new)).await);
}
