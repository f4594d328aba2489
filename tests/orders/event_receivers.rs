//! The events of real servers: to the receivers of docs/events.md, and to one that is dead for long.

use std::io::ErrorKind;
use std::process::Stdio;

use seckill::http::webhook::{SIGNATURE, SigningKey};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use testkit::closed_port::ClosedPort;
use testkit::needs::needs;
use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::world::{ADMIN_PHONE, World};
use testkit::wait::{eventually, must};

const SECRET: &str = "a secret of the receiver";

/// A receiver of the page.
struct Receiver {
    url: String,
    output: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Receiver {
    /// `None`: the machine has nothing that runs it.
    async fn start(runs: &str, file: &str) -> Option<Self> {
        let path = format!("{}/docs/receivers/{file}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(runs);
        command.args([&path, "0"]).env("SECKILL_EVENTS_SECRET", SECRET);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = match command.spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => needs::<Child>(runs, Err(error))?,
            child => child.unwrap(),
        };
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = must("the receiver listens", output.next_line()).await.unwrap().unwrap();
        let url = first.strip_prefix("listening on ").unwrap().to_owned();
        Some(Self { url, output, _child: child })
    }

    /// The next event that it was told, and had not been told before.
    async fn next(&mut self) -> Value {
        let line = must("the receiver has an event", self.output.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    /// What it answers to a body with this signature.
    async fn answers(&self, body: &str, signature: Option<String>) -> u16 {
        let request = reqwest::Client::new().post(&self.url).body(body.to_owned());
        let signed = signature.into_iter();
        let request = signed.fold(request, |request, it| request.header(SIGNATURE, it));
        request.send().await.unwrap().status().as_u16()
    }
}

/// A server of this world whose events go there.
async fn telling(world: &World, url: &str) -> Node {
    let program = Program::on(world)
        .with("SECKILL_EVENTS_URL", url)
        .with("SECKILL_EVENTS_SECRET", SECRET)
        .with("SECKILL_PAYMENTS", "sandbox")
        .with("SECKILL_ADMIN_PHONES", ADMIN_PHONE);
    Node::serve(&program, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receivers_of_the_page_take_what_a_server_tells_and_nothing_else() {
    for (runs, file) in [("python3", "receiver.py"), ("node", "receiver.mjs")] {
        let Some(mut receiver) = Receiver::start(runs, file).await else { continue };
        let world = World::new().await;
        world.at_present().await;
        world.users(2).await;
        let voucher = world.voucher(2).await.id;
        let node = telling(&world, &receiver.url).await;
        let api = Api::at(world, node.address);
        let begun = "select count(*) = 1 from event_cursors";
        eventually("the server knows where the events begin", async || {
            sqlx::query_scalar(begun).fetch_one(api.world.database.pool()).await.unwrap()
        })
        .await;
        let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
        let told = receiver.next().await;
        assert_eq!((&told["type"], &told["order_id"]), (&json!("order.paid"), &json!(order)));
        drop(node);

        let key = SigningKey::new(SECRET.as_bytes());
        let body = json!({ "events": [told, { "id": "another" }] }).to_string();
        let good = key.sign(7, body.as_bytes());
        let of_another_time = good.replacen("t=7", "t=8", 1);
        let of_another_secret = SigningKey::new(b"another secret...").sign(7, body.as_bytes());
        for (signature, status) in [
            (None, 403),
            (Some("t=7".to_owned()), 403),
            (Some(of_another_time), 403),
            (Some(of_another_secret), 403),
            (Some(good.clone()), 204),
            (Some(good), 204),
        ] {
            assert_eq!(receiver.answers(&body, signature.clone()).await, status, "{signature:?}");
        }
        // It knew the first one, and takes the other one once.
        assert_eq!(receiver.next().await, json!({ "id": "another" }));
        let last = json!({ "events": [{ "id": "last" }] }).to_string();
        let signature = key.sign(7, last.as_bytes());
        assert_eq!(receiver.answers(&last, Some(signature)).await, 204);
        assert_eq!(receiver.next().await, json!({ "id": "last" }), "{file}");
    }
}

/// Buyers pay, and get their money back, and once the receiver is there it is told all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_dead_delays_nothing_and_misses_nothing() {
    let Some(mut receiver) = Receiver::start("python3", "receiver.py").await else { return };
    let world = World::new().await;
    world.at_present().await;
    let admin = world.admin_token(100).await;
    world.users(2).await;
    let voucher = world.priced_voucher(1).await.id;
    let closed = ClosedPort::take();
    let node = telling(&world, &format!("http://127.0.0.1:{}/", closed.number)).await;
    let api = Api::at(world, node.address);
    let waits = "select count(*) from event_cursors where attempts > 0";
    let waits = async || -> i64 {
        sqlx::query_scalar(waits).fetch_one(api.world.database.pool()).await.unwrap()
    };
    let begun = "select count(*) = 1 from event_cursors";
    eventually("the server knows where the events begin", async || {
        sqlx::query_scalar(begun).fetch_one(api.world.database.pool()).await.unwrap()
    })
    .await;
    let order = api.buy(1, voucher).await.is(201).text_of("order_id").to_owned();
    eventually("the events wait", async || waits().await == 1).await;
    let payment = api.own_payment(1, &order).await;
    api.pay_in_sandbox(&payment).await;
    api.step(&admin, &order, "refund").await.is(202);
    eventually("the money is back", async || api.status(1, &order).await == "refunded").await;
    assert_eq!(waits().await, 1);
    assert!(api.get("/metrics").await.text.contains("seckill_event_oldest_age_seconds"));
    let log = node.stop().await;
    assert!(log.contains("events wait"), "{log}");

    let due = "update event_cursors set next_attempt_at = now()";
    sqlx::query(due).execute(api.world.database.pool()).await.unwrap();
    let node = telling(&api.world, &receiver.url).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|last: &Value| last["type"] != "order.refunded") {
        told.push(receiver.next().await);
    }
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let steps: Vec<_> = kinds.iter().filter(|kind| kind.starts_with("order.")).collect();
    assert_eq!(
        steps,
        [&"order.placed", &"order.paid", &"order.refund_begun", &"order.refunded"],
        "{kinds:?}"
    );
    assert!(kinds.contains(&"voucher.sold_out"), "{kinds:?}");
    eventually("no event waits", async || waits().await == 0).await;
    node.stop().await;
}
