//! A shop with one sale, and what its buyers, its administrator, its payment gateway and its workers do there.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use reqwest::RequestBuilder;
use seckill::http::webhook::SIGNATURE;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Voucher};
use seckill::orders::ToGateway;
use seckill::orders::expiry::Expiry;
use seckill::orders::line::LineWork;
use seckill::orders::outbox::Outbox;
use seckill::purchase::audit::{self, VoucherAudit};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::api_client::{Answer, Api, Client};
use super::kept_payments::KeptPayments;
use super::world::{PRICE, World};
use crate::wait::eventually;

/// Its user administers a till's shop.
pub const ADMINISTRATOR: i64 = 100;

/// A shop with one sale.
pub struct Till {
    pub api: Api,
    /// What takes the payments of [`Till::open`]. The others have the sandbox.
    gateway: Option<Arc<KeptPayments>>,
    pub voucher: Voucher,
}

impl Deref for Till {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// A source that publishes its number at that instant.
pub fn beacon_at(name: &str, at: DateTime<Utc>) -> String {
    format!("{name}@{}", at.to_rfc3339())
}

impl Till {
    /// Sells `stock` vouchers to five users for 80.00, by a gateway of its own.
    pub async fn open(stock: i32) -> Self {
        let gateway = Arc::new(KeptPayments::default());
        let world = World { payments: Some(gateway.clone()), ..World::new().await };
        let voucher = world.priced_voucher(stock).await;
        Self { gateway: Some(gateway), ..Self::of(world, voucher, 5).await }
    }

    /// Sells `stock` vouchers to so many users for 80.00, with a line for what comes back.
    pub async fn with_line(stock: i32, users: u32) -> Self {
        let world = World::new().await;
        let voucher = world.voucher_with_line(stock).await;
        Self::of(world, voucher, users).await
    }

    /// Draws `stock` vouchers at this price among those of so many users who enter within an hour. `beacon` names the source
    /// of a public number that goes into the draw and is published a second after the close; empty: there is none.
    pub async fn with_draw(stock: i32, price: i64, beacon: &str, users: u32) -> Self {
        Self::drawn_in(TimeDelta::hours(1), stock, price, beacon, users).await
    }

    /// The same where the entries close after `closes`. The sale began an hour ago.
    pub async fn drawn_in(
        closes: TimeDelta,
        stock: i32,
        price: i64,
        beacon: &str,
        users: u32,
    ) -> Self {
        let world = World::new().await;
        let now = world.clock.now();
        let (begin, end) = (now - TimeDelta::hours(1), now + TimeDelta::days(1));
        let new = NewVoucher {
            price: Some(price),
            draw_time: Some(now + closes),
            draw_beacon: Some(match beacon {
                "" => String::new(),
                name => beacon_at(name, now + closes + TimeDelta::seconds(1)),
            }),
            ..NewVoucher::free("100 for 80", stock, begin, end)
        };
        let voucher = world.new_voucher(&new).await;
        Self::of(world, voucher, users).await
    }

    async fn of(world: World, voucher: Voucher, users: u32) -> Self {
        world.users(users).await;
        world.admin_token(ADMINISTRATOR).await;
        let address = world.serve().await;
        Self { api: Api::at(world, address), gateway: None, voucher }
    }

    /// The same sale by another server.
    pub async fn another_server(&self) -> Self {
        let world = self.world.another_process();
        let address = world.serve().await;
        let (gateway, voucher) = (self.gateway.clone(), self.voucher.clone());
        Self { api: Api::at(world, address), gateway, voucher }
    }

    pub fn gateway(&self) -> &Arc<KeptPayments> {
        self.gateway.as_ref().expect("a till of Till::open")
    }

    pub fn admin(&self) -> String {
        self.world.token(ADMINISTRATOR)
    }

    pub async fn as_admin(&self, method: &str, path: &str) -> Answer {
        self.call(method, path, &self.admin()).await
    }

    /// What an administrator reads there.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        self.as_admin("GET", path).await.is(200).body.as_array().unwrap().clone()
    }

    /// What an administrator does with an order.
    pub async fn admin_step(&self, order: &str, step: &str) -> Answer {
        self.step(&self.admin(), order, step).await
    }

    /// What an administrator does with the voucher.
    pub async fn administer(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = format!("/api/vouchers/{}{path}", self.voucher.id);
        self.call_with(method, &path, &self.admin(), body).await
    }

    /// The order that the user buys.
    pub async fn buy(&self, user: i64) -> String {
        self.try_buy(user).await.is(201).text_of("order_id").to_owned()
    }

    pub async fn try_buy(&self, user: i64) -> Answer {
        self.api.buy(user, self.voucher.id).await
    }

    /// So many other users have an order each.
    pub async fn sell_many(&self, count: u32) {
        self.world.users(1_000 + count).await;
        self.sql(&format!(
            "select from (select array_agg(n) ids, array_agg(sale_time()) times
                          from generate_series(1001, 1000 + {count}) n) buyers, sell($1, ids, ids, times)"
        ))
        .await;
    }

    pub async fn entries(&self, method: &str, user: i64) -> Answer {
        let path = format!("/api/vouchers/{}/entries", self.voucher.id);
        self.call(method, &path, &self.world.token(user)).await
    }

    pub async fn enter(&self, user: i64) -> Answer {
        self.entries("POST", user).await
    }

    /// Users 1 to `count`, one after the other.
    pub async fn all_enter(&self, count: i64) {
        for user in 1..=count {
            self.enter(user).await.is(201);
        }
    }

    pub async fn entry(&self, user: i64) -> Value {
        self.entries("GET", user).await.is(200).body.clone()
    }

    /// The draw as anybody reads it.
    pub async fn draw(&self) -> Value {
        let mut draw = Value::Null;
        // What is kept is of less than a second ago.
        let path = format!("/api/vouchers/{}/draw", self.voucher.id);
        let is_closed = self.world.clock.now() >= self.voucher.draw_time.unwrap();
        eventually("the draw is what it is now", async || {
            draw = self.get(&path).await.is(200).body.clone();
            draw["entries"].is_array() == is_closed
        })
        .await;
        draw
    }

    pub async fn after(&self, time: TimeDelta) {
        self.world.set_time(self.world.clock.now() + time).await;
    }

    /// What every server does for draws and lines, until there is nothing to do.
    pub async fn serve(&self) {
        self.world.serve_lines().await;
    }

    /// How many orders one step of a server that asks no gateway cancels because their time is over.
    pub async fn expire(&self) -> i64 {
        self.expiry(Duration::ZERO).await.step().await.unwrap().1
    }

    /// Of another server, which asks the gateway before, for so long.
    pub async fn expiry(&self, ask_within: Duration) -> Expiry {
        let world = self.world.another_process();
        let purchases = world.shop().await;
        Expiry::new(world.database, purchases, ask_within)
    }

    /// What servers have to tell the gateway.
    pub async fn gateway_work(&self) -> Outbox<ToGateway> {
        let purchases = self.world.shop().await;
        Outbox::of_gateway(self.world.database.clone(), purchases, self.gateway().clone())
    }

    /// Another session holds the row of the sale until it is closed.
    pub async fn hold_the_sale(&self) -> PgConnection {
        let voucher = self.voucher.id;
        let hold = format!("select from seckill_vouchers where voucher_id = {voucher} for update");
        self.world.begin(&hold).await
    }

    /// `$1` is the voucher.
    pub async fn sql(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.world.database_url).await.unwrap();
        let statement = statement.replace("$1", &self.voucher.id.to_string());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }

    /// Every audit holds; that of the voucher.
    pub async fn holds(&self) -> VoucherAudit {
        let mut audits = self.world.audits_hold().await.into_iter();
        audits.find(|audit| audit.voucher_id == self.voucher.id).unwrap()
    }

    /// The audit says so, among other things.
    pub async fn is_broken(&self, what: &str) {
        let audit = self.world.audit().await;
        let told: Vec<String> = audit.violations.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|violation| violation.contains(what)), "{what}: {told:?}");
    }
}

impl Client {
    /// A step of an order: `payments` begins one, and the others are `cancellation`, `refund`, `redemption`, `settlement`.
    pub async fn step(&self, token: &str, order: &str, step: &str) -> Answer {
        self.call("POST", &format!("/api/orders/{order}/{step}"), token).await
    }

    /// Begins the payment of an order. Returns its id.
    pub async fn begin_payment(&self, token: &str, order: &str) -> String {
        self.step(token, order, "payments").await.is(201).text_of("payment_id").to_owned()
    }

    /// A message of the payment gateway, not sent yet.
    pub fn noticing(&self, notice: &[u8], signature: &str) -> RequestBuilder {
        let request = self.request("POST", "/api/payments/notifications");
        request.header(SIGNATURE, signature).body(notice.to_vec())
    }

    /// The buyer pays on the sandbox's page.
    pub async fn pay_in_sandbox(&self, payment: &str) {
        let path = format!("/api/sandbox/payments/{payment}");
        // On a busy machine the first connection of a pool may come too late: a 503 asks to be asked again.
        eventually("the payment is taken", async || {
            let answer = self.post(&path, &json!({ "action": "pay" })).await;
            assert!([204, 503].contains(&answer.status), "{answer:?}");
            answer.status == 204
        })
        .await;
    }
}

impl Api {
    pub async fn own_step(&self, user: i64, order: &str, step: &str) -> Answer {
        self.step(&self.world.token(user), order, step).await
    }

    pub async fn own_payment(&self, user: i64, order: &str) -> String {
        self.begin_payment(&self.world.token(user), order).await
    }

    pub async fn status(&self, user: i64, order: &str) -> String {
        let found = self.get_as(user, &format!("/api/orders/{order}")).await;
        found.is(200).text_of("status").to_owned()
    }

    /// What the payment gateway says.
    pub async fn notify(&self, notice: &Value) -> Answer {
        let notice = serde_json::to_vec(notice).unwrap();
        let signature = self.world.payment_key().sign(1, &notice);
        self.send(self.noticing(&notice, &signature)).await
    }

    /// The user pays for `order`, in this transaction. Returns the payment.
    pub async fn pay(&self, user: i64, order: &str, transaction: &str) -> String {
        let payment = self.own_payment(user, order).await;
        self.notify(&succeeded(&payment, transaction, PRICE)).await.is(204);
        payment
    }
}

impl World {
    /// What every server does for draws and lines, until there is nothing to do.
    pub async fn serve_lines(&self) {
        let world = self.another_process();
        let purchases = world.shop().await;
        let mut work = LineWork::new(world.database.clone(), purchases);
        while work.step().await.unwrap() {}
    }

    /// Asserts that the audit of every voucher holds.
    pub async fn audits_hold(&self) -> Vec<VoucherAudit> {
        let audits = audit::run(self.database.pool(), None).await.unwrap();
        assert!(audits.iter().all(|audit| audit.holds), "{audits:?}");
        audits
    }
}

/// What the payment gateway says of the money of a payment: `succeeded`, `refunded` or `charged_back`.
pub fn notice(status: &str, payment: &str, transaction: &str, amount: i64) -> Value {
    json!({ "payment_id": payment, "status": status, "transaction_id": transaction, "amount": amount })
}

pub fn succeeded(payment: &str, transaction: &str, amount: i64) -> Value {
    notice("succeeded", payment, transaction, amount)
}
