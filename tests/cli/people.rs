//! `seckill user`: what there is about a person is handed out, and erased.

use std::os::unix::fs::PermissionsExt;

use chrono::TimeDelta;
use seckill::model::UserId;
use seckill::store::persons;
use serde_json::{Value, json};

use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::till::Till;
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

/// The phone of a user of [`testkit::shop::world::World::users`].
fn phone_of(user: i64) -> String {
    format!("+999{user:011}")
}

/// A shop where user 1 has paid for an order and waits in the line of another voucher.
async fn shop() -> (Till, String, Program) {
    let till = Till::open(5).await;
    let order = till.buy(1).await;
    till.pay(1, &order, "t1").await;
    enter_a_line(&till, 1).await;
    let program = Program::on(&till.world);
    (till, order, program)
}

async fn enter_a_line(till: &Till, user: i64) {
    let sold_out = till.world.voucher_with_line(0).await;
    let path = format!("/api/vouchers/{}/entries", sold_out.id);
    till.call("POST", &path, &till.world.token(user)).await.is(201);
}

#[tokio::test]
async fn a_person_is_exported_with_all_that_the_database_has() {
    let (_till, order, program) = shop().await;
    let phone = phone_of(1);
    let exported = program.says(&["user", "export", &phone]).await;
    assert_eq!(program.says(&["user", "show", &phone]).await, exported);
    let document: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(document["user"]["phone"], json!(phone));
    let bought = &document["orders"][0];
    assert_eq!([&bought["id"], &bought["status"]], [&json!(order), &json!("paid")], "{document}");
    let step = &bought["steps"][0];
    assert_eq!([&step["step"], &step["order_id"]], [&json!("paid"), &json!(order)], "{document}");
    let payment = &bought["payments"][0];
    assert_eq!(payment["transaction_id"], "t1", "{document}");
    assert_eq!(document["entries"][0]["status"], "waiting", "{document}");

    let file = program.file("person.json");
    let out = ["user", "export", &phone, "--out", file.to_str().unwrap()];
    assert_eq!(program.says(&out).await, "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for command in ["export", "erase"] {
        let ask = async |phone: &str| program.run(&["user", command, phone]).await;
        ask("13800138999").await.refused(1, "no user has the phone 13800138999");
        ask("nobody").await.refused(2, "nobody is no phone");
    }
}

#[tokio::test]
async fn an_erased_user_is_a_number_and_the_phone_is_free_for_its_next_owner() {
    let api = Api::new().await;
    let voucher = api.world.voucher(3).await;
    let orders = format!("/api/vouchers/{}/orders", voucher.id);
    let session = api.session_of(PHONE).await;
    let (token, id) = (session.text_of("token"), session.body["user"]["id"].clone());
    api.call("POST", &orders, token).await.is(201);
    let program = Program::on(&api.world);
    program
        .run(&["user", "erase", PHONE])
        .await
        .refused(2, "and 1 orders stay as those of a number: add --yes");
    api.call("GET", "/api/me", token).await.is(200);
    let erase = ["user", "erase", PHONE, "--yes", "--by", "ticket 7"];
    let said = program.says(&erase).await;
    assert_eq!(said, format!("user {} is erased\n", id.as_str().unwrap()));

    let user: (Option<String>, String, Option<String>, bool) = sqlx::query_as(
        "select phone, nickname, erased_by, erased_at = sale_time() from users where id = $1",
    )
    .bind(id.as_str().unwrap().parse::<i64>().unwrap())
    .fetch_one(api.world.database.pool())
    .await
    .unwrap();
    assert_eq!(user, (None, "erased".to_owned(), Some("ticket 7".to_owned()), true));
    eventually("the session has ended", async || {
        api.call("POST", &orders, token).await.status == 401
    })
    .await;
    // A server that starts now, and does not look for the end of sessions again for a while.
    Api::of(api.world.clone()).await.call("GET", "/api/me", token).await.is(401);

    let next = api.session_of(PHONE).await;
    assert_ne!(next.body["user"]["id"], id);
    let next = next.text_of("token");
    assert_eq!(api.call("GET", "/api/orders", next).await.is(200).body, json!([]));
    api.call("POST", &orders, next).await.is(201);

    let admin = api.world.admin_token(99).await;
    let listed = api.call("GET", &orders, &admin).await;
    assert_eq!([&listed.body[1]["user_id"], &listed.body[1]["phone"]], [&id, &Value::Null]);
    let exported = program.says(&["orders", "export"]).await;
    assert!(exported.contains(&format!(",{},,paid,", id.as_str().unwrap())), "{exported}");
    assert!(exported.contains(&format!(",{PHONE},paid,")), "{exported}");
    assert!(api.world.audit().await.holds);
}

/// Each keeps the phone; and how that ends.
#[tokio::test]
async fn nobody_is_erased_whose_phone_is_needed_for_money() {
    let till = Till::open(5).await;
    let [unpaid, refunding] = [till.buy(1).await, till.buy(2).await];
    till.pay(2, &refunding, "t2").await;
    till.admin_step(&refunding, "refund").await.is(202);
    enter_a_line(&till, 3).await;
    let program = Program::on(&till.world);
    let erase = async |user: i64| program.run(&["user", "erase", &phone_of(user), "--yes"]).await;
    for (user, why) in [
        (1, "1 orders are unpaid, 0 refunds wait for the payment gateway"),
        (2, "0 orders are unpaid, 1 refunds wait for the payment gateway"),
    ] {
        erase(user).await.refused(1, why);
    }
    // What is written after the command has looked keeps the phone, too.
    let pool = till.world.database.pool();
    for user in 1..=3 {
        assert!(!persons::erase(pool, UserId::new(user).unwrap(), None).await.unwrap(), "{user}");
    }
    till.own_step(1, &unpaid, "cancellation").await.is(200);
    till.admin_step(&refunding, "settlement").await.is(200);
    for user in 1..=3 {
        let ran = erase(user).await;
        assert_eq!(ran.stdout, format!("user {user} is erased\n"), "{ran:?}");
    }
    let waiting: i64 = sqlx::query_scalar("select count(*) from entries where status = 1")
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(waiting, 0);
    let by = "select count(*) from users where erased_by = session_user";
    let erased: i64 = sqlx::query_scalar(by).fetch_one(till.world.database.pool()).await.unwrap();
    assert_eq!(erased, 3);
    till.world.audits_hold().await;
}

#[tokio::test]
async fn nobody_who_entered_a_draw_is_erased_between_its_close_and_the_draw() {
    let till = Till::with_draw(1, 0, "", 2).await;
    till.all_enter(2).await;
    let program = Program::on(&till.world);
    let erase = async |user: i64| program.run(&["user", "erase", &phone_of(user), "--yes"]).await;
    program
        .run(&["user", "erase", &phone_of(1)])
        .await
        .refused(2, "with 1 places in draws and lines");
    assert_eq!(erase(1).await.status, 0);
    till.after(TimeDelta::hours(1)).await;
    erase(2).await.refused(1, "cannot be taken out (draw_closed)");
    till.serve().await;
    assert_eq!(erase(2).await.status, 0);
}

/// Codes are kept by the one form of a phone, and users by the spelling of their first login.
#[tokio::test]
async fn who_has_the_same_phone_in_another_spelling_of_before_is_named_and_not_erased() {
    let api = Api::new().await;
    let old = format!("+86{PHONE}");
    let other = format!("+860{PHONE}");
    for (id, phone) in [(1, &old), (2, &other)] {
        sqlx::query(
            "insert into users (id, phone, nickname, created_at) values ($1, $2, 'old', now())",
        )
        .bind(id)
        .bind(phone)
        .execute(api.world.database.pool())
        .await
        .unwrap();
    }
    let ran = Program::on(&api.world).run(&["user", "erase", &old, "--yes"]).await;
    assert_eq!(ran.stdout, "user 1 is erased\n", "{ran:?}");
    assert!(ran.stderr.contains(&format!("who is not erased: {other}")), "{ran:?}");
}
