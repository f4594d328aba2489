//! Sessions that their user ends, and administrators that the configuration names.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use seckill::http::revocations::Revocations;
use seckill::http::tokens::VerifiedToken;
use seckill::model::{Clock, SystemClock};
use seckill::store::DatabaseClock;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use testkit::program::Program;
use testkit::servers::urls;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::{ADMIN_PHONE, World, midnight, run_sql, user, with_database};
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

async fn log_in(api: &Api, phone: &str) -> String {
    api.post("/api/login-codes", &json!({ "phone": phone })).await.is(202);
    let code = api.world.sms.0.lock().unwrap().last().unwrap().1.clone();
    let session = api.post("/api/sessions", &json!({ "phone": phone, "code": code })).await;
    session.is(201).text_of("token").to_owned()
}

async fn me(api: &Api, token: &str) -> Answer {
    api.send(api.request("GET", "/api/me").bearer_auth(token)).await
}

async fn log_out(api: &Api, token: &str) -> Answer {
    api.send(api.request("DELETE", "/api/sessions").bearer_auth(token)).await
}

/// The same requests at another server of this world.
async fn at_another(api: &Api, path: &str, token: &str) -> u16 {
    let other = api.world.serve().await;
    let url = format!("http://{other}{path}");
    let request = reqwest::Client::new().get(url).bearer_auth(token).send();
    request.await.unwrap().status().as_u16()
}

fn signed(api: &Api, claims: &Value) -> String {
    let key = EncodingKey::from_secret(api.world.secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

#[tokio::test]
async fn ending_the_sessions_ends_all_of_the_user_and_none_of_another() {
    let api = Api::new().await;
    let (one, two) = (log_in(&api, PHONE).await, log_in(&api, PHONE).await);
    let other = log_in(&api, "13800138001").await;
    let ended = log_out(&api, &one).await;
    assert_eq!((ended.status, ended.text.as_str()), (204, ""));
    for token in [&one, &two] {
        let refused = me(&api, token).await;
        refused.problem(401, "unauthenticated");
        assert!(refused.text_of("detail").contains("log in again"), "{refused:?}");
        let voucher = api.request("POST", "/api/vouchers/1/orders").bearer_auth(token);
        api.send(voucher).await.problem(401, "unauthenticated");
        log_out(&api, token).await.problem(401, "unauthenticated");
    }
    me(&api, &other).await.is(200);
    // A server that starts later knows it, too.
    assert_eq!(at_another(&api, "/api/me", &one).await, 401);
    assert_eq!(at_another(&api, "/api/me", &other).await, 200);
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
        let address = world.serve().await;
        let api = Api::at(world, address);
        let before = log_in(&api, PHONE).await;
        log_out(&api, &before).await.is(204);
        let after = log_in(&api, PHONE).await;
        me(&api, &before).await.problem(401, "unauthenticated");
        me(&api, &after).await.is(200);
        assert_eq!(at_another(&api, "/api/me", &after).await, 200);
        // And once more.
        log_out(&api, &after).await.is(204);
        me(&api, &after).await.problem(401, "unauthenticated");
        let last = log_in(&api, PHONE).await;
        me(&api, &last).await.is(200);
    }
}

/// A standby that took over may lack the end of all sessions, of which the servers know.
#[tokio::test]
async fn a_login_after_a_failover_that_lost_the_end_of_all_sessions_is_good() {
    let api = Api::new().await;
    let before = log_in(&api, PHONE).await;
    log_out(&api, &before).await.is(204);
    let lost = "update users set tokens_not_before = null";
    sqlx::query(lost).execute(api.world.database.pool()).await.unwrap();
    let after = log_in(&api, PHONE).await;
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
    let address = ahead.serve().await;
    let node = Api::at(ahead, address);
    let new = log_in(&node, PHONE).await;
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
            me(&node, token).await.problem(401, "unauthenticated");
            assert_eq!(at_another(&node, "/api/me", token).await, 401);
        }
        me(&node, &other).await.is(200);
        let next = log_in(&node, PHONE).await;
        me(&node, &next).await.is(200);
        assert_eq!(at_another(&node, "/api/me", &next).await, 200);
        ends = next;
    }
    set_database_clock(&node, hour * 2).await;
    for token in [&new, &old] {
        me(&node, token).await.problem(401, "unauthenticated");
        assert_eq!(at_another(&node, "/api/me", token).await, 401);
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
    let old = log_in(&api, PHONE).await;
    set_database_clock(&api, TimeDelta::zero()).await;
    log_out(&api, &old).await.is(204);
    let next = log_in(&api, PHONE).await;
    set_database_clock(&api, TimeDelta::seconds(10)).await;
    for (token, status) in [(&old, 401), (&next, 200)] {
        assert_eq!(me(&api, token).await.status, status);
        assert_eq!(at_another(&api, "/api/me", token).await, status);
    }
}

/// A node whose clock is behind refuses a token when the database's clock has reached its end, and not later.
#[tokio::test]
async fn a_token_ends_by_the_clock_of_the_database() {
    for off in [-3600, 3600] {
        let world = World::new().await;
        world.users(1).await;
        world.clock.set(midnight() + TimeDelta::seconds(off));
        let address = world.serve().await;
        let api = Api::at(world, address);
        let until =
            |s: i64| signed(&api, &json!({ "sub": "1", "exp": midnight().timestamp() + s }));
        me(&api, &until(1)).await.is(200);
        me(&api, &until(0)).await.problem(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_on_one_server_is_refused_on_the_other() {
    let api = Api::new().await;
    let world = api.world.another_process();
    let address = world.serve().await;
    let second = Api::at(world, address);
    let (token, other) = (log_in(&api, PHONE).await, log_in(&api, "13800138001").await);
    me(&second, &token).await.is(200);
    log_out(&api, &token).await.is(204);
    eventually("the other server has heard of it", async || {
        me(&second, &token).await.status == 401
    })
    .await;
    me(&second, &other).await.is(200);
    // The other way round, and a login of the other server that the first has not heard of.
    let token = log_in(&second, PHONE).await;
    me(&api, &token).await.is(200);
    log_out(&second, &token).await.is(204);
    let fresh = log_in(&second, PHONE).await;
    me(&api, &fresh).await.is(200);
    eventually("the first server has heard of it", async || me(&api, &token).await.status == 401)
        .await;
    me(&api, &fresh).await.is(200);
}

#[tokio::test]
async fn a_token_that_does_not_say_when_it_was_issued_is_older_than_any_end() {
    let api = Api::new().await;
    let fresh = log_in(&api, PHONE).await;
    let user = me(&api, &fresh).await.text_of("id").to_owned();
    let old = signed(&api, &json!({ "sub": user, "exp": 4_000_000_000_u64, "admin": true }));
    me(&api, &old).await.is(200);
    log_out(&api, &fresh).await.is(204);
    me(&api, &old).await.problem(401, "unauthenticated");
    // Nor does one that says when it was issued, whatever it says, or that names an earlier end.
    let end = api.world.not_before(&user).await.timestamp_micros();
    let token_after = |after: Option<i64>| {
        let iat = 4_000_000_000_u64 - 1;
        signed(&api, &json!({ "sub": user, "exp": iat + 1, "iat": iat, "after": after }))
    };
    for (after, status) in [(None, 401), (Some(end - 1), 401), (Some(end), 200)] {
        assert_eq!(me(&api, &token_after(after)).await.status, status, "{after:?}");
    }
}

#[easy_ext::ext(ApiRevocationWorld)]
pub impl World {
    async fn not_before(&self, user: &str) -> chrono::DateTime<chrono::Utc> {
        let statement = sqlx::query_scalar("select tokens_not_before from users where id = $1");
        let id: i64 = user.parse().unwrap();
        statement.bind(id).fetch_one(self.database.pool()).await.unwrap()
    }
}

#[tokio::test]
async fn who_may_administer_is_in_the_configuration_and_not_in_the_token() {
    let api = Api::new().await;
    let voucher = json!({ "title": "100 for 80", "stock": 1 });
    let creates = async |api: &Api, token: &str| {
        let creating = api.request("POST", "/api/vouchers").json(&voucher);
        api.send(creating.bearer_auth(token)).await
    };
    let (admin, buyer) = (log_in(&api, ADMIN_PHONE).await, log_in(&api, PHONE).await);
    creates(&api, &admin).await.is(201);
    creates(&api, &buyer).await.problem(403, "forbidden");
    // What tokens of earlier versions said.
    let user = me(&api, &buyer).await.text_of("id").to_owned();
    let old = signed(&api, &json!({ "sub": user, "exp": 4_000_000_000_u64, "admin": true }));
    me(&api, &old).await.is(200);
    creates(&api, &old).await.problem(403, "forbidden");
    creates(&api, &api.world.token(77)).await.problem(403, "forbidden");
    // The same users and tokens by another configuration.
    let admin_phones = [PHONE.to_owned()].into();
    let world = World { admin_phones, ..api.world };
    let address = world.serve().await;
    let api = Api::at(world, address);
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
    let program = Program::on(&world);
    let mut command = program.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let api = Api::at(world, line.strip_prefix("listening on http://").unwrap().parse().unwrap());
    log_out(&api, &ended).await.is(204);

    let away = "ended sessions cannot be read";
    let back = "ended sessions are read from the database again";
    let mut said = Vec::new();
    let mut heard = async |words: &str| {
        while !said.last().is_some_and(|line: &String| line.contains(words)) {
            let line = tokio::time::timeout(testkit::wait::PATIENCE, log.next_line()).await;
            said.push(line.unwrap().unwrap().unwrap());
        }
        said.clone()
    };
    api.world.database.close().await;
    let sql = async |statement: String| run_sql(&admin_url, &statement).await;
    // Under another name it is not there for anybody who looks for it.
    sql(format!("alter database {name} allow_connections false")).await;
    sql(format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"))
        .await;
    sql(format!("alter database {name} rename to {name}_away")).await;
    heard(away).await;
    // Several polls more.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    me(&api, &ended).await.problem(401, "unauthenticated");
    me(&api, &good).await.problem(503, "unavailable");
    sql(format!("alter database {name}_away rename to {name}")).await;
    sql(format!("alter database {name} allow_connections true")).await;
    let said = heard(back).await;
    assert_eq!(said.iter().filter(|line| line.contains(away)).count(), 1, "{said:#?}");
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
