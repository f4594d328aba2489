//! The API on distributed data.

#[allow(unused_imports)]
use crate::worlds::*;
use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use seckill::http::webhook::SIGNATURE;
use seckill::model::{Clock, SystemClock};
use seckill::orders::expiry::Expiry;
use seckill::orders::gateway_work::GatewayWork;
use seckill::orders::line::LineWork;
use seckill::orders::winding_up::WindingUp;
use seckill::purchase::audit;
use seckill::store::cancelled_sales;
use seckill::store::{Database, orders};
use serde_json::json;

use super::citus::{Citus, is_installed};
use testkit::program::Program;
use testkit::shop::api_client::{Answer, Api, DOCUMENT};
use testkit::shop::world::{ADMIN_PHONE, World};
use testkit::wait::eventually;

/// A world whose database is this one.
pub async fn world_on(cluster: &Citus) -> World {
    let database_url = cluster.coordinator.url();
    let database = Database::new(&database_url).unwrap();
    let world = World { database_url, database, ..World::new().await };
    world.clock.set(SystemClock.now());
    world
}

/// An API, and which of its operations were asked for something that they did.
struct Walk {
    api: Api,
    done: BTreeSet<(String, &'static str)>,
}

impl Walk {
    /// `route` is the path as the document has it, `path` the one to ask.
    async fn ask(&mut self, method: &str, route: &'static str, path: &str, token: &str) -> Answer {
        self.send(method, route, path, token, None).await
    }

    async fn send(
        &mut self,
        method: &str,
        route: &'static str,
        path: &str,
        token: &str,
        body: Option<serde_json::Value>,
    ) -> Answer {
        let request = self.api.request(method, path).bearer_auth(token);
        let request = if let Some(body) = &body { request.json(body) } else { request };
        let answer = self.api.send(request).await;
        if answer.status < 300 {
            self.done.insert((method.to_lowercase(), route));
        }
        answer
    }

    async fn log_in(&mut self, phone: &str) -> String {
        let codes = "/api/login-codes";
        self.send("POST", codes, codes, "", Some(json!({ "phone": phone }))).await.is(202);
        let code = self.api.world.sms.0.lock().unwrap().last().unwrap().1.clone();
        let body = json!({ "phone": phone, "code": code });
        let session = self.send("POST", "/api/sessions", "/api/sessions", "", Some(body)).await;
        session.is(201).text_of("token").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_works_on_distributed_data() {
    if !is_installed() {
        return;
    }
    let cluster = Citus::distributed(2).await;
    let world = world_on(&cluster).await;
    let address = world.serve().await;
    let mut walk = Walk { api: Api::at(world, address), done: BTreeSet::new() };

    let admin = walk.log_in(ADMIN_PHONE).await;
    let buyer = walk.log_in("13800138000").await;
    walk.ask("GET", "/api/me", "/api/me", &buyer).await.is(200);
    // Enough vouchers to have some on each worker.
    let mut vouchers = Vec::new();
    for number in 1..=8 {
        let body = json!({ "title": format!("voucher {number}"), "stock": 2 });
        let created = walk.send("POST", "/api/vouchers", "/api/vouchers", &admin, Some(body)).await;
        vouchers.push(created.is(201).text_of("id").to_owned());
    }
    let mut workers = BTreeSet::new();
    for voucher in &vouchers {
        workers.insert(cluster.worker_of(voucher.parse().unwrap()).await);
    }
    assert_eq!(workers.len(), 2, "{vouchers:?}");
    let list = walk.ask("GET", "/api/vouchers", "/api/vouchers?limit=5", "").await;
    let newest: Vec<_> = list.body.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(newest, vouchers.iter().rev().take(5).collect::<Vec<_>>(), "{list:?}");

    let mut orders = Vec::new();
    for voucher in &vouchers {
        orders.push(sell_out(&mut walk, voucher, &buyer, &admin).await);
    }
    walk.ask("GET", "/api/events", "/api/events", "").await.is(200);

    // Of all workers, newest first, in pages.
    let page = walk.ask("GET", "/api/orders", "/api/orders?limit=5", &buyer).await;
    let own: Vec<_> = page.body.as_array().unwrap().iter().map(|it| &it["order_id"]).collect();
    assert_eq!(own, orders.iter().rev().take(5).collect::<Vec<_>>(), "{page:?}");
    for order in &orders {
        let path = format!("/api/orders/{order}");
        walk.ask("GET", "/api/orders/{id}", &path, &buyer).await.is(200);
        walk.ask("GET", "/api/orders/{id}", &path, &admin).await.problem(404, "order_not_found");
    }
    an_order_lives(&mut walk, &buyer, &admin).await;
    a_draw_is_made(&mut walk, &buyer, &admin).await;
    for route in ["/api/nodes", "/healthz", "/readyz", "/metrics"] {
        walk.ask("GET", route, route, &admin).await.is(200);
    }
    walk.ask("DELETE", "/api/sessions", "/api/sessions", &buyer).await.is(204);
    walk.ask("GET", "/api/me", "/api/me", &buyer).await.problem(401, "unauthenticated");

    let documented: BTreeSet<_> = DOCUMENT["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, operations)| {
            operations.as_object().unwrap().keys().map(|method| (method.clone(), path.as_str()))
        })
        .collect();
    assert_eq!(walk.done, documented);

    commands_work(&walk.api.world).await;
}

/// A draw with a public number: its buyer enters, leaves, enters again, and is offered the voucher.
async fn a_draw_is_made(walk: &mut Walk, buyer: &str, admin: &str) {
    let now = SystemClock.now();
    let body = json!({
        "title": "drawn", "stock": 1, "begin_time": now - TimeDelta::hours(1),
        "draw_time": now + TimeDelta::seconds(2), "draw_beacon": "a lottery",
    });
    let created = walk.send("POST", "/api/vouchers", "/api/vouchers", admin, Some(body)).await;
    let path = format!("/api/vouchers/{}", created.is(201).text_of("id"));
    let (entries, draw) = (format!("{path}/entries"), format!("{path}/draw"));
    let (entries_route, draw_route) = ("/api/vouchers/{id}/entries", "/api/vouchers/{id}/draw");
    for (method, status) in [("POST", 201), ("GET", 200), ("DELETE", 204), ("POST", 201)] {
        walk.ask(method, entries_route, &entries, buyer).await.is(status);
    }
    eventually("the entries are closed", async || {
        let number = Some(json!({ "number": "7" }));
        walk.send("PUT", draw_route, &draw, admin, number).await.status == 204
    })
    .await;
    let world = walk.api.world.clone();
    let mut work = LineWork::new(world.database.clone(), world.shop().await);
    while work.step().await.unwrap() {}
    let line = walk.ask("GET", "/api/vouchers/{id}/line", &format!("{path}/line"), admin).await;
    assert_eq!((&line.is(200).body["offered"], &line.body["number"]), (&json!(1), &json!("7")));
    let entry = walk.ask("GET", entries_route, &entries, buyer).await;
    assert_eq!(entry.is(200).text_of("status"), "bought");
    assert!(walk.ask("GET", draw_route, &draw, "").await.is(200).body["seed"].is_string());
}

/// Both of a voucher's stock of two are sold, and a third buyer hears that it is sold out. Returns the order
/// of `buyer`.
async fn sell_out(walk: &mut Walk, voucher: &str, buyer: &str, admin: &str) -> String {
    let path = format!("/api/vouchers/{voucher}/orders");
    let route = "/api/vouchers/{id}/orders";
    let order = walk.ask("POST", route, &path, buyer).await;
    let order = order.is(201).text_of("order_id").to_owned();
    // The other one goes to the other user, then nothing is left.
    walk.ask("POST", route, &path, admin).await.is(201);
    let again = walk.ask("POST", route, &path, buyer).await;
    again.problem(409, "already_bought");
    assert_eq!(again.text_of("order_id"), order);
    let token = walk.api.world.token(99);
    walk.ask("POST", route, &path, &token).await.problem(409, "sold_out");
    let found =
        walk.ask("GET", "/api/vouchers/{id}", &format!("/api/vouchers/{voucher}"), "").await;
    assert_eq!(found.is(200).text_of("title").split(' ').next(), Some("voucher"));
    let path = format!("/api/vouchers/{voucher}/audit");
    let audit = walk.ask("POST", "/api/vouchers/{id}/audit", &path, admin).await;
    assert_eq!(
        (&audit.body["holds"], &audit.body["orders"]),
        (&json!(true), &json!(2)),
        "{audit:?}"
    );
    let path = format!("/api/vouchers/{voucher}/events");
    walk.ask("GET", "/api/vouchers/{id}/events", &path, "").await.is(200);
    order
}

/// Orders of a voucher for money: paid and redeemed, cancelled, expired and paid too late, refunded.
async fn an_order_lives(walk: &mut Walk, buyer: &str, admin: &str) {
    let body = json!({ "title": "for money", "stock": 1, "price": 8000 });
    let created = walk.send("POST", "/api/vouchers", "/api/vouchers", admin, Some(body)).await;
    let voucher = created.is(201).text_of("id").to_owned();
    let path = format!("/api/vouchers/{voucher}");
    let change = json!({ "initial_stock": 4, "paused": false });
    walk.send("PATCH", "/api/vouchers/{id}", &path, admin, Some(change)).await.is(200);
    let used = pay(walk, &voucher, buyer, "t1").await;
    step(walk, "redemption", &used, admin).await.is(200);
    let refunded = pay(walk, &voucher, admin, "t2").await;
    step(walk, "refund", &refunded, admin).await.is(202);
    walk.ask("GET", "/api/refunds", "/api/refunds", admin).await.is(200);
    let world = &walk.api.world;
    let shop = world.shop().await;
    let gateway = world.payments.clone().unwrap();
    let refunds = GatewayWork::new(world.database.clone(), Arc::clone(&shop), gateway);
    assert_eq!(refunds.step().await.unwrap(), (1, 1));
    let cancelled = buy(walk, &voucher, admin).await;
    step(walk, "cancellation", &cancelled, admin).await.is(200);
    let late = buy(walk, &voucher, admin).await;
    let payment = open_payment(walk, &late, admin).await;
    let over = "update orders set pay_by = now() - interval '1 second' where id = $1";
    let over = sqlx::query(over).bind(late.parse::<i64>().unwrap());
    over.execute(walk.api.world.database.pool()).await.unwrap();
    let mut expiry = Expiry::new(walk.api.world.database.clone(), shop);
    assert_eq!(expiry.step().await.unwrap(), (1, 1));
    notify(walk, &payment, "t3").await;
    notify(walk, "nobody's", "t4").await;
    let unmatched = "/api/payments/unmatched";
    let kept = walk.ask("GET", unmatched, unmatched, admin).await;
    assert_eq!(kept.body[0]["transaction_id"], "t4", "{kept:?}");
    let listed =
        walk.ask("GET", "/api/vouchers/{id}/orders", &format!("{path}/orders"), admin).await;
    let states: Vec<_> = listed.body.as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(states, ["paid", "cancelled", "refunded", "used"], "{listed:?}");
    let audit = walk.ask("POST", "/api/vouchers/{id}/audit", &format!("{path}/audit"), admin).await;
    assert_eq!(
        (&audit.body["holds"], &audit.body["stock"]),
        (&json!(true), &json!(2)),
        "{audit:?}"
    );
    money_goes_back(walk, &voucher, (&used, &late), admin).await;
}

/// Outside the gateway, by a charge-back, before it is said to have come, and because the whole sale is cancelled.
async fn money_goes_back(walk: &mut Walk, voucher: &str, (used, paid): (&str, &str), admin: &str) {
    step(walk, "refund", paid, admin).await.is(202);
    step(walk, "settlement", paid, admin).await.is(200);
    let steps = "/api/orders/{id}/steps";
    let log = walk.ask("GET", steps, &steps.replace("{id}", paid), admin).await;
    let log: Vec<_> = log.is(200).body.as_array().unwrap().iter().map(|it| &it["step"]).collect();
    assert_eq!(log, ["cancelled", "revived", "refund_begun", "settled_outside"]);
    say(walk, &format!("{voucher}.{used}.1"), "charged_back", "t1").await;
    let early = buy(walk, voucher, admin).await;
    let payment = open_payment(walk, &early, admin).await;
    say(walk, &payment, "refunded", "t5").await;
    say(walk, &payment, "succeeded", "t5").await;
    pay(walk, voucher, admin, "t6").await;
    let database = walk.api.world.database.clone();
    let id = voucher.parse().unwrap();
    assert!(cancelled_sales::cancel(database.steps(), id).await.unwrap());
    let winding_up = WindingUp::new(database.clone());
    assert_eq!(winding_up.step(id).await.unwrap().refunded, 1);
    assert!(winding_up.step(id).await.unwrap().is_complete);
    let counts = cancelled_sales::count_orders(database.pool(), id).await.unwrap().unwrap();
    assert_eq!((counts.used, counts.refunding, counts.refunded), (1, 1, 3));
    let audits = seckill::purchase::audit::run(database.pool(), None).await.unwrap();
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
}

async fn buy(walk: &mut Walk, voucher: &str, token: &str) -> String {
    let path = format!("/api/vouchers/{voucher}/orders");
    // The server may remember for a second the order that was just cancelled.
    let mut order = None;
    eventually("the buyer has an order", async || {
        let answer = walk.ask("POST", "/api/vouchers/{id}/orders", &path, token).await;
        order = (answer.status == 201).then(|| answer.text_of("order_id").to_owned());
        order.is_some()
    })
    .await;
    order.unwrap()
}

async fn step(walk: &mut Walk, step: &str, order: &str, token: &str) -> Answer {
    let route = match step {
        "redemption" => "/api/orders/{id}/redemption",
        "refund" => "/api/orders/{id}/refund",
        "settlement" => "/api/orders/{id}/settlement",
        _ => "/api/orders/{id}/cancellation",
    };
    walk.ask("POST", route, &route.replace("{id}", order), token).await
}

async fn open_payment(walk: &mut Walk, order: &str, token: &str) -> String {
    let route = "/api/orders/{id}/payments";
    let payment = walk.ask("POST", route, &route.replace("{id}", order), token).await;
    payment.is(201).text_of("payment_id").to_owned()
}

async fn pay(walk: &mut Walk, voucher: &str, token: &str, transaction: &str) -> String {
    let order = buy(walk, voucher, token).await;
    let payment = open_payment(walk, &order, token).await;
    notify(walk, &payment, transaction).await;
    order
}

/// What the gateway says, signed.
async fn notify(walk: &mut Walk, payment: &str, transaction: &str) {
    say(walk, payment, "succeeded", transaction).await;
}

async fn say(walk: &mut Walk, payment: &str, status: &str, transaction: &str) {
    let body = json!({
        "payment_id": payment, "status": status, "transaction_id": transaction, "amount": 8000,
    });
    let body = body.to_string();
    let signature = walk.api.world.payment_key().sign(1, body.as_bytes());
    let route = "/api/payments/notifications";
    let request = walk.api.request("POST", route).header(SIGNATURE, signature);
    walk.api.send(request.body(body)).await.is(204);
    walk.done.insert(("post".to_owned(), route));
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
    let file = program.file("tokens.csv");
    program.says(&["tokens", "--users", "20", "--out", file.to_str().unwrap()]).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 21);
    assert!(program.says(&["voucher", "list"]).await.contains("voucher 8"));
    let audits = audit::run(world.database.pool(), None).await.unwrap();
    let orders: Vec<i64> = audits.iter().map(|audit| audit.orders).collect();
    assert_eq!(orders, [2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
    let exported = program.says(&["orders", "export", "--status", "used"]).await;
    assert_eq!(exported.lines().count(), 2, "{exported}");
}
