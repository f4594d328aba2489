//! How often codes may be asked for and tried, by address, by network, by phone and by everybody.

use redis_link::Redis;
use serde_json::json;

use testkit::redis_nodes::Cluster;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::World;

const PHONE: &str = "13800138000";

/// An API with these limits, which believes what this test says of the address.
async fn limited(limits: &str) -> Api {
    let world = World { login_limits: limits.parse().unwrap(), ..World::new().await };
    let proxies = vec!["127.0.0.1/32".parse().unwrap()];
    let address = world.serve_with(world.options(), proxies).await;
    Api::at(world, address)
}

async fn ask_from(api: &Api, address: &str, phone: &str) -> Answer {
    let asking = api.request("POST", "/api/login-codes").json(&json!({ "phone": phone }));
    api.send(asking.header("x-forwarded-for", address)).await
}

async fn try_from(api: &Api, address: &str, phone: &str, code: &str) -> Answer {
    let body = json!({ "phone": phone, "code": code });
    let trying = api.request("POST", "/api/sessions").json(&body);
    api.send(trying.header("x-forwarded-for", address)).await
}

fn phone(number: u32) -> String {
    format!("138{number:08}")
}

#[track_caller]
fn refused(answer: &Answer, at_most_s: u32) {
    let wait_s = answer.problem(429, "too_many_requests").retry_after_s();
    assert!((1..=at_most_s).contains(&wait_s), "{answer:?}");
}

fn sent(api: &Api) -> usize {
    api.world.sms.0.lock().unwrap().len()
}

fn last_code(api: &Api) -> String {
    api.world.sms.0.lock().unwrap().last().unwrap().1.clone()
}

fn another_code(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

#[tokio::test]
async fn an_ipv4_address_is_limited_by_itself_however_it_is_written() {
    let api = limited("codes-per-address=2/10m,codes-per-network=1/10m").await;
    ask_from(&api, "192.0.2.1", &phone(1)).await.is(202);
    ask_from(&api, "::ffff:192.0.2.1", &phone(2)).await.is(202);
    refused(&ask_from(&api, "192.0.2.1", &phone(3)).await, 600);
    refused(&ask_from(&api, "::ffff:192.0.2.1", &phone(3)).await, 600);
    // Its neighbours are not it, and IPv4 knows no networks.
    for number in 2..6 {
        ask_from(&api, &format!("192.0.2.{number}"), &phone(number)).await.is(202);
    }
    let left_ms: i64 = {
        let key = api.world.keys.rate("codes-per-address", "192.0.2.1");
        api.world.redis.query(redis::cmd("PTTL").arg(key)).await.unwrap()
    };
    assert!((1..=600_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn the_addresses_of_an_ipv6_64_are_one_address() {
    let api = limited("codes-per-address=2/10m").await;
    ask_from(&api, "2001:db8:1:2::1", &phone(1)).await.is(202);
    ask_from(&api, "2001:db8:1:2:ffff:ffff:ffff:ffff", &phone(2)).await.is(202);
    refused(&ask_from(&api, "2001:db8:1:2:3::4", &phone(3)).await, 600);
    ask_from(&api, "2001:db8:1:3::1", &phone(3)).await.is(202);
}

#[tokio::test]
async fn a_proxy_that_nobody_trusts_cannot_lend_a_new_address() {
    let limits = "codes-per-address=2/10m".parse().unwrap();
    let world = World { login_limits: limits, ..World::new().await };
    let address = world.serve().await;
    let api = Api::at(world, address);
    for number in 1..3 {
        ask_from(&api, &format!("192.0.2.{number}"), &phone(number)).await.is(202);
    }
    refused(&ask_from(&api, "192.0.2.3", &phone(3)).await, 600);
}

/// Asks for a code for the phone, from elsewhere, and guesses it wrongly.
async fn guess_from(api: &Api, address: &str, phone: &str) -> Answer {
    ask_from(api, "198.51.100.1", phone).await.is(202);
    try_from(api, address, phone, &another_code(&last_code(api))).await
}

#[tokio::test]
async fn all_64s_of_an_ipv6_48_have_a_limit_together() {
    let api = limited("codes-per-network=3/10m,tries-per-network=3/10m").await;
    for subnet in 0..3 {
        ask_from(&api, &format!("2001:db8:1:{subnet}::1"), &phone(subnet)).await.is(202);
        guess_from(&api, &format!("2001:db8:1:{subnet}::1"), &phone(9)).await.is(401);
    }
    refused(&ask_from(&api, "2001:db8:1:ffff::1", &phone(4)).await, 600);
    refused(&guess_from(&api, "2001:db8:1:ffff::1", &phone(8)).await, 600);
    ask_from(&api, "2001:db8:2::1", &phone(4)).await.is(202);
    guess_from(&api, "2001:db8:2::1", &phone(9)).await.is(401);
}

#[tokio::test]
async fn one_address_may_guess_so_often_whatever_the_phone() {
    let api = limited("tries-per-address=3/10m").await;
    // Where there is no code there is nothing to guess: it is not counted.
    for number in 0..9 {
        try_from(&api, "2001:db8::1", &phone(number), "000000").await.is(401);
    }
    for number in 0..3 {
        guess_from(&api, "2001:db8::1", &phone(number)).await.problem(401, "unauthenticated");
    }
    refused(&guess_from(&api, "2001:db8::2", PHONE).await, 600);
    guess_from(&api, "2001:db8:0:1::1", PHONE).await.problem(401, "unauthenticated");
    // Who guesses rightly may go on for ever.
    let api = limited("tries-per-address=1/10m").await;
    for number in 0..3 {
        ask_from(&api, "192.0.2.1", &phone(number)).await.is(202);
        try_from(&api, "192.0.2.1", &phone(number), &last_code(&api)).await.is(201);
    }
}

#[tokio::test]
async fn a_request_refused_for_its_address_does_not_count_against_the_phone() {
    let limits = "codes-per-address=1/10m,codes-per-network=2/10m,codes-per-phone-in-all=2/24h";
    let api = limited(limits).await;
    ask_from(&api, "2001:db8::1", PHONE).await.is(202);
    for _ in 0..3 {
        refused(&ask_from(&api, "2001:db8::1", PHONE).await, 600);
    }
    ask_from(&api, "2001:db8:0:1::1", &phone(1)).await.is(202);
    for subnet in 2..5 {
        refused(&ask_from(&api, &format!("2001:db8:0:{subnet}::1"), PHONE).await, 600);
    }
    // Its second one.
    ask_from(&api, "192.0.2.1", PHONE).await.is(202);
    refused(&ask_from(&api, "192.0.2.2", PHONE).await, 86_400);
}

#[tokio::test]
async fn a_stranger_who_asks_takes_no_code_from_the_owner_of_a_phone() {
    let api = limited("codes-per-phone=9/10m,codes-per-phone-day=2/24h").await;
    for _ in 0..2 {
        ask_from(&api, "2001:db8:1:1::1", PHONE).await.is(202);
    }
    // The neighbours in a /48 are one stranger.
    refused(&ask_from(&api, "2001:db8:1:2::1", PHONE).await, 86_400);
    for _ in 0..2 {
        ask_from(&api, "192.0.2.1", PHONE).await.is(202);
    }
    refused(&ask_from(&api, "192.0.2.1", PHONE).await, 86_400);
    ask_from(&api, "192.0.2.1", &phone(1)).await.is(202);
}

#[tokio::test]
async fn a_phone_has_a_limit_whoever_asks_and_all_phones_together_have_one() {
    let api = limited("codes-per-phone-in-all=2/24h,codes-in-all=3/24h").await;
    for number in 1..3 {
        ask_from(&api, &format!("192.0.2.{number}"), PHONE).await.is(202);
    }
    // What is refused for its phone does not count against everybody.
    for number in 3..6 {
        refused(&ask_from(&api, &format!("192.0.2.{number}"), PHONE).await, 86_400);
    }
    ask_from(&api, "192.0.2.6", &phone(1)).await.is(202);
    refused(&ask_from(&api, "192.0.2.7", &phone(2)).await, 86_400);
    assert_eq!(sent(&api), 3);
    let metrics = api.get("/metrics").await.text;
    for limit in ["codes-per-phone-in-all", "codes-in-all"] {
        assert!(
            metrics.contains(&format!("login_refused_total{{limit=\"{limit}\"}}")),
            "{metrics}"
        );
    }
}

#[tokio::test]
async fn wrong_tries_count_against_the_address_and_then_against_the_phone() {
    let limits = "wrong-tries-per-phone=7/24h,wrong-tries-per-phone-and-address=5/1h";
    let api = limited(limits).await;
    // Where there is no code, there is nothing to guess: nobody can lock a phone out this way.
    for _ in 0..9 {
        try_from(&api, "192.0.2.1", PHONE, "000000").await.is(401);
    }
    for (address, tries, wait_s) in [("192.0.2.1", 5, 3_600), ("192.0.2.2", 2, 3_600)] {
        ask_from(&api, address, PHONE).await.is(202);
        let code = last_code(&api);
        for _ in 0..tries {
            let guess = try_from(&api, address, PHONE, &another_code(&code)).await;
            guess.problem(401, "unauthenticated");
        }
        // Not even the right one.
        refused(&try_from(&api, address, PHONE, &code).await, wait_s);
    }
    // An address that did not ask for the code is a stranger's. One that asked has a try.
    let code = last_code(&api);
    refused(&try_from(&api, "192.0.2.3", PHONE, &code).await, 86_400);
    ask_from(&api, "192.0.2.4", PHONE).await.is(202);
    try_from(&api, "192.0.2.4", PHONE, &another_code(&code)).await.is(401);
    // Its next first try is in an hour.
    refused(&try_from(&api, "192.0.2.4", PHONE, &code).await, 3_600);
    ask_from(&api, "192.0.2.3", PHONE).await.is(202);
    try_from(&api, "192.0.2.3", PHONE, &code).await.is(201);
    // Of another phone nothing was counted.
    ask_from(&api, "192.0.2.1", &phone(1)).await.is(202);
    try_from(&api, "192.0.2.1", &phone(1), &last_code(&api)).await.is(201);
    let metrics = api.get("/metrics").await.text;
    for limit in ["wrong-tries-per-phone", "wrong-tries-per-phone-and-address"] {
        let refused = format!("login_refused_total{{limit=\"{limit}\"}}");
        assert!(metrics.contains(&refused), "{metrics}");
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
            let wrong = another_code(&last_code(&api));
            try_from(&api, &format!("192.0.2.{stranger}"), PHONE, &wrong).await.is(401);
        }
    }
    ask_from(&api, "203.0.113.7", PHONE).await.is(202);
    try_from(&api, "203.0.113.7", PHONE, &last_code(&api)).await.is(201);
}

/// Requests that are refused write nothing, wherever they come from: what is in Redis is bounded by the codes that
/// may be sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_logins_does_not_fill_redis() {
    let api = limited("codes-in-all=20/24h").await;
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
        futures_util::future::join_all(requests).await
    };
    let answers = flood(0).await;
    let sent = answers.iter().filter(|status| **status == 202).count();
    assert_eq!((sent, answers.len()), (20, 50), "{answers:?}");
    let before = keys().await;
    // Those that were let in at the same moment have counted before the limit of all was asked.
    assert!(before <= 50 * 6, "{before}");
    assert!(flood(1_000).await.iter().all(|status| *status == 429));
    assert_eq!(keys().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_at_the_same_moment_are_counted_one_by_one() {
    let api = limited("wrong-tries-per-phone=3/24h").await;
    ask_from(&api, "192.0.2.1", PHONE).await.is(202);
    let wrong = another_code(&last_code(&api));
    let tries = (0..20).map(|_| try_from(&api, "192.0.2.1", PHONE, &wrong));
    let answers = futures_util::future::join_all(tries).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(401), count(429)), (3, 17), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_requests_at_the_same_moment_as_many_are_sent_as_may_be() {
    let api = limited("codes-per-phone=3/10m").await;
    let asked = (0..20).map(|_| ask_from(&api, "192.0.2.1", PHONE));
    let answers = futures_util::future::join_all(asked).await;
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(202), count(429)), (3, 17), "{answers:?}");
    // One code, three times: whichever message arrives, it is good.
    let codes: std::collections::HashSet<String> =
        api.world.sms.0.lock().unwrap().iter().map(|(_, code)| code.clone()).collect();
    assert_eq!((sent(&api), codes.len()), (3, 1), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_in_works_through_a_cluster() {
    let cluster = Cluster::start(3).await;
    let limits = "wrong-tries-per-phone=1/24h".parse().unwrap();
    let redis = Redis::new(&cluster.url()).unwrap();
    let world = World { login_limits: limits, redis, ..World::new().await };
    let address = world.serve().await;
    let api = Api::at(world, address);
    for number in 0..6 {
        ask_from(&api, "192.0.2.1", &phone(number)).await.is(202);
        let code = last_code(&api);
        try_from(&api, "192.0.2.1", &phone(number), &code).await.is(201);
        ask_from(&api, "192.0.2.1", &phone(number)).await.is(202);
        let wrong = another_code(&last_code(&api));
        try_from(&api, "192.0.2.1", &phone(number), &wrong).await.is(401);
        refused(&try_from(&api, "192.0.2.1", &phone(number), &wrong).await, 86_400);
    }
}
