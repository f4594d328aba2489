//! How often codes may be asked for and tried, by address, by network, by phone and by everybody.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::json;
use sqlx::Executor;

use testkit::shop::api_client::{Answer, Api, another_code};
use testkit::shop::world::{ADMIN_PHONE, World};
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

/// An API with these limits, which believes what this test says of the address.
async fn limited(limits: &str) -> Api {
    let login_limits = limits.parse().unwrap();
    Api::behind_proxy(World::with(|settings| settings.login_limits = login_limits).await).await
}

pub async fn ask_from(api: &Api, address: &str, phone: &str) -> Answer {
    let asking = api.request("POST", "/api/login-codes").json(&json!({ "phone": phone }));
    api.send(asking.header("x-forwarded-for", address)).await
}

pub async fn try_from(api: &Api, address: &str, phone: &str, code: &str) -> Answer {
    let body = json!({ "phone": phone, "code": code });
    let trying = api.request("POST", "/api/sessions").json(&body);
    api.send(trying.header("x-forwarded-for", address)).await
}

pub fn phone(number: u32) -> String {
    format!("138{number:08}")
}

#[track_caller]
fn refused(answer: &Answer, at_most_s: u32) {
    let wait_s = answer.problem(429, "too_many_requests").retry_after_s();
    assert!((1..=at_most_s).contains(&wait_s), "{answer:?}");
}

const SCENARIOS: &str = include_str!("login_limits.txt");

/// The answer to a step of a scenario.
async fn answer_to(api: &Api, step: &str, address: &str, phone: &str) -> Answer {
    let code = match step {
        "ask" => {
            let sent = || api.world.sms.0.lock().unwrap().len();
            let before = sent();
            let answer = ask_from(api, address, phone).await;
            assert_eq!(sent() - before, usize::from(answer.status == 202), "{answer:?}");
            return answer;
        }
        "right" => api.last_code(),
        "wrong" => another_code(&api.last_code()),
        "guess" => {
            ask_from(api, "198.51.100.1", phone).await.is(202);
            another_code(&api.last_code())
        }
        "none" => "000000".to_owned(),
        other => panic!("there is no step {other:?}"),
    };
    try_from(api, address, phone, &code).await
}

async fn play(scenario: &str) {
    let mut lines = scenario.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let title = lines.next().unwrap();
    let limits = lines.next().unwrap().strip_prefix("limits ").unwrap();
    let api = limited(limits).await;
    for line in lines {
        println!("{title}: {line}");
        let (step, expected) = line.split_once(" -> ").unwrap();
        let (times, step) = step.split_once(" x ").unwrap_or(("1", step));
        let [step, address, number] = step.split(' ').collect::<Vec<_>>().try_into().unwrap();
        for _ in 0..times.parse().unwrap() {
            let answer = answer_to(&api, step, address, &phone(number.parse().unwrap())).await;
            match expected.strip_prefix("wait ") {
                Some(at_most_s) => refused(&answer, at_most_s.parse().unwrap()),
                None => drop(answer.is(expected.parse().unwrap())),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_networks_and_phones_have_the_limits_of_the_scenarios() {
    let plays = SCENARIOS.split("\n-- ").skip(1).map(play);
    stream::iter(plays).buffer_unordered(4).collect::<()>().await;
    // A limit that refused is counted by its name.
    let metrics = Api::shared().await.get("/metrics").await.text;
    for limit in [
        "codes-per-phone-in-all",
        "codes-in-all",
        "wrong-tries-per-phone",
        "wrong-tries-per-phone-and-address",
    ] {
        let refused = format!("login_refused_total{{limit=\"{limit}\"}}");
        assert!(metrics.contains(&refused), "{limit}: {metrics}");
    }
}

#[tokio::test]
async fn a_proxy_that_nobody_trusts_cannot_lend_a_new_address() {
    let login_limits = "codes-per-address=2/10m".parse().unwrap();
    let api = Api::of(World::with(|settings| settings.login_limits = login_limits).await).await;
    for number in 1..3 {
        ask_from(&api, &format!("192.0.2.{number}"), &phone(number)).await.is(202);
    }
    refused(&ask_from(&api, "192.0.2.3", &phone(3)).await, 600);
    // Redis forgets what was counted.
    let key = api.world.keys.rate("codes-per-address", "127.0.0.1");
    let left_ms: i64 = api.world.redis.query(redis::cmd("PTTL").arg(key)).await.unwrap();
    assert!((1..=600_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn a_loopback_address_has_no_limit_of_a_day() {
    let api = limited("codes-per-address-day=1/24h").await;
    for (address, number, status) in [
        ("192.0.2.1", 1, 202),
        ("192.0.2.1", 2, 429),
        ("127.0.0.1", 3, 202),
        ("127.0.0.1", 4, 202),
        ("::1", 5, 202),
        ("::1", 6, 202),
    ] {
        ask_from(&api, address, &phone(number)).await.is(status);
    }
}

#[tokio::test]
async fn twenty_codes_and_fifty_wrong_tries_of_a_stranger_do_not_keep_the_owner_out() {
    let api = limited("codes-per-phone=20/10m").await;
    for _ in 0..20 {
        ask_from(&api, "192.0.2.1", PHONE).await.is(202);
    }
    refused(&ask_from(&api, "192.0.2.1", PHONE).await, 86_400);
    for stranger in 1..=5 {
        for _ in 0..10 {
            let wrong = another_code(&api.last_code());
            try_from(&api, &format!("192.0.2.{stranger}"), PHONE, &wrong).await.is(401);
        }
    }
    ask_from(&api, "203.0.113.7", PHONE).await.is(202);
    try_from(&api, "203.0.113.7", PHONE, &api.last_code()).await.is(201);
}

/// Requests that are refused write nothing, wherever they come from: what is in Redis is bounded by the codes that
/// may be sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_logins_does_not_fill_redis() {
    let api = limited("codes-in-all=20/24h,codes-for-newcomers=20/24h").await;
    let keys = async || {
        let pattern = format!("{}*", api.world.keys.prefix());
        let found: Vec<String> =
            api.world.redis.query(redis::cmd("KEYS").arg(pattern)).await.unwrap();
        found.len()
    };
    let flood = async |from: u32| {
        let requests = (from..from + 50).map(async |number| {
            let address = format!("2001:db8:{number:x}::1");
            let asked = ask_from(&api, &address, &phone(number)).await.status;
            // Of a phone that has no code.
            try_from(&api, &address, &phone(5_000 + number), "000000").await.is(401);
            asked
        });
        join_all(requests).await
    };
    let answers = flood(0).await;
    let sent = answers.iter().filter(|status| **status == 202).count();
    assert_eq!((sent, answers.len()), (20, 50), "{answers:?}");
    let before = keys().await;
    // Those that were let in at the same moment have counted before the limit of all was asked.
    assert!(before <= 50 * 8, "{before}");
    assert!(flood(1_000).await.iter().all(|status| *status == 429));
    assert_eq!(keys().await, before);
}

/// What strangers use up for each other is a part of all codes.
#[tokio::test]
async fn strangers_take_no_code_from_those_who_have_logged_in_before() {
    let api = limited("codes-in-all=9/24h,codes-for-newcomers=6/24h").await;
    ask_from(&api, "203.0.113.7", PHONE).await.is(202);
    try_from(&api, "203.0.113.7", PHONE, &api.last_code()).await.is(201);
    for number in 1..=5 {
        ask_from(&api, &format!("192.0.2.{number}"), &phone(number)).await.is(202);
    }
    refused(&ask_from(&api, "192.0.2.6", &phone(6)).await, 86_400);
    // The user's, and the administrator's who has never logged in.
    ask_from(&api, "203.0.113.7", PHONE).await.is(202);
    ask_from(&api, "203.0.113.8", ADMIN_PHONE).await.is(202);
    // However it is spelled.
    ask_from(&api, "203.0.113.9", &format!("+86{PHONE}")).await.is(202);
    refused(&ask_from(&api, "203.0.113.7", PHONE).await, 86_400);
    refused(&ask_from(&api, "203.0.113.8", ADMIN_PHONE).await, 86_400);
}

#[tokio::test]
async fn codes_go_to_the_countries_that_are_named_and_each_beside_the_first_has_a_limit() {
    const ADMIN: &str = "+12125550123";
    let world = World::with(|settings| {
        settings.sms_countries = Some("86,44,4420".parse().unwrap());
        settings.login_limits = "codes-per-country=2/24h".parse().unwrap();
        settings.admin_phones = ADMIN.parse().unwrap();
    });
    let api = Api::of(world.await).await;
    let known = "insert into users (id, phone, nickname, created_at)
        values (1, '+447911123459', 'known', now()), (2, '+12125550125', 'known', now())";
    api.world.database.pool().execute(known).await.unwrap();
    let elsewhere = api.ask_code("+12125550124").await;
    elsewhere.problem(422, "invalid_request");
    assert!(elsewhere.text_of("detail").contains("+86, +44, +4420"), "{elsewhere:?}");
    for known in [ADMIN, "+12125550125"] {
        api.ask_code(known).await.is(202);
    }
    // The longest prefix counts, and the first has no limit of its own.
    for number in ["+447911123456", "+442071838750", "+442071838751", "+447911123457"] {
        api.ask_code(number).await.is(202);
    }
    for number in ["+447911123458", "+442071838752"] {
        refused(&api.ask_code(number).await, 86_400);
    }
    for number in 1..=3 {
        api.ask_code(&phone(number)).await.is(202);
    }
    api.ask_code("+447911123459").await.is(202);
}

/// The answers tell who is a user, so an address is not answered for long, and all others are.
#[tokio::test]
async fn whoever_asks_for_one_foreign_phone_after_another_is_no_more_told_which_has_a_user() {
    let world = World::with(|settings| {
        settings.sms_countries = Some("86".parse().unwrap());
        settings.address_rate = "3/1s".parse().unwrap();
    });
    let api = Api::behind_proxy(world.await).await;
    // Stored before a phone had one form.
    let known = "insert into users (id, phone, nickname, created_at)
        values (1, '+447911123459', 'known', now()), (2, '+4407911123450', 'known', now())";
    api.world.database.pool().execute(known).await.unwrap();
    let foreign = |number: u32| format!("+44791112345{number}");
    for number in 1..=3 {
        ask_from(&api, "192.0.2.1", &foreign(number)).await.problem(422, "invalid_request");
    }
    // Longer than the rate of the address tells it to wait.
    let waits = async |phone: &str| {
        ask_from(&api, "192.0.2.1", phone).await.problem(429, "too_many_requests").retry_after_s()
            > 1
    };
    eventually("the address is told nothing", async || waits(&foreign(4)).await).await;
    eventually("nor of a phone with a user", async || waits(&foreign(9)).await).await;
    eventually("a phone that needs no look-up is sent its code", async || {
        ask_from(&api, "192.0.2.1", PHONE).await.status == 202
    })
    .await;
    ask_from(&api, "192.0.2.2", &foreign(9)).await.is(202);
    ask_from(&api, "192.0.2.2", "+4407911123450").await.is(202);
}

/// Of twenty requests at the same moment three are let in.
async fn three_of_twenty(requests: impl Iterator<Item: Future<Output = Answer>>, status: u16) {
    let answers = join_all(requests).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(status), count(429)), (3, 17), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_requests_at_the_same_moment_as_many_are_let_in_as_may_be() {
    let api = limited("codes-per-phone=3/10m,wrong-tries-per-phone=3/24h").await;
    three_of_twenty((0..20).map(|_| ask_from(&api, "192.0.2.1", PHONE)), 202).await;
    // One code, three times: whichever message arrives, it is good.
    let sent = api.world.sms.0.lock().unwrap().clone();
    assert_eq!(sent, vec![(PHONE.to_owned(), api.last_code()); 3]);
    let wrong = another_code(&api.last_code());
    three_of_twenty((0..20).map(|_| try_from(&api, "192.0.2.1", PHONE, &wrong)), 401).await;
}
