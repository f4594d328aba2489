//! A draw and a line, while everything breaks: buyers enter, some leave, those who were drawn or are first in line pay, cancel
//! or do nothing. In the end each entry of which a buyer was told is there, the draw is what its seed says, and nobody was
//! passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use rand::RngExt;
use rand::rngs::StdRng;
use reqwest::Method;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Draw, SystemClock, VoucherId};
use serde_json::Value;
use sqlx::PgPool;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::gateway::{Gateway, PAUSE, PRICE};
use crate::faults::sale::{Sale, put_on_sale};
use testkit::wait::eventually;

const STOCK: i32 = 8;
/// At once: most of them stand in line.
const BUYERS: i64 = 30;
const BUYERS_EACH: i64 = 100;
/// How long a buyer who waits leaves the page alone.
const LOOKS_EVERY: Duration = Duration::from_millis(200);

/// A sale since an hour ago, whose entries close while the round goes on.
pub async fn open(pool: &PgPool, dice: &mut StdRng) -> VoucherId {
    let now = SystemClock.now();
    let hour = TimeDelta::hours(1);
    let draw_time = Some(now + TimeDelta::milliseconds(dice.random_range(1_500..4_000)));
    let free = NewVoucher::free("drawn", STOCK, now - hour, now + hour);
    let new = NewVoucher { price: Some(PRICE), pay_within_s: Some(2), draw_time, ..free };
    put_on_sale(pool, &new).await
}

/// Buyers come for `voucher`, in the names of the users below `last`.
pub fn begin(
    people: &mut JoinSet<()>,
    (sale, gateway): (&Sale, &Gateway),
    (voucher, last): (VoucherId, i64),
    stop: &Arc<AtomicBool>,
) {
    for worker in 0..BUYERS {
        let first = last - (worker + 1) * BUYERS_EACH;
        let buyers = (first..first + BUYERS_EACH).map(|buyer| (buyer, sale.token(buyer))).collect();
        people.spawn(stand(gateway.clone(), voucher, buyers, stop.clone()));
    }
}

/// Buyers, one after the other.
async fn stand(
    gateway: Gateway,
    voucher: VoucherId,
    buyers: Vec<(i64, String)>,
    stop: Arc<AtomicBool>,
) {
    for (buyer, token) in buyers {
        let dice = gateway.dice(("waiting", buyer));
        let mut buyer = Buyer { gateway: &gateway, voucher, buyer, token, stop: &stop, dice };
        let entry = buyer.enter().await;
        if stop.load(Ordering::Relaxed) {
            buyer.leave(entry.as_deref()).await;
            return;
        }
        if let Some(entry) = entry {
            buyer.wait(&entry).await;
        }
    }
}

struct Buyer<'a> {
    gateway: &'a Gateway,
    voucher: VoucherId,
    buyer: i64,
    token: String,
    stop: &'a AtomicBool,
    dice: StdRng,
}

impl Buyer<'_> {
    async fn ask(&mut self, method: Method, what: &str, stop: &AtomicBool) -> Option<(u16, Value)> {
        let path = format!("/api/vouchers/{}/{what}", self.voucher);
        self.gateway.insist(method, &path, &self.token, stop, self.dice.random()).await
    }

    /// How often it has looked before changes nothing of what it does with the order.
    async fn decide(&self, order: &Value) {
        let dice = self.gateway.dice(("buyer", self.buyer));
        self.gateway.decide(order.as_str().unwrap(), &self.token, self.stop, dice).await;
    }

    /// Enters, or buys where nobody has to. The entry, where there is one.
    async fn enter(&mut self) -> Option<String> {
        loop {
            let (status, body) = self.ask(Method::POST, "entries", self.stop).await?;
            match (status, body["code"].as_str()) {
                (200 | 201, None) => {
                    let entry = body["entry_id"].as_str().unwrap().to_owned();
                    self.gateway.books().entered.push((entry.clone(), self.buyer));
                    return Some(entry);
                }
                (409, Some("draw_closed")) => {}
                // The answer to an entry was lost, and it was its turn meanwhile.
                (409, Some("already_bought")) => {
                    self.decide(&body["order_id"]).await;
                    return None;
                }
                (409, Some("line_closed")) => {
                    let (status, body) = self.ask(Method::POST, "orders", self.stop).await?;
                    match (status, body["code"].as_str()) {
                        (201, None) | (409, Some("already_bought")) => {
                            self.decide(&body["order_id"]).await;
                            return None;
                        }
                        // A server may remember the sale of a second ago, from before the draw.
                        (
                            409,
                            Some("sold_out" | "line_open" | "draw_open" | "order_in_progress"),
                        ) => {}
                        _ => panic!("user {} was told {status} {body}", self.buyer),
                    }
                }
                _ => panic!("user {} was told {status} {body}", self.buyer),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for an order, and does with it as buyers do; or leaves at some time.
    async fn wait(&mut self, entry: &str) {
        let mut leaves = self.gateway.dice(("leaves", self.buyer)).random_bool(0.2);
        loop {
            tokio::time::sleep(LOOKS_EVERY.mul_f64(self.dice.random())).await;
            if leaves && self.dice.random_bool(0.5) || self.stop.load(Ordering::Relaxed) {
                if self.leave(Some(entry)).await {
                    return;
                }
                leaves = false;
            }
            let Some((status, body)) = self.ask(Method::GET, "entries", self.stop).await else {
                continue;
            };
            assert_eq!(status, 200, "user {} has an entry: {body}", self.buyer);
            match body["status"].as_str().unwrap() {
                "entered" | "in_line" => {}
                "offered" => return self.decide(&body["order_id"]).await,
                "bought" | "missed" => return,
                _ => panic!("user {} was told {status} {body}", self.buyer),
            }
        }
    }

    /// Leaves, also when all go home. Whether there is nothing more to wait for.
    async fn leave(&mut self, entry: Option<&str>) -> bool {
        self.gateway.books().left.extend(entry.map(str::to_owned));
        let told = self.ask(Method::DELETE, "entries", &AtomicBool::new(false)).await;
        let (status, body) = told.expect("nothing stops it");
        match (status, body["code"].as_str()) {
            (204, _) => true,
            (409, Some("already_bought")) => self.stop.load(Ordering::Relaxed),
            (409, Some("draw_closed")) => false,
            _ => panic!("user {} was told {status} {body}", self.buyer),
        }
    }
}

/// Waits until the entries are drawn and the first of them has an order.
pub async fn drawn(pool: &PgPool, voucher: VoucherId) {
    eventually("the entries are drawn", async || {
        let offered = "select exists (select from vouchers where id = $1 and drawn_at is not null)
                          and exists (select from entries where voucher_id = $1 and status = 2)";
        sqlx::query_scalar(offered).bind(voucher.get()).fetch_one(pool).await.unwrap_or(false)
    })
    .await;
}

/// Holds what buyers were told against the entries, and what was published against the places. The audit has held before.
pub async fn judge(sale: &Sale, voucher: VoucherId, gateway: &Gateway) -> String {
    let rows: Vec<(Uuid, i64, i16, bool)> = sqlx::query_as(
        "select e.id, user_id, status,
                entered_at < draw_time and not (status = 3 and ended_at < draw_time)
         from entries e join vouchers v on v.id = voucher_id where voucher_id = $1 order by place",
    )
    .bind(voucher.get())
    .fetch_all(&sale.pool)
    .await
    .unwrap();
    let path = format!("/api/vouchers/{voucher}/draw");
    let never = AtomicBool::new(false);
    let published = gateway.insist(Method::GET, &path, &sale.token(1), &never, 0).await;
    let (status, published) = published.expect("nothing stops it");
    assert_eq!(status, 200, "{published}");
    let draw: Draw = serde_json::from_value(published).unwrap();
    let by_place: Vec<Uuid> = rows.iter().filter(|row| row.3).map(|row| row.0).collect();
    assert_eq!(draw.verify().unwrap(), by_place);
    let books = gateway.books();
    for (entry, buyer) in &books.entered {
        let found = rows.iter().find(|row| (&row.0.to_string(), &row.1) == (entry, buyer));
        let (_, _, status, _) = found.unwrap_or_else(|| panic!("entry {entry} of {buyer} is lost"));
        assert!(*status != 3 || books.left.contains(entry), "{buyer} did not leave: {entry}");
    }
    let offered = rows.iter().filter(|row| row.2 == 2).count();
    format!(
        "{} entered, {} left, {} drawn, {offered} offered",
        books.entered.len(),
        books.left.len(),
        by_place.len()
    )
}
