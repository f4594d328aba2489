//! Login codes and sessions.

use seckill::model::{Clock, SystemClock, UserId};
use seckill::store::users;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};

use testkit::shop::api_client::{Api, another_code};
use testkit::shop::world::{World, user};
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

async fn ttl_ms(api: &Api, key: String) -> i64 {
    api.world.redis.query(redis::cmd("PTTL").arg(key)).await.unwrap()
}

#[tokio::test]
async fn a_code_reaches_the_gateway_and_logs_its_phone_in_once() {
    let api = Api::new().await;
    let accepted = api.ask_code(PHONE).await;
    // Not to the client.
    assert_eq!((accepted.status, accepted.text.as_str()), (202, r#"{"expires_in_s":120}"#));
    let (phone, code) = api.world.sms.0.lock().unwrap().last().unwrap().clone();
    assert_eq!(phone, PHONE);
    assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
    // Nor is it good for another phone.
    api.try_code("13800138001", &code).await.problem(401, "unauthenticated");
    let session = api.try_code(PHONE, &code).await;
    session.is(201);
    assert_eq!(session.body["user"]["phone"], PHONE);
    assert!(session.body["user"]["id"].is_string(), "{session:?}");
    api.try_code(PHONE, &code).await.problem(401, "unauthenticated");
}

/// A standby that did not get the last users is promoted, or a dump is restored: then the database hands out once more what
/// its sequences handed out before.
#[tokio::test]
async fn a_token_of_a_user_whom_the_database_lost_acts_for_nobody() {
    let api = Api::new().await;
    let lost = api.session_of(PHONE).await;
    let token = lost.text_of("token");
    let mut session = api.world.database.pool().acquire().await.unwrap();
    session.execute("delete from users; alter sequence users_id_seq restart").await.unwrap();
    let others = api.session_of("13800138001").await;
    assert_ne!(others.body["user"]["id"], lost.body["user"]["id"]);
    for (method, path) in [("GET", "/api/me"), ("DELETE", "/api/sessions")] {
        api.call(method, path, token).await.problem(401, "unauthenticated");
    }
    // The same person is another user from now on.
    let again = api.session_of(PHONE).await;
    assert_ne!(again.body["user"]["id"], lost.body["user"]["id"]);
    // Ranges for load tests do not come near.
    assert_eq!(users::reserve_ids(api.world.database.pool(), 7).await.unwrap().get(), 1);
    assert_eq!(users::reserve_ids(api.world.database.pool(), 1).await.unwrap().get(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_use_one_code_at_once_one_gets_in() {
    let api = Api::new().await;
    let code = api.code_for(PHONE).await;
    let tries = (0..20).map(|_| api.try_code(PHONE, &code));
    let answers = futures_util::future::join_all(tries).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(401)), (1, 19), "{answers:?}");
}

#[tokio::test]
async fn a_wrong_code_is_refused_and_ten_are_all_that_an_address_may_try() {
    let api = Api::new().await;
    let code = api.code_for(PHONE).await;
    for _ in 0..9 {
        let refused = api.try_code(PHONE, &another_code(&code)).await;
        refused.problem(401, "unauthenticated");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    api.try_code(PHONE, &code).await.is(201);

    // The tenth; asking again gives no new ones.
    let code = api.code_for(PHONE).await;
    api.try_code(PHONE, &another_code(&code)).await.problem(401, "unauthenticated");
    api.ask_code(PHONE).await.is(202);
    let refused = api.try_code(PHONE, &code).await;
    let wait = refused.problem(429, "too_many_requests").retry_after_s();
    assert!((1..=3600).contains(&wait), "{wait}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer_costs_no_code() {
    let api = Api::new().await;
    let code = api.code_for(PHONE).await;
    let holder = api.world.begin("lock table users in access exclusive mode").await;
    api.try_code(PHONE, &code).await.problem(503, "unavailable");
    holder.close().await.unwrap();
    eventually("the code is good", async || api.try_code(PHONE, &code).await.status == 201).await;
    api.try_code(PHONE, &code).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn nobody_voids_a_code_by_asking_for_one() {
    let api = Api::new().await;
    let code = api.code_for(PHONE).await;
    let key = api.world.keys.login_code(PHONE);
    let _: i64 = api.world.redis.query(redis::cmd("PEXPIRE").arg(&key).arg(60_000)).await.unwrap();
    api.ask_code(PHONE).await.is(202);
    assert_eq!(api.last_code(), code);
    // Its two minutes do not begin again: whoever asks every minute would keep one code alive for ever.
    let left_ms = ttl_ms(&api, key.clone()).await;
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
    let told = api.ask_code(PHONE).await.is(202).body["expires_in_s"].as_u64().unwrap();
    assert!((1..=60).contains(&told), "{told}");
    api.try_code(PHONE, &code).await.is(201);
    // A code that was used is not sent again.
    let mut next = api.code_for(PHONE).await;
    if next == code {
        // One in a million is drawn twice in a row.
        api.try_code(PHONE, &code).await.is(201);
        next = api.code_for(PHONE).await;
    }
    assert_ne!(next, code);
}

#[tokio::test]
async fn a_code_expires_after_two_minutes() {
    let api = Api::new().await;
    let code = api.code_for(PHONE).await;
    let key = api.world.keys.login_code(PHONE);
    let left_ms = ttl_ms(&api, key.clone()).await;
    assert!((1..=120_000).contains(&left_ms), "{left_ms}");
    // A wrong try does not lengthen it: Redis would answer -1 for a key without an end.
    api.try_code(PHONE, &another_code(&code)).await.is(401);
    let left_then_ms = ttl_ms(&api, key.clone()).await;
    assert!((1..=left_ms).contains(&left_then_ms), "{left_then_ms}");
    // The end of its time comes now.
    let _: i64 = api.world.redis.query(redis::cmd("PEXPIRE").arg(&key).arg(0)).await.unwrap();
    api.try_code(PHONE, &code).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_phone_is_one_user_however_it_is_written() {
    let api = Api::new().await;
    let first = api.session_of(PHONE).await;
    let second = api.session_of(&format!("+86{PHONE}")).await;
    assert_eq!(first.body["user"], second.body["user"]);
    let other = api.session_of("+442071838750").await;
    assert_ne!(first.body["user"]["id"], other.body["user"]["id"]);
    assert_eq!(other.body["user"]["phone"], "+442071838750");
    for (spelling, same) in [
        ("+008613800138000", &first),
        ("+86013800138000", &first),
        ("+4402071838750", &other),
        ("+00442071838750", &other),
    ] {
        assert_eq!(api.session_of(spelling).await.body["user"], same.body["user"], "{spelling}");
    }
}

/// Until phones had one form, each of these was a user.
#[tokio::test]
async fn a_user_whose_phone_was_stored_in_another_form_stays_the_same_user() {
    const ADMIN: &str = "+447911123456";
    let api = Api::of(
        World::with(|settings| settings.admin_phones = "+4407911123456".parse().unwrap()).await,
    )
    .await;
    let stored = "insert into users (id, phone, nickname, created_at) values
        (1, '+4407911123456', 'zero', now()), (2, '+54911123456', 'unknown form', now())";
    api.world.database.pool().execute(stored).await.unwrap();
    let zero = api.session_of("+4407911123456").await;
    assert_eq!(
        (zero.body["user"]["id"].as_str(), zero.body["user"]["administrator"].as_bool()),
        (Some("1"), Some(true))
    );
    api.call("GET", "/api/refunds", zero.text_of("token")).await.is(200);
    // The message goes to the phone itself, and what is counted is the phone's.
    assert_eq!(api.world.sms.0.lock().unwrap().last().unwrap().0, ADMIN);
    let unknown = api.session_of("+54911123456").await;
    assert_eq!(unknown.body["user"]["id"], "2");
    api.ask_code("+54911123457").await.problem(422, "invalid_request");
    // A new spelling is the phone in its one form: a new user, once.
    let canonical = api.session_of(ADMIN).await;
    assert_eq!(canonical.body["user"]["phone"], ADMIN);
    assert_eq!(api.session_of("+00447911123456").await.body["user"], canonical.body["user"]);
}

#[tokio::test]
async fn what_is_no_phone_no_code_or_of_another_shape_is_refused_before_anything_is_sent() {
    let api = Api::new().await;
    for phone in ["", "23800138000", "1380013800\u{0}"] {
        api.ask_code(phone).await.problem(422, "invalid_request");
        api.try_code(phone, "123456").await.problem(422, "invalid_request");
    }
    for code in ["", "12345", "1234567", "abcdef", "12345\u{0}", "１２"] {
        api.try_code(PHONE, code).await.problem(422, "invalid_request");
    }
    let bodies = [
        json!({}),
        json!([PHONE]),
        json!(PHONE),
        Value::Null,
        json!({ "phone": 13_800_138_000_u64 }),
        json!({ "phone": PHONE, "more": 1 }),
        json!({ "phone": null }),
    ];
    for body in bodies {
        api.post("/api/login-codes", &body).await.problem(422, "invalid_request");
        api.post("/api/sessions", &body).await.problem(422, "invalid_request");
    }
    api.post("/api/sessions", &json!([PHONE, "123456"])).await.problem(422, "invalid_request");
    let twice = api.request("POST", "/api/login-codes").header("content-type", "application/json");
    let twice = twice.body(format!(r#"{{"phone":"{PHONE}","phone":"{PHONE}"}}"#));
    api.send(twice).await.problem(422, "invalid_request");
    assert!(api.world.sms.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn one_phone_is_sent_five_codes_and_then_told_when_to_come_back() {
    let api = Api::new().await;
    for spelling in [PHONE, "+8613800138000", PHONE, PHONE, PHONE] {
        api.ask_code(spelling).await.is(202);
    }
    let refused = api.ask_code(PHONE).await;
    let wait = refused.problem(429, "too_many_requests").retry_after_s();
    assert!((1..=600).contains(&wait), "{wait}");
    assert_eq!(api.world.sms.0.lock().unwrap().len(), 5);
    let left_ms =
        ttl_ms(&api, api.world.keys.rate("codes-per-phone", &format!("{PHONE}:127.0.0.1"))).await;
    assert!((1..=600_000).contains(&left_ms), "{left_ms}");
    // Nobody else suffers, and the code that was sent is still good.
    api.ask_code("13800138001").await.is(202);
    let code = api.world.sms.0.lock().unwrap()[4].1.clone();
    api.try_code(PHONE, &code).await.is(201);
}

#[tokio::test]
async fn a_token_speaks_for_its_user() {
    let api = Api::new().await;
    let session = api.session_of(PHONE).await;
    let me = api.call("GET", "/api/me", session.text_of("token")).await;
    assert_eq!(me.body, session.body["user"]);
    // A page asks in this way whether its user may administer: "no" is an answer, no refusal.
    assert_eq!(me.body["administrator"], false);
    api.world.admin_token(99).await;
    let me = api.get_as(99, "/api/me").await;
    assert_eq!(me.is(200).body["administrator"], true);
    // The scheme's name has no case (RFC 9110, 11.1).
    let me = api.request("GET", "/api/me");
    let me = me.header("authorization", format!("bearer {}", session.text_of("token")));
    api.send(me).await.is(200);
    // A token outlives its user in the database.
    api.get_as(77, "/api/me").await.problem(401, "unauthenticated");
}

/// Ids are drawn at random, so that now and then one is somebody's.
#[tokio::test]
async fn a_first_login_draws_again_while_its_id_is_somebody_elses() {
    let world = World::new().await;
    world.users(1).await;
    let mut owner = PgConnection::connect(&world.database_url).await.unwrap();
    let taken_twice = "create sequence draws;
        create function draw_taken() returns trigger language plpgsql security definer as $$
        begin
            if nextval('draws') <= 2 then new.id := 1; end if;
            return new;
        end $$;
        create trigger draw_taken before insert on users for each row execute function draw_taken()";
    owner.execute(taken_twice).await.unwrap();
    let (pool, now) = (world.database.pool(), SystemClock.now());
    let made = users::find_or_create(pool, PHONE, "new", now).await.unwrap();
    assert!(made.id.get() > UserId::LAST_OF_A_RANGE, "{made:?}");
    assert_ne!(users::find(pool, user(1)).await.unwrap().unwrap().phone, PHONE);
    let drawn: i64 =
        sqlx::query_scalar("select last_value from draws").fetch_one(&mut owner).await.unwrap();
    assert_eq!(drawn, 3);
}
