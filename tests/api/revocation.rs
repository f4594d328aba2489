//! Sessions that their user ends, and administrators that the configuration names.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use seckill::http::revocations::Revocations;
use seckill::http::tokens::VerifiedToken;
use seckill::model::{Clock, SystemClock};
use seckill::store::DatabaseClock;
use serde_json::{Value, json};

use super::tokens;
use testkit::processes::Node;
use testkit::program::Program;
use testkit::servers::urls;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::{ADMIN_PHONE, World, midnight, run_sql, user, with_database};
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

async fn me(api: &Api, token: &str) -> Answer {
    api.call("GET", "/api/me", token).await
}

async fn log_out(api: &Api, token: &str) -> Answer {
    api.call("DELETE", "/api/sessions", token).await
}

/// Asserts that this server, and another one that starts now, answer a token so.
async fn everywhere(api: &Api, token: &str, status: u16) {
    for api in [api, &Api::of(api.world.clone()).await] {
        assert_eq!(me(api, token).await.status, status);
    }
}

fn signed(api: &Api, claims: &Value) -> String {
    tokens::signed("HS256", &api.world.secret, claims)
}

#[tokio::test]
async fn ending_the_sessions_ends_all_of_the_user_and_none_of_another() {
    let api = Api::new().await;
    let (one, two) = (api.log_in(PHONE).await, api.log_in(PHONE).await);
    let other = api.log_in("13800138001").await;
    let ended = log_out(&api, &one).await;
    assert_eq!((ended.status, ended.text.as_str()), (204, ""));
    for token in [&one, &two] {
        let refused = me(&api, token).await;
        refused.problem(401, "unauthenticated");
        assert!(refused.text_of("detail").contains("log in again"), "{refused:?}");
        let buying = api.call("POST", "/api/vouchers/1/orders", token).await;
        buying.problem(401, "unauthenticated");
        log_out(&api, token).await.problem(401, "unauthenticated");
    }
    me(&api, &other).await.is(200);
    // A server that starts later knows it, too.
    everywhere(&api, &one, 401).await;
    everywhere(&api, &other, 200).await;
    log_out(&api, "no token").await.problem(401, "unauthenticated");
    // A user that the database does not have.
    log_out(&api, &api.world.token(77)).await.problem(401, "unauthenticated");
}

/// The clocks stand still, and the server's is before the database's, at it, and after it: a login that follows is of
/// the same microsecond.
#[tokio::test]
async fn a_login_right_after_the_end_of_all_sessions_is_good() {
    for ahead in [-3600, 0, 3600] {
        let world = World::new().await;
        world.clock.set(midnight() + TimeDelta::seconds(ahead));
        let api = Api::of(world).await;
        let before = api.log_in(PHONE).await;
        log_out(&api, &before).await.is(204);
        let after = api.log_in(PHONE).await;
        me(&api, &before).await.problem(401, "unauthenticated");
        everywhere(&api, &after, 200).await;
        // And once more.
        log_out(&api, &after).await.is(204);
        me(&api, &after).await.problem(401, "unauthenticated");
        let last = api.log_in(PHONE).await;
        me(&api, &last).await.is(200);
    }
}

/// A standby that took over may lack the end of all sessions, of which the servers know.
#[tokio::test]
async fn a_login_after_a_failover_that_lost_the_end_of_all_sessions_is_good() {
    let api = Api::new().await;
    let before = api.log_in(PHONE).await;
    log_out(&api, &before).await.is(204);
    let lost = "update users set tokens_not_before = null";
    sqlx::query(lost).execute(api.world.database.pool()).await.unwrap();
    let after = api.log_in(PHONE).await;
    me(&api, &after).await.is(200);
    me(&api, &before).await.problem(401, "unauthenticated");
}

/// A token of a node whose clock was an hour ahead when it was issued, and one that such a node signs now: both end with
/// all sessions of their user, also when that hour is over, and nobody else's token does.
#[tokio::test]
async fn a_token_of_a_node_whose_clock_is_ahead_ends_with_the_others() {
    let ahead = World::new().await;
    ahead.users(2).await;
    let hour = TimeDelta::hours(1);
    ahead.clock.set(midnight() + hour);
    let node = Api::of(ahead).await;
    let new = node.log_in(PHONE).await;
    let user = me(&node, &new).await.text_of("id").to_owned();
    let of_before = |user: &str| {
        let iat = (midnight() + hour).timestamp();
        signed(&node, &json!({ "sub": user, "iat": iat, "exp": iat + 3600 }))
    };
    let (old, other) = (of_before(&user), of_before("1"));
    for token in [&new, &old, &other] {
        me(&node, token).await.is(200);
    }
    // A token of before ends all sessions, and the next login begins one at once; then that one does the same.
    let mut ends = old.clone();
    for _ in 0..2 {
        log_out(&node, &ends).await.is(204);
        for token in [&new, &old] {
            everywhere(&node, token, 401).await;
        }
        me(&node, &other).await.is(200);
        let next = node.log_in(PHONE).await;
        everywhere(&node, &next, 200).await;
        ends = next;
    }
    set_database_clock(&node, hour * 2).await;
    for token in [&new, &old] {
        everywhere(&node, token, 401).await;
    }
}

/// From now on the database's clock is so far ahead of midnight.
async fn set_database_clock(api: &Api, ahead: TimeDelta) {
    let set = format!("update test_time set now = '{}'", midnight() + ahead);
    run_sql(&api.world.database_url, &set).await;
}

/// The database's clock is ahead while a buyer logs in, and is set back before the buyer logs out.
#[tokio::test]
async fn a_token_of_a_database_whose_clock_is_ahead_ends_with_the_others() {
    let api = Api::new().await;
    set_database_clock(&api, TimeDelta::seconds(5)).await;
    let old = api.log_in(PHONE).await;
    set_database_clock(&api, TimeDelta::zero()).await;
    log_out(&api, &old).await.is(204);
    let next = api.log_in(PHONE).await;
    set_database_clock(&api, TimeDelta::seconds(10)).await;
    for (token, status) in [(&old, 401), (&next, 200)] {
        everywhere(&api, token, status).await;
    }
}

/// A node whose clock is behind refuses a token when the database's clock has reached its end, and not later.
#[tokio::test]
async fn a_token_ends_by_the_clock_of_the_database() {
    for off in [-3600, 3600] {
        let world = World::new().await;
        world.users(1).await;
        world.clock.set(midnight() + TimeDelta::seconds(off));
        let api = Api::of(world).await;
        let second = |s: i64| midnight().timestamp() + s;
        let until =
            |s: i64| signed(&api, &json!({ "sub": "1", "exp": second(s), "iat": second(0) }));
        me(&api, &until(1)).await.is(200);
        me(&api, &until(0)).await.problem(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_on_one_server_is_refused_on_the_other() {
    let api = Api::new().await;
    let second = Api::of(api.world.another_process()).await;
    let (token, other) = (api.log_in(PHONE).await, api.log_in("13800138001").await);
    me(&second, &token).await.is(200);
    log_out(&api, &token).await.is(204);
    eventually("the other server knows it", async || me(&second, &token).await.status == 401).await;
    me(&second, &other).await.is(200);
    // The other way round, and a login of the other server that the first does not know of.
    let token = second.log_in(PHONE).await;
    me(&api, &token).await.is(200);
    log_out(&second, &token).await.is(204);
    let fresh = second.log_in(PHONE).await;
    me(&api, &fresh).await.is(200);
    eventually("the first server knows it", async || me(&api, &token).await.status == 401).await;
    me(&api, &fresh).await.is(200);
}

#[tokio::test]
async fn a_token_that_names_no_end_is_older_than_any_whenever_it_was_issued() {
    let api = Api::new().await;
    let fresh = api.log_in(PHONE).await;
    let user = me(&api, &fresh).await.text_of("id").to_owned();
    let old = signed(&api, &json!({ "sub": user, "exp": 4_000_000_000_u64, "iat": 0 }));
    me(&api, &old).await.is(200);
    log_out(&api, &fresh).await.is(204);
    me(&api, &old).await.problem(401, "unauthenticated");
    // Nor does one that says it was issued later, or that names an earlier end.
    let end = sqlx::query_scalar("select tokens_not_before from users where id = $1");
    let end = end.bind(user.parse::<i64>().unwrap()).fetch_one(api.world.database.pool());
    let end: DateTime<Utc> = end.await.unwrap();
    let end = end.timestamp_micros();
    let token_after = |after: Option<i64>| {
        let iat = 4_000_000_000_u64 - 1;
        signed(&api, &json!({ "sub": user, "exp": iat + 1, "iat": iat, "after": after }))
    };
    for (after, status) in [(None, 401), (Some(end - 1), 401), (Some(end), 200)] {
        assert_eq!(me(&api, &token_after(after)).await.status, status, "{after:?}");
    }
}

#[tokio::test]
async fn who_may_administer_is_in_the_configuration_and_not_in_the_token() {
    let api = Api::new().await;
    let voucher = json!({ "title": "100 for 80", "stock": 1 });
    let creates = async |api: &Api, token: &str| {
        api.call_with("POST", "/api/vouchers", token, &voucher).await
    };
    api.post("/api/vouchers", &voucher).await.problem(401, "unauthenticated");
    let (admin, buyer) = (api.log_in(ADMIN_PHONE).await, api.log_in(PHONE).await);
    creates(&api, &admin).await.is(201);
    creates(&api, &api.log_in(&format!("+86{ADMIN_PHONE}")).await).await.is(201);
    creates(&api, &buyer).await.problem(403, "forbidden");
    // Nobody becomes an administrator by a word of the token.
    let user = me(&api, &buyer).await.text_of("id").to_owned();
    let said = json!({ "sub": user, "exp": 4_000_000_000_u64, "iat": 0, "admin": true });
    let old = signed(&api, &said);
    me(&api, &old).await.is(200);
    creates(&api, &old).await.problem(403, "forbidden");
    creates(&api, &api.world.token(77)).await.problem(403, "forbidden");
    // The same users and tokens by another configuration.
    let mut world = api.world;
    world.settings.admin_phones = PHONE.parse().unwrap();
    let api = Api::of(world).await;
    creates(&api, &admin).await.problem(403, "forbidden");
    creates(&api, &buyer).await.is(201);
    // An administrator's token ends like any other.
    log_out(&api, &buyer).await.is(204);
    creates(&api, &buyer).await.problem(401, "unauthenticated");
    api.world.database.close().await;
    creates(&api, &admin).await.problem(503, "unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_ended_sessions_stay_ended_and_the_log_says_so_once() {
    let world = World::new().await;
    world.clock.set(SystemClock.now());
    world.users(2).await;
    let (ended, good) = (world.token(1), world.token(2));
    let (admin_url, _) = urls().await;
    let name = world.database_url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    assert_eq!(with_database(&admin_url, &name), world.database_url);
    let node = Node::serve(&Program::on(&world), &[]).await;
    let api = Api::at(world, node.address);
    log_out(&api, &ended).await.is(204);

    let away = "ended sessions cannot be read";
    let back = "ended sessions are read from the database again";
    let logged = async |words| eventually(words, async || node.log().contains(words)).await;
    api.world.database.close().await;
    let sql = async |statement: String| run_sql(&admin_url, &statement).await;
    // Under another name it is not there for anybody who looks for it.
    sql(format!("alter database {name} allow_connections false")).await;
    sql(format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"))
        .await;
    sql(format!("alter database {name} rename to {name}_away")).await;
    logged(away).await;
    // Several polls more.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    me(&api, &ended).await.problem(401, "unauthenticated");
    me(&api, &good).await.problem(503, "unavailable");
    sql(format!("alter database {name}_away rename to {name}")).await;
    sql(format!("alter database {name} allow_connections true")).await;
    logged(back).await;
    assert_eq!(node.log().matches(away).count(), 1, "{}", node.log());
    me(&api, &ended).await.problem(401, "unauthenticated");
    me(&api, &good).await.is(200);
}

/// A commit has no time limit. The row says when its statement began.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_is_committed_long_after_it_was_written_is_read() {
    let world = World::new().await;
    world.users(1).await;
    let every = Duration::from_millis(2);
    let clock = Arc::new(DatabaseClock::new(world.clock.clone()));
    let known = Revocations::polling(world.database.clone(), clock, every).await.unwrap();
    let issued = world.clock.now() - TimeDelta::hours(1);
    // Committed an hour late, which is far beyond the overlap of two polls.
    let write = "update users set tokens_not_before = sale_time() - interval '59 minutes'";
    sqlx::query(write).execute(world.database.pool()).await.unwrap();
    let token = VerifiedToken { user: user(1), issued, after: None };
    eventually("the revocation is read", async || known.is_void(&token)).await;
}
