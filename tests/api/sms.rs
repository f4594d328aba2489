//! Login codes on their way to a gateway: a real HTTP server of the test's own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use futures_util::future::join_all;
use seckill::http::server::ServerLimits;
use seckill::http::webhook::SigningKey;
use seckill::model::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::served::Served;
use testkit::shop::world::{Gateway, World};
use testkit::wait::eventually;

const PHONE: &str = "13800138000";

/// What a gateway was sent.
#[derive(Debug, Clone)]
struct Message {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// A gateway that gives these answers in turn, the last one for ever.
struct Sms {
    answers: Vec<u16>,
    messages: Mutex<Vec<Message>>,
    /// Answers that may be given.
    answering: Semaphore,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

async fn take(
    State(sms): State<Arc<Sms>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let place = {
        let mut messages = sms.messages.lock().unwrap();
        messages.push(Message { uri, headers, body });
        messages.len() - 1
    };
    let in_flight = sms.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    sms.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
    sms.answering.acquire().await.unwrap().forget();
    sms.in_flight.fetch_sub(1, Ordering::SeqCst);
    let answer = sms.answers.get(place).or(sms.answers.last()).unwrap();
    StatusCode::from_u16(*answer).unwrap()
}

impl Sms {
    /// One that answers at once, and where it is.
    fn start(answers: &[u16]) -> (Arc<Self>, SocketAddr) {
        let started = Self::start_silent(answers);
        started.0.answering.add_permits(10_000);
        started
    }

    /// One that takes messages and answers none of them until it may.
    fn start_silent(answers: &[u16]) -> (Arc<Self>, SocketAddr) {
        let sms = Arc::new(Self {
            answers: answers.to_vec(),
            messages: Mutex::default(),
            answering: Semaphore::new(0),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(take).with_state(Arc::clone(&sms));
        (sms, Served::new(router, ServerLimits::of(1_000)).address)
    }

    fn count(&self) -> usize {
        self.messages.lock().unwrap().len()
    }

    fn message(&self, place: usize) -> Message {
        self.messages.lock().unwrap()[place].clone()
    }
}

impl Message {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// As the receiver of a message does it; returns the time that was signed.
    fn verified(&self, secret: &str) -> i64 {
        let signature = self.headers["seckill-signature"].to_str().unwrap();
        let (time, _) = signature.strip_prefix("t=").unwrap().split_once(',').unwrap();
        let time = time.parse().unwrap();
        // That other programs compute the same is `webhook`'s own test.
        assert_eq!(signature, SigningKey::new(secret.as_bytes()).sign(time, &self.body));
        time
    }
}

async fn api_with(url: String) -> Api {
    Api::of(World { gateway: Gateway::Webhook(url), ..World::new().await }).await
}

#[tokio::test]
async fn a_code_is_posted_signed_and_logs_in() {
    let (sms, address) = Sms::start(&[204]);
    let api = api_with(format!("http://{address}/send?key=a%20b")).await;
    api.ask_code(PHONE).await.is(202);
    assert_eq!(sms.count(), 1);
    let message = sms.message(0);
    assert_eq!(message.uri.to_string(), "/send?key=a%20b");
    assert_eq!(message.headers["content-type"], "application/json");
    assert_eq!(message.headers["host"], address.to_string().as_str());
    assert_eq!(message.verified(&api.world.secret), api.world.clock.now().timestamp());
    let body = message.json();
    let code = body["code"].as_str().unwrap();
    assert_eq!(body, json!({ "phone": PHONE, "code": code, "expires_in_s": 120 }));
    api.try_code(PHONE, code).await.is(201);
}

#[tokio::test]
async fn a_gateway_that_fails_is_asked_again_and_not_for_ever() {
    for (answers, status, attempts) in [
        (&[500, 200][..], 202, 2),
        (&[503, 502, 201], 202, 3),
        (&[500, 500, 500, 200], 503, 3),
        // It understood, and will not.
        (&[400, 200], 503, 1),
        (&[429, 200], 503, 1),
        (&[302, 200], 503, 1),
    ] {
        let (sms, address) = Sms::start(answers);
        let api = api_with(format!("http://{address}/")).await;
        let answer = api.ask_code(PHONE).await;
        answer.is(status);
        assert_eq!(sms.count(), attempts, "{answers:?}");
        if status == 503 {
            answer.problem(503, "unavailable");
        }
        for place in 0..attempts {
            let message = sms.message(place);
            message.verified(&api.world.secret);
            assert_eq!(message.body, sms.message(0).body);
        }
    }
}

#[tokio::test]
async fn a_gateway_that_never_answers_and_one_that_speaks_no_tls_cost_a_503() {
    // The one that speaks no TLS is sent nothing in clear.
    for (scheme, messages) in [("http", 1), ("https", 0)] {
        let (sms, address) = Sms::start_silent(&[200]);
        let api = api_with(format!("{scheme}://{address}/")).await;
        api.ask_code(PHONE).await.problem(503, "unavailable");
        assert_eq!(sms.count(), messages, "{scheme}");
    }
}

#[tokio::test]
async fn a_gateway_that_is_not_there_or_breaks_off_costs_a_503() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let api = api_with(format!("http://{address}/")).await;
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&accepted);
    let breaking_off = tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    api.ask_code(PHONE).await.problem(503, "unavailable");
    assert_eq!(accepted.load(Ordering::SeqCst), 3);
    breaking_off.abort();
    let _ = breaking_off.await;
    // Nobody listens any more: the connection is refused.
    api.ask_code(PHONE).await.problem(503, "unavailable");
    assert_eq!(accepted.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_messages_are_on_their_way_at_once() {
    let (sms, address) = Sms::start_silent(&[200]);
    let api = Arc::new(api_with(format!("http://{address}/")).await);
    let asking = join_all((0..100).map(|number| {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.ask_code(&format!("138{number:08}")).await.status })
    }));
    let asking = tokio::spawn(asking);
    eventually("as many are on their way as may be", async || {
        sms.in_flight.load(Ordering::SeqCst) == 64
    })
    .await;
    sms.answering.add_permits(10_000);
    for status in asking.await.unwrap() {
        assert_eq!(status.unwrap(), 202);
    }
    assert_eq!((sms.count(), sms.most_in_flight.load(Ordering::SeqCst)), (100, 64));
}

#[tokio::test]
async fn without_a_gateway_nobody_can_log_in_and_nothing_is_counted() {
    let api = Api::of(World { gateway: Gateway::Nothing, ..World::new().await }).await;
    for _ in 0..10 {
        let answer = api.ask_code(PHONE).await;
        answer.problem(503, "unavailable");
        assert!(answer.text_of("detail").contains("no SMS gateway is configured"), "{answer:?}");
    }
    let keys = &api.world.keys;
    for key in [
        keys.login_code(PHONE),
        keys.rate("codes-per-phone", PHONE),
        keys.rate("codes-per-address", "127.0.0.1"),
        keys.rate("codes-in-all", "all"),
    ] {
        let there: i64 = api.world.redis.query(redis::cmd("EXISTS").arg(key)).await.unwrap();
        assert_eq!(there, 0);
    }
}

/// A foreign number may be one that its owner is paid for.
#[tokio::test]
async fn where_a_message_costs_money_codes_go_to_china_unless_other_countries_are_named() {
    for (countries, is_sent) in [(None, false), (Some("86,44"), true), (Some("any"), true)] {
        let (sms, address) = Sms::start(&[200]);
        let world = World::new().await;
        let mut program = sending_to(Program::on(&world), address);
        if let Some(countries) = countries {
            program = program.with("SECKILL_SMS_COUNTRIES", countries);
        }
        let server = Node::serve(&program, &[]).await;
        let api = Api::at(world, server.address);
        api.ask_code(PHONE).await.is(202);
        let abroad = api.ask_code("+447911123456").await;
        let _ = if is_sent { abroad.is(202) } else { abroad.problem(422, "invalid_request") };
        assert_eq!(sms.count(), 1 + usize::from(is_sent), "{countries:?}");
        let log = server.stop().await;
        assert_eq!(log.contains("phones of +86 alone"), countries.is_none(), "{log}");
    }
}

const SECRET: &str = "a secret of the gateway";

fn sending_to(program: Program, gateway: SocketAddr) -> Program {
    program
        .with("SECKILL_SMS", "http")
        .with("SECKILL_SMS_URL", &format!("http://{gateway}/"))
        .with("SECKILL_SMS_SECRET", SECRET)
}

/// Serves, asks for a code, and returns the answer and what the log says.
async fn served(program: &Program, world: World) -> (Answer, String) {
    let server = Node::serve(program, &[]).await;
    let api = Api::at(world, server.address);
    let answer = api.ask_code(PHONE).await;
    (answer, server.stop().await)
}

#[tokio::test]
async fn beside_a_database_of_others_a_server_sends_codes_only_where_it_is_told_to() {
    let world = World::new().await;
    let program = Program::on(&world);
    let (answer, log) = served(&program, world).await;
    answer.problem(503, "unavailable");
    assert_eq!(log.matches("SECKILL_SMS is not set").count(), 1, "{log}");
    assert!(!log.contains(PHONE) && !log.contains("login code ("), "{log}");

    let world = World::new().await;
    let (answer, log) = served(&Program::on(&world).with("SECKILL_SMS", "log"), world).await;
    answer.is(202);
    assert!(log.contains("login code (") && !log.contains("SECKILL_SMS"), "{log}");

    let (sms, address) = Sms::start(&[200]);
    let world = World::new().await;
    let program = sending_to(Program::on(&world), address);
    let (answer, log) = served(&program, world).await;
    answer.is(202);
    sms.message(0).verified(SECRET);
    let message = sms.message(0).json();
    assert!(!log.contains(message["code"].as_str().unwrap()), "{log}");
}
