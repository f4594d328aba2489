//! No address takes the logins of others by being loud.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use futures_util::future::{join, join_all};
use seckill::http::server::ServerLimits;
use seckill::http::{App, Who, limited, served};
use seckill::model::BucketRate;
use tokio::sync::Semaphore;

use super::login_limits::{ask_from, phone, try_from};
use testkit::flood::flood;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::served::Served;
use testkit::shop::world::World;
use testkit::wait::eventually;

const LOGIN: &str = "/api/sessions";
const CODE: &str = "/api/login-codes";

async fn world(address_rate: &str) -> World {
    let address_rate: BucketRate = address_rate.parse().unwrap();
    World::with(|settings| settings.address_rate = address_rate).await
}

/// An API in which an address has so many requests, and which believes what this test says of the address.
async fn api_with(address_rate: &str) -> Api {
    Api::behind_proxy(world(address_rate).await).await
}

/// Logs in with a phone that was sent no code, or asks for a code.
async fn ask(api: &Api, from: &str, path: &str, number: u32) -> Answer {
    match path {
        CODE => ask_from(api, from, &phone(number)).await,
        _ => try_from(api, from, &phone(number), "123456").await,
    }
}

#[tokio::test]
async fn an_address_logs_in_and_asks_for_codes_so_often_and_another_as_often() {
    for (path, served) in [(LOGIN, 401), (CODE, 202)] {
        let api = api_with("3/1h").await;
        for number in 1..=3 {
            ask(&api, "192.0.2.1", path, number).await.is(served);
        }
        let refused = ask(&api, "192.0.2.1", path, 4).await;
        let wait = refused.problem(429, "too_many_requests").retry_after_s();
        assert!((1_000..=1_200).contains(&wait), "{wait}");
        // What is refused asks no store, and no text message is sent.
        assert_eq!(api.world.sms.0.lock().unwrap().len(), if path == CODE { 3 } else { 0 });
        ask(&api, "192.0.2.2", path, 5).await.is(served);
        // The last address before the proxy counts, and not what stands before it.
        ask(&api, "192.0.2.3, 192.0.2.1", path, 6).await.problem(429, "too_many_requests");
        // Neighbours in an IPv6 /64 are one.
        for neighbour in 1..=3 {
            ask(&api, &format!("2001:db8::{neighbour}"), path, 6 + neighbour).await.is(served);
        }
        ask(&api, "2001:db8::4", path, 10).await.problem(429, "too_many_requests");
        // They share the rate with all that shows no good token.
        let request = api.request("GET", "/api/me").header("x-forwarded-for", "2001:db8::5");
        api.send(request).await.problem(429, "too_many_requests");
        ask(&api, "2001:db8:0:1::4", path, 11).await.is(served);
        for number in 12..20 {
            ask(&api, "127.0.0.1", path, number).await.is(served);
        }
        let counted = api.get("/metrics").await;
        assert!(counted.text.contains(r#"seckill_rate_limited_total{by="address"}"#), "{path}");
    }
}

/// Requests of a route that wait until they are let go.
struct Waiting {
    api: Api,
    path: &'static str,
    entered: Arc<AtomicUsize>,
    may_end: Arc<Semaphore>,
}

impl Waiting {
    async fn new(address_rate: &str, path: &'static str) -> Self {
        let world = world(address_rate).await;
        let app = world.app_with(world.options(), vec!["127.0.0.1/32".parse().unwrap()]).await;
        let (entered, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (entering, ending) = (Arc::clone(&entered), Arc::clone(&may_end));
        let wait = post(async move || {
            entering.fetch_add(1, Ordering::Relaxed);
            ending.acquire().await.unwrap().forget();
            if path == CODE { StatusCode::ACCEPTED } else { StatusCode::CREATED }
        });
        let route = Router::<App>::new().route(path, wait);
        let routes = if path == CODE {
            limited(&app, |limits| &limits.login_codes, Who::ConnectedStranger, route)
        } else {
            limited(&app, |limits| &limits.logins, Who::Stranger, route)
        };
        let routes = served(app.clone(), routes.with_state(app));
        let address = Served::new(routes, ServerLimits::of(4096)).address;
        Self { api: Api::at(world, address), path, entered, may_end }
    }

    async fn ask(&self, from: &str) -> Answer {
        ask(&self.api, from, self.path, 1).await
    }

    async fn until_entered(&self, count: usize) {
        let entered = async || self.entered.load(Ordering::Relaxed) == count;
        eventually("as many wait", entered).await;
    }
}

/// An address has a quarter of the permits under way, and so have all /64 of an IPv6 /48 together. If addresses are not
/// limited, one that many share has all.
#[tokio::test]
async fn an_address_has_so_many_logins_under_way_and_another_as_many() {
    let of_address: fn(usize) -> String = |_| "192.0.2.1".to_owned();
    let of_network = |host| format!("2001:db8:7:{host:x}::1");
    for (path, rate, share, permits, done, loud) in [
        (LOGIN, "100000/1h", 16, 64, 201, of_address),
        (LOGIN, "100000/1h", 16, 64, 201, of_network),
        (CODE, "100000/1h", 64, 256, 202, of_address),
        (LOGIN, "off", 64, 64, 201, of_address),
        (CODE, "off", 256, 256, 202, of_address),
    ] {
        let waiting = &Waiting::new(rate, path).await;
        let flood = join_all((0..share).map(|host| async move { waiting.ask(&loud(host)).await }));
        let others = async {
            waiting.until_entered(share).await;
            let refused = waiting.ask(&loud(share)).await;
            match rate {
                "off" => refused.problem(503, "unavailable"),
                _ => refused.problem(429, "too_many_requests"),
            };
            assert_eq!(refused.header("retry-after"), Some("1"));
            let others = (share..permits).map(async |number| {
                waiting.ask(if number == share { "192.0.2.2" } else { "127.0.0.1" }).await
            });
            let full = async {
                waiting.until_entered(permits).await;
                waiting.ask("192.0.2.3").await.problem(503, "unavailable");
                waiting.may_end.add_permits(permits);
            };
            let (others, ()) = join(join_all(others), full).await;
            others.iter().for_each(|answer| assert_eq!(answer.status, done));
        };
        let (flood, ()) = join(flood, others).await;
        flood.iter().for_each(|answer| assert_eq!(answer.status, done));
        waiting.may_end.add_permits(1);
        waiting.ask(&loud(0)).await.is(done);
    }
}

/// A login runs to its end if its client leaves: until then the address has it under way. What its share refuses costs the
/// address nothing of its rate.
#[tokio::test]
async fn who_leaves_has_the_login_under_way() {
    let waiting = Waiting::new("17/1h", LOGIN).await;
    {
        let leaving = join_all((0..16).map(|_| waiting.ask("192.0.2.1")));
        tokio::select! {
            _ = leaving => unreachable!("nobody is let go"),
            () = waiting.until_entered(16) => {}
        }
    }
    waiting.ask("192.0.2.1").await.problem(429, "too_many_requests");
    waiting.may_end.add_permits(17);
    eventually("they have ended", async || waiting.ask("192.0.2.1").await.status == 201).await;
}

/// A hundred connections of one address try codes of phones that have none: all others log in.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_logins_of_one_address_leaves_the_others_theirs() {
    let api = api_with("600/10s").await;
    let log_in = async |number: usize| {
        let answer = ask(&api, "192.0.2.1", LOGIN, 1_000 + number as u32).await;
        assert!([401, 429, 503].contains(&answer.status), "{answer:?}");
    };
    let others = async {
        for number in 1..=25 {
            let from = format!("198.51.100.{number}");
            ask(&api, &from, CODE, number).await.is(202);
            try_from(&api, &from, &phone(number), &api.last_code()).await.is(201);
        }
    };
    flood(100, log_in, others).await;
}
