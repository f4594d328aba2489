//! The public number of a draw: nobody can choose it, nor what it draws from once the server knows it.

use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::model::Clock;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use testkit::shop::api_client::Answer;

use crate::orders::lines::Shop;
use crate::orders::races::patient;

impl Shop {
    /// A sale of one voucher, in whose draw `users` have entered; its entries are closed, and its number is not there yet.
    async fn before_its_number(users: u32) -> Self {
        let shop = Self::with_draw(1, 0, "the lottery of 2026-11-12", users).await;
        for user in 1..=i64::from(users) {
            shop.enter(user).await.is(201);
        }
        shop.after(TimeDelta::hours(1)).await;
        shop
    }

    async fn administer(&self, method: &str, path: &str, body: &Value) -> Answer {
        let path = format!("/api/vouchers/{}{path}", self.voucher.id);
        let admin = self.world().admin_token(100).await;
        self.api.send(self.api.request(method, &path).bearer_auth(&admin).json(body)).await
    }

    async fn tell(&self, number: &str) -> Answer {
        self.administer("PUT", "/draw", &json!({ "number": number })).await
    }

    async fn change(&self, what: &Value) -> Answer {
        self.administer("PATCH", "", what).await
    }

    /// `first` has the sale, and waits for the other row of the voucher, when `second` comes; what both came to.
    async fn meet(
        &self,
        first: impl Future<Output = Answer>,
        second: impl Future<Output = Answer>,
    ) -> (Answer, Answer) {
        let row = format!("select from vouchers where id = {} for update", self.voucher.id);
        self.world().both_behind(&row, first, second).await
    }
}

#[tokio::test]
async fn a_draw_with_a_beacon_waits_for_its_number_and_takes_one() {
    let shop = Shop::with_draw(1, 0, "the lottery of 2026-11-12", 3).await;
    for user in 1..=3 {
        shop.enter(user).await.is(201);
    }
    shop.tell("7").await.problem(409, "draw_open");
    shop.after(TimeDelta::hours(1)).await;
    shop.serve().await;
    assert_eq!(shop.entry(1).await["status"], "entered");
    shop.tell("7").await.is(204);
    shop.tell("7").await.is(204);
    shop.tell("8").await.problem(409, "draw_closed");
    shop.after(TimeDelta::seconds(59)).await;
    shop.holds().await;
    shop.after(TimeDelta::seconds(2)).await;
    shop.is_broken("no_stuck_stock: 1 draws have been due for a minute").await;
    shop.serve().await;
    let drawn = shop.draw().await;
    assert_eq!(
        (&drawn["number"], &drawn["beacon"]),
        (&json!("7"), &json!("the lottery of 2026-11-12"))
    );
    let served = join_all((1..=3).map(|user| shop.entry(user))).await;
    assert_eq!(served.iter().filter(|entry| entry["status"] == "bought").count(), 1);
    shop.tell("7").await.is(204);
    shop.holds().await;
}

/// Each spelling would draw other winners. The database does not take them either.
#[tokio::test]
async fn a_public_number_has_one_spelling() {
    let shop = Shop::before_its_number(1).await;
    let too_long = "7".repeat(201);
    for wrong in ["7F3A90", "007f3a90", "00", "7:1", "", &too_long] {
        shop.tell(wrong).await.problem(422, "invalid_request");
        let write = format!("update vouchers set draw_beacon_number = '{wrong}'");
        let refused =
            sqlx::raw_sql(AssertSqlSafe(write)).execute(shop.world().database.pool()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("draw_number_has_one_spelling"), "{wrong}: {refused}");
    }
    shop.tell("7f3a90").await.is(204);
}

#[tokio::test]
async fn no_number_is_taken_while_its_sale_is_paused_or_after_its_end() {
    let shop = Shop::before_its_number(1).await;
    shop.change(&json!({ "paused": true })).await.is(200);
    shop.tell("7").await.problem(409, "sale_paused");
    shop.change(&json!({ "paused": false })).await.is(200);
    shop.after(TimeDelta::days(1)).await;
    shop.tell("7").await.problem(409, "sale_ended");
    assert_eq!(shop.draw().await["number"], Value::Null);
}

/// What could change who wins, or give time to find out who would.
#[tokio::test]
async fn from_its_number_to_its_draw_a_sale_changes_its_texts_and_nothing_else() {
    let shop = Shop::before_its_number(2).await;
    let now = shop.world().clock.now();
    let [earlier, later] = [now + TimeDelta::minutes(1), now + TimeDelta::days(2)];
    shop.tell("7").await.is(204);
    for change in [
        json!({ "initial_stock": 2 }),
        json!({ "initial_stock": 0 }),
        json!({ "paused": true }),
        json!({ "price": 1 }),
        json!({ "pay_within_s": 1 }),
        json!({ "begin_time": shop.voucher.begin_time }),
        json!({ "end_time": earlier }),
        json!({ "title": "other", "paused": true }),
    ] {
        shop.change(&change).await.problem(409, "draw_closed");
    }
    let changed = shop.change(&json!({ "title": "other", "end_time": later })).await;
    assert_eq!(
        (&changed.is(200).body["title"], &changed.body["stock"]),
        (&json!("other"), &json!(1))
    );
    shop.serve().await;
    shop.change(&json!({ "initial_stock": 2 })).await.is(200);
    shop.serve().await;
    shop.change(&json!({ "paused": true })).await.is(200);
    shop.holds().await;
}

/// Both orders, by two servers: each is stopped in the middle, and has the sale already.
#[tokio::test]
async fn a_number_that_meets_a_pause_or_a_restock_comes_before_it_or_after_it() {
    for (change, second) in
        [(json!({ "paused": true }), "sale_paused"), (json!({ "initial_stock": 2 }), "")]
    {
        let shop = Shop::before_its_number(2).await;
        patient(shop.world()).await;
        let other = shop.another_server().await;
        let (told, changed) = shop.meet(shop.tell("7"), other.change(&change)).await;
        told.is(204);
        changed.problem(409, "draw_closed");

        let shop = Shop::before_its_number(2).await;
        patient(shop.world()).await;
        let other = shop.another_server().await;
        let (changed, told) = shop.meet(shop.change(&change), other.tell("7")).await;
        changed.is(200);
        if second.is_empty() {
            told.is(204);
        } else {
            told.problem(409, second);
        }
        shop.serve().await;
        let offered = join_all((1..=2).map(|user| shop.entry(user))).await;
        let offered = offered.iter().filter(|entry| entry["status"] == "bought").count();
        assert_eq!(offered, if second.is_empty() { 2 } else { 0 });
        shop.holds().await;
    }
}
