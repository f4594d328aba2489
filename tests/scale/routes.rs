//! The API on distributed data.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use seckill::model::{Clock, SystemClock};
use seckill::orders::ASK_WITHIN;
use seckill::orders::expiry::Expiry;
use seckill::orders::outbox::Outbox;
use seckill::orders::winding_up::WindingUp;
use seckill::store::cancelled_sales;
use seckill::store::{Database, orders};
use serde_json::json;

use super::citus::Citus;
use testkit::program::Program;
use testkit::shop::api_client::{Api, DOCUMENT};
use testkit::shop::till::{beacon_at, notice, succeeded};
use testkit::shop::world::{ADMIN_PHONE, PRICE, World};
use testkit::wait::eventually;

/// A world whose database is this one.
pub async fn world_on(cluster: &Citus) -> World {
    let database_url = cluster.coordinator.url();
    let database = Database::new(&database_url).unwrap();
    let world = World { database_url, database, ..World::new().await };
    world.clock.set(SystemClock.now());
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_works_on_distributed_data() {
    let Some(cluster) = Citus::distributed(2).await else { return };
    let world = world_on(&cluster).await;
    let api = Api::of(world).await;

    let admin = api.log_in(ADMIN_PHONE).await;
    let buyer = api.log_in("13800138000").await;
    api.call("GET", "/api/me", &buyer).await.is(200);
    // Enough vouchers to have some on each worker.
    let mut vouchers = Vec::new();
    for number in 1..=8 {
        let body = json!({ "title": format!("voucher {number}"), "stock": 2 });
        let created = api.call_with("POST", "/api/vouchers", &admin, &body).await;
        vouchers.push(created.is(201).text_of("id").to_owned());
    }
    let mut workers = BTreeSet::new();
    for voucher in &vouchers {
        workers.insert(cluster.worker_of(voucher.parse().unwrap()).await);
    }
    assert_eq!(workers.len(), 2, "{vouchers:?}");
    let list = api.call("GET", "/api/vouchers?limit=5", "").await;
    let newest: Vec<_> = list.body.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(newest, vouchers.iter().rev().take(5).collect::<Vec<_>>(), "{list:?}");

    let mut orders = Vec::new();
    for voucher in &vouchers {
        orders.push(sell_out(&api, voucher, &buyer, &admin).await);
    }
    api.call("GET", "/api/events", "").await.is(200);

    // Of all workers, newest first, in pages.
    let page = api.call("GET", "/api/orders?limit=5", &buyer).await;
    let own: Vec<_> = page.body.as_array().unwrap().iter().map(|it| &it["order_id"]).collect();
    assert_eq!(own, orders.iter().rev().take(5).collect::<Vec<_>>(), "{page:?}");
    for order in &orders {
        let path = format!("/api/orders/{order}");
        api.call("GET", &path, &buyer).await.is(200);
        api.call("GET", &path, &admin).await.problem(404, "order_not_found");
    }
    an_order_lives(&api, &buyer, &admin).await;
    a_draw_is_made(&api, &buyer, &admin).await;
    for route in ["/healthz", "/readyz", "/metrics"] {
        api.call("GET", route, &admin).await.is(200);
    }
    api.call("DELETE", "/api/sessions", &buyer).await.is(204);
    api.call("GET", "/api/me", &buyer).await.problem(401, "unauthenticated");

    let documented: BTreeSet<_> = DOCUMENT["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, operations)| {
            operations.as_object().unwrap().keys().map(|method| (method.clone(), path.as_str()))
        })
        .collect();
    // Events of several workers have no common order.
    let log = "/api/events/log";
    api.call("GET", log, &admin).await.problem(503, "unavailable");
    let (told, undone): (BTreeSet<_>, _) = (api.done(), ("get".to_owned(), log));
    assert_eq!(documented.difference(&told).collect::<Vec<_>>(), [&undone]);

    commands_work(&api.world).await;
}

/// A draw with a public number: its buyer enters, leaves, enters again, and is offered the voucher.
async fn a_draw_is_made(api: &Api, buyer: &str, admin: &str) {
    let now = SystemClock.now();
    let body = json!({
        "title": "drawn", "stock": 1, "begin_time": now - TimeDelta::hours(1),
        "draw_time": now + TimeDelta::seconds(5), "draw_beacon": beacon_at("a lottery", now + TimeDelta::seconds(6)),
    });
    let created = api.call_with("POST", "/api/vouchers", admin, &body).await;
    let path = format!("/api/vouchers/{}", created.is(201).text_of("id"));
    let (entries, draw) = (format!("{path}/entries"), format!("{path}/draw"));
    for (method, status) in [("POST", 201), ("GET", 200), ("DELETE", 204), ("POST", 429)] {
        api.call(method, &entries, buyer).await.is(status);
    }
    let other = api.call("POST", &entries, admin).await;
    let removed = format!("{entries}/{}?reason=x", other.is(201).text_of("entry_id"));
    api.call("DELETE", &removed, admin).await.is(204);
    // Whoever comes back waits for a second.
    eventually("the buyer enters again", async || {
        api.call("POST", &entries, buyer).await.status == 201
    })
    .await;
    eventually("the entries are closed", async || {
        let number = json!({ "number": "7" });
        api.call_with("PUT", &draw, admin, &number).await.status == 204
    })
    .await;
    api.world.serve_lines().await;
    let line = api.call("GET", &format!("{path}/line"), admin).await;
    assert_eq!((&line.is(200).body["offered"], &line.body["number"]), (&json!(1), &json!("7")));
    let entry = api.call("GET", &entries, buyer).await;
    assert_eq!(entry.is(200).text_of("status"), "bought");
    assert!(api.call("GET", &draw, "").await.is(200).body["seed"].is_string());
    let service = api.call("GET", &format!("{draw}/service"), "").await;
    assert_eq!(service.is(200).body["ended"][0]["outcome"], "offered");
}

/// Both of a voucher's stock of two are sold. Returns the order of `buyer`.
async fn sell_out(api: &Api, voucher: &str, buyer: &str, admin: &str) -> String {
    let path = format!("/api/vouchers/{voucher}/orders");
    let order = api.call("POST", &path, buyer).await;
    let order = order.is(201).text_of("order_id").to_owned();
    // The other one goes to the other user, then nothing is left.
    api.call("POST", &path, admin).await.is(201);
    let found = api.call("GET", &format!("/api/vouchers/{voucher}"), "").await;
    assert_eq!(found.is(200).text_of("title").split(' ').next(), Some("voucher"));
    let path = format!("/api/vouchers/{voucher}/audit");
    let audit = api.call("POST", &path, admin).await;
    assert_eq!(
        (&audit.body["holds"], &audit.body["orders"]),
        (&json!(true), &json!(2)),
        "{audit:?}"
    );
    let path = format!("/api/vouchers/{voucher}/events");
    api.call("GET", &path, "").await.is(200);
    order
}

/// Orders of a voucher for money: paid and redeemed, cancelled, expired and paid too late, refunded.
async fn an_order_lives(api: &Api, buyer: &str, admin: &str) {
    let body = json!({ "title": "for money", "stock": 1, "price": 8000 });
    let created = api.call_with("POST", "/api/vouchers", admin, &body).await;
    let voucher = created.is(201).text_of("id").to_owned();
    let path = format!("/api/vouchers/{voucher}");
    let change = json!({ "initial_stock": 4, "paused": false });
    api.call_with("PATCH", &path, admin, &change).await.is(200);
    let used = pay(api, &voucher, buyer, "t1").await;
    api.step(admin, &used, "redemption").await.is(200);
    let refunded = pay(api, &voucher, admin, "t2").await;
    api.step(admin, &refunded, "refund").await.is(202);
    api.call("GET", "/api/refunds", admin).await.is(200);
    let world = &api.world;
    let shop = world.shop().await;
    let gateway = world.payments.clone().unwrap();
    let messages = Outbox::of_gateway(world.database.clone(), Arc::clone(&shop), gateway);
    assert_eq!(messages.step().await.unwrap(), (1, 1));
    // It failed after all, and is settled outside.
    let payment = format!("{voucher}.{refunded}.1");
    let mut failed = notice("refund_failed", &payment, "t2", PRICE);
    failed["return_id"] = json!(payment);
    api.notify(&failed).await.is(204);
    let waiting = api.call("GET", "/api/refunds", admin).await;
    assert_eq!(waiting.body[0]["returns"][0]["by"], "refund", "{waiting:?}");
    api.step(admin, &refunded, "settlement").await.is(200);
    let cancelled = buy(api, &voucher, admin).await;
    api.step(admin, &cancelled, "cancellation").await.is(200);
    let late = buy(api, &voucher, admin).await;
    let payment = api.begin_payment(admin, &late).await;
    let over = "update orders set pay_by = now() - interval '1 second' where id = $1";
    let over = sqlx::query(over).bind(late.parse::<i64>().unwrap());
    over.execute(api.world.database.pool()).await.unwrap();
    let mut expiry = Expiry::new(api.world.database.clone(), shop, ASK_WITHIN);
    assert_eq!(expiry.step().await.unwrap(), (1, 0));
    // The sandbox says that nobody has paid.
    assert_eq!(messages.step().await.unwrap(), (1, 1));
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    api.notify(&succeeded(&payment, "t3", PRICE)).await.is(204);
    api.notify(&succeeded("nobody's", "t4", PRICE)).await.is(204);
    let kept = api.call("GET", "/api/payments/unmatched", admin).await;
    assert_eq!(kept.body[0]["transaction_id"], "t4", "{kept:?}");
    let resolution =
        format!("/api/payments/unmatched/{}/resolution", kept.body[0]["id"].as_str().unwrap());
    assert!(api.call("POST", &resolution, admin).await.is(200).body["resolved_at"].is_string());
    let listed = api.call("GET", &format!("{path}/orders"), admin).await;
    let states: Vec<_> = listed.body.as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(states, ["paid", "cancelled", "refunded", "used"], "{listed:?}");
    let audit = api.call("POST", &format!("{path}/audit"), admin).await;
    assert_eq!(
        (&audit.body["holds"], &audit.body["stock"]),
        (&json!(true), &json!(2)),
        "{audit:?}"
    );
    money_goes_back(api, &voucher, (&used, &late), admin).await;
}

/// Outside the gateway, by a charge-back, before it is said to have come, and because the whole sale is cancelled.
async fn money_goes_back(api: &Api, voucher: &str, (used, paid): (&str, &str), admin: &str) {
    api.step(admin, paid, "refund").await.is(202);
    api.step(admin, paid, "settlement").await.is(200);
    let log = api.call("GET", &format!("/api/orders/{paid}/steps"), admin).await;
    let log: Vec<_> = log.is(200).body.as_array().unwrap().iter().map(|it| &it["step"]).collect();
    assert_eq!(log, ["cancelled", "revived", "refund_begun", "settled_outside"]);
    for status in ["charged_back", "charge_back_won"] {
        api.notify(&notice(status, &format!("{voucher}.{used}.1"), "t1", PRICE)).await.is(204);
    }
    let early = buy(api, voucher, admin).await;
    let payment = api.begin_payment(admin, &early).await;
    api.notify(&notice("refunded", &payment, "t5", PRICE)).await.is(204);
    api.notify(&notice("succeeded", &payment, "t5", PRICE)).await.is(204);
    pay(api, voucher, admin, "t6").await;
    let database = api.world.database.clone();
    let id = voucher.parse().unwrap();
    assert!(cancelled_sales::cancel(database.steps(), id).await.unwrap());
    let winding_up = WindingUp::new(database.clone());
    assert_eq!(winding_up.step(id).await.unwrap().refunded, 1);
    assert!(winding_up.step(id).await.unwrap().is_complete);
    let counts = cancelled_sales::count_orders(database.pool(), id).await.unwrap().unwrap();
    assert_eq!((counts.used, counts.refunding, counts.refunded), (1, 1, 3));
    api.world.audits_hold().await;
}

async fn buy(api: &Api, voucher: &str, token: &str) -> String {
    let path = format!("/api/vouchers/{voucher}/orders");
    // The server may remember for a second the order that was just cancelled.
    let mut order = None;
    eventually("the buyer has an order", async || {
        let answer = api.call("POST", &path, token).await;
        order = (answer.status == 201).then(|| answer.text_of("order_id").to_owned());
        order.is_some()
    })
    .await;
    order.unwrap()
}

async fn pay(api: &Api, voucher: &str, token: &str, transaction: &str) -> String {
    let order = buy(api, voucher, token).await;
    let payment = api.begin_payment(token, &order).await;
    api.notify(&succeeded(&payment, transaction, PRICE)).await.is(204);
    order
}

/// What no route does.
async fn commands_work(world: &World) {
    let last = orders::last_id(world.database.pool()).await.unwrap().unwrap();
    let newest: i64 = sqlx::query_scalar("select id from orders order by id desc limit 1")
        .fetch_one(world.database.pool())
        .await
        .unwrap();
    assert_eq!(last.get(), newest);
    let program = Program::on(world);
    assert!(program.says(&["voucher", "list"]).await.contains("voucher 8"));
    let audits = world.audits_hold().await;
    let orders: Vec<i64> = audits.iter().map(|audit| audit.orders).collect();
    assert_eq!(orders, [2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    let exported = program.says(&["orders", "export", "--status", "used"]).await;
    assert_eq!(exported.lines().count(), 2, "{exported}");
    let telling = Program::on(world)
        .with("SECKILL_EVENTS_URL", "http://127.0.0.1:9/")
        .with("SECKILL_EVENTS_SECRET", "0123456789abcdef");
    let ran = telling.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert!(ran.status == 2 && ran.stderr.contains("distributed over Citus"), "{ran:?}");
    let exported = program.says(&["user", "export", "13800138000"]).await;
    assert!(exported.contains("\"phone\": \"13800138000\""), "{exported}");
    let erased = program.says(&["user", "erase", "13800138000", "--yes"]).await;
    assert!(erased.ends_with("is erased\n"), "{erased}");
    let mut over = vec!["voucher", "add", "--title", "over", "--stock", "1"];
    over.extend(["--begin", "2026-01-01T00:00:00Z", "--end", "2026-01-02T00:00:00Z"]);
    program.says(&over).await;
    let pruned = program.says(&["prune", "--older-than", "1d"]).await;
    assert_eq!(pruned, "removed: 1 seckill_vouchers, 1 vouchers\n");
    world.audits_hold().await;
}
