//! The commands that serve: `seckill serve` and `seckill demo`.

use std::collections::HashSet;
use std::process::Stdio;

use nix::sys::signal::Signal;
use seckill::store::{Database, DatabaseDurability};
use tokio::process::Command;

use testkit::closed_port::ClosedPort;
use testkit::processes::{Node, place, seckill};
use testkit::program::Program;
use testkit::raw_http::Raw;
use testkit::shop::api_client::{Api, Client};
use testkit::shop::world::World;
use testkit::wait::eventually;

#[tokio::test]
async fn a_served_api_says_where_it_is_and_ends_when_told() {
    let world = World::new().await;
    // Every variable that `--help` names may be set.
    let program = Program::on(&world)
        .with("SECKILL_ADDRESS_RATE", "600/10s")
        .with("SECKILL_ADMIN_PHONES", "")
        .with("SECKILL_ALLOWED_ORIGINS", "")
        .with("SECKILL_BASE_PATH", "/shop")
        .with("SECKILL_BURST", "100")
        .with("SECKILL_BUYER_RATE", "off")
        .with("SECKILL_CONNECTIONS_PER_ADDRESS", "100")
        .with("SECKILL_CURRENCY", "JPY")
        .with("SECKILL_DRAIN_DELAY", "10ms")
        .with("SECKILL_EVENTS_SECRET", "a secret of the receiver")
        .with("SECKILL_EVENTS_URL", "https://events.example/")
        .with("SECKILL_KEEP_ALIVE", "1m")
        .with("SECKILL_KEY_PREFIX", "shop1:")
        .with("SECKILL_LISTEN", "127.0.0.1:0")
        .with("SECKILL_LOGIN_LIMITS", "")
        .with("SECKILL_PAYMENTS", "http")
        .with("SECKILL_PAYMENTS_ASK_WITHIN", "30s")
        .with("SECKILL_PAYMENTS_SCHEMES", "https,weixin")
        .with("SECKILL_PAYMENTS_SECRET", "a secret of the gateway")
        .with("SECKILL_PAYMENTS_SECRET_PREVIOUS", "the secret before this one")
        .with("SECKILL_PAYMENTS_URL", "https://pay.example/messages")
        .with("SECKILL_REQUIRE_DURABLE", "false")
        .with("SECKILL_SECRET_PREVIOUS", "the secret before this one")
        .with("SECKILL_SMS", "http")
        .with("SECKILL_SMS_COUNTRIES", "86,44")
        .with("SECKILL_SMS_SECRET", "a secret of the gateway")
        .with("SECKILL_SMS_TELL", "offered,cancelled")
        .with("SECKILL_SMS_URL", "https://sms.example/send")
        .with("SECKILL_STRATEGY", "locked")
        .with("SECKILL_STREAMS_PER_ADDRESS", "100")
        .with("SECKILL_TRUSTED_PROXIES", "");
    let help = program.says(&["serve", "--help"]).await;
    let named = help.split("[env:").skip(1).map(|from| from.trim().split(['=', ']']).next());
    // Of a Redis with TLS.
    let files = ["SECKILL_REDIS_CA", "SECKILL_REDIS_CERT", "SECKILL_REDIS_KEY"];
    let set: HashSet<_> = program.variables().chain(["SECKILL_DATA_DIR"]).chain(files).collect();
    assert_eq!(named.flatten().collect::<HashSet<_>>(), set, "{help}");
    let server = Node::listening(program.command(&["serve"]).stderr(Stdio::null())).await;
    let api = Api::at(world, server.address);
    api.get("/shop/readyz").await.is(200);
    let board = api.get("/shop/board").await.text;
    assert!(board.contains(r#"data-currency="JPY" data-decimals="0""#), "{board}");
    let taken = program.run(&["serve", "--listen", &server.address.to_string()]).await;
    taken.refused(1, "cannot listen at");
    server.stop().await;
    assert!(!program.file("data").exists());
}

/// Who reaches a server that answers with login codes can log in as anybody: with stores that somebody
/// else looks after, too, no server does.
#[tokio::test]
async fn no_server_that_sells_answers_with_the_code_of_a_login() {
    let world = World::new().await;
    let (place, data) = (place(), "--data-dir");
    let code_of = async |command: &mut Command| {
        let node = Node::start(command).await;
        let answer = Client::at(node.address).ask_code("13800138000").await;
        (node, answer.is(202).body["code"].clone())
    };
    let serve = || {
        let mut command = seckill(&["serve", "--listen", "127.0.0.1:0", "--private-stores", data]);
        command.arg(place.path().join("data"));
        command
    };
    let (mut node, code) = code_of(&mut serve()).await;
    assert!(code.is_null(), "{code}");
    // A listener does not hold up the end of the server.
    let listening = reqwest::get(format!("http://{}/api/events", node.address)).await;
    let mut listening = listening.unwrap();
    assert!(listening.chunk().await.unwrap().is_some());
    node.send(Signal::SIGTERM);
    while listening.chunk().await.unwrap().is_some() {}
    assert!(node.ended().await.success());
    let redis = ("REDIS_URL", world.redis_url.as_str());
    let database = [
        ("DATABASE_URL", world.database_url.as_str()),
        ("SECKILL_SECRET", world.secret.as_str()),
        ("SECKILL_SMS", "log"),
    ];
    for named in [&[redis][..], &database, &[&database[..], &[redis]].concat()] {
        let (mut node, code) = code_of(serve().envs(named.iter().copied())).await;
        assert!(code.is_null(), "{named:?}");
        node.send(Signal::SIGTERM);
        assert!(node.ended().await.success());
    }
}

/// The servers of the tests run without `fsync`.
#[tokio::test]
async fn a_database_that_can_lose_orders_is_refused_when_that_is_asked_for() {
    let world = World::new().await;
    let program = Program::on(&world).with("SECKILL_REQUIRE_DURABLE", "true");
    let refused = program.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    // A server's log comes before.
    let last = refused.stderr.lines().last().unwrap();
    assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(
        last.starts_with("seckill: the database runs with fsync or full_page_writes off"),
        "{last}"
    );
    // On every later connection, too.
    let database = Database::new(&world.database_url).unwrap();
    database.watch_durability(true);
    assert!(database.run(async |_| Ok(())).await.is_err_and(|error| error.retry_may_help()));
    assert_eq!(database.durability(), DatabaseDurability::Unsafe);
}

/// Redis is away from the start, and 30 buyers ask: the log says so once.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_is_one_warning() {
    let world = World::new().await;
    world.at_present().await;
    world.users(30).await;
    let voucher = world.voucher(5).await.id;
    let closed = ClosedPort::take();
    let redis = format!("redis://127.0.0.1:{}", closed.number);
    let program = Program::on(&world).with("REDIS_URL", &redis).with("SECKILL_SMS", "log");
    let server = Node::serve(&program, &[]).await;
    let api = Api::at(world, server.address);
    let buying = (1..=30).map(|buyer| api.buy(buyer, voucher));
    for answer in futures_util::future::join_all(buying).await {
        answer.problem(503, "unavailable");
    }
    let log = server.stop().await;
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    let of_redis = warnings.iter().filter(|line| line.contains("Redis does not answer")).count();
    assert_eq!(of_redis, 1, "{log}");
    assert!(!warnings.iter().any(|line| line.contains("answered 503")), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_json_names_the_request_that_failed() {
    let world = World::new().await;
    world.at_present().await;
    let program = Program::on(&world)
        // Some clusters set it for all programs. This build has no traces.
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .with("SECKILL_LOG", "json")
        .with("SECKILL_SMS", "http")
        .with("SECKILL_SMS_SECRET", "a secret of the gateway")
        // Nobody listens there.
        .with("SECKILL_SMS_URL", "http://127.0.0.1:9/send");
    let server = Node::serve(&program, &[]).await;
    let api = Client::at(server.address);
    let asked = api.request("POST", "/api/login-codes").header("x-request-id", "of-the-balancer");
    api.send(asked.json(&serde_json::json!({ "phone": "13800138000" }))).await.is(503);
    let log = server.stop().await;
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let failed = lines.iter().find(|line| line["level"] == "ERROR").expect(&log);
    assert_eq!(
        (&failed["request_id"], &failed["code"]),
        (&"of-the-balancer".into(), &"unavailable".into())
    );
    assert!(failed["error"].as_str().unwrap().contains("SMS gateway"), "{failed}");
    assert!(failed["timestamp"].is_string());
    let warned = lines.iter().find(|line| line["level"] == "WARN").expect(&log);
    assert!(warned["message"].as_str().unwrap().contains("built without traces"), "{warned}");
}

/// What its surroundings do, and it cannot follow, it says once: else all customers of a balancer share one limit, and nobody
/// knows why.
#[tokio::test]
async fn surroundings_that_it_cannot_follow_are_said_once_in_the_log() {
    let program = Program::on(&World::new().await)
        .with("SECKILL_TRUSTED_PROXIES", "127.0.0.1")
        .with("SECKILL_SMS", "http")
        .with("SECKILL_SMS_URL", "http://127.0.0.1:1/")
        .with("SECKILL_SMS_SECRET", "a secret of the gateway")
        .with("HTTPS_PROXY", "http://proxy.example:3128");
    let server = Node::serve(&program, &[]).await;
    let api = Client::at(server.address);
    for hops in ["192.0.2.1:80", "[2001:db8::1]:80", "unknown", "192.0.2.1, _hidden"] {
        api.send(api.request("GET", "/api/events").header("x-forwarded-for", hops)).await.is(200);
    }
    let log = server.stop().await;
    for words in [
        "hop=\"unknown\"",
        "X-Forwarded-For from a trusted proxy is no address",
        "HTTPS_PROXY is set and not used",
    ] {
        let count = log.lines().filter(|line| line.contains(words)).count();
        assert_eq!(count, 1, "{words}: {log}");
    }
}

/// With its defaults every client of a proxy on the same machine is one address. A proxy that speaks HTTP/2 gets no answer.
#[tokio::test]
async fn a_proxy_that_is_not_trusted_or_speaks_another_protocol_is_said_once() {
    let server = Node::serve(&Program::on(&World::new().await), &[]).await;
    let api = Client::at(server.address);
    for (name, hops) in [
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-for", "192.0.2.2"),
        ("forwarded", "for=192.0.2.3"),
    ] {
        api.send(api.request("GET", "/api/vouchers").header(name, hops)).await.is(200);
    }
    eventually("they are counted", async || {
        let metrics = api.get("/metrics").await.text;
        metrics.contains("\nseckill_untrusted_forwarded_total 3\n")
    })
    .await;
    for _ in 0..2 {
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let answer = Raw::sent(server.address, preface).await.answer().await;
        assert!(answer.is_none(), "{answer:?}");
    }
    let log = server.stop().await;
    for words in [
        "X-Forwarded-For comes from an address that is not in SECKILL_TRUSTED_PROXIES",
        "let the proxy speak HTTP/1.1",
    ] {
        let count = log.lines().filter(|line| line.contains(words)).count();
        assert_eq!(count, 1, "{words}: {log}");
    }
}

#[tokio::test]
async fn a_server_for_development_that_strangers_reach_says_so_where_errors_alone_are_logged() {
    let place = place();
    for (listen, is_said) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        // Its log has errors alone.
        let mut command = seckill(&["serve", "--listen", listen, "--data-dir"]);
        command.arg(place.path().join("data")).stderr(Stdio::piped());
        let log = Node::start(&mut command).await.stop().await;
        let words = "for development, and listens";
        assert_eq!(log.contains(words), is_said, "{listen}: {log}");
    }
}

/// The check of the image asks where the server listens, whatever `SECKILL_LISTEN` and `SECKILL_BASE_PATH` say. The server
/// has not reached its database yet.
#[tokio::test]
async fn the_health_check_of_the_image_follows_the_address_and_the_path() {
    let dockerfile = include_str!("../../Dockerfile").replace("\\\n", "");
    let check = dockerfile.lines().find(|line| line.starts_with("HEALTHCHECK")).unwrap();
    let check: Vec<String> = serde_json::from_str(check.split_once("CMD ").unwrap().1).unwrap();
    let is_healthy = async |listen: &str, base: &str| {
        let mut command = Command::new(&check[0]);
        command.args(&check[1..]).env("SECKILL_LISTEN", listen).env("SECKILL_BASE_PATH", base);
        command.output().await.unwrap().status.success()
    };
    let closed = ClosedPort::take();
    let away = format!("postgres://postgres@127.0.0.1:{}/seckill", closed.number);
    for (base, beside) in [("", "/shop"), ("/shop", "")] {
        let program = Program::on(&World::new().await).with("DATABASE_URL", &away);
        let server = Node::serve(&program.with("SECKILL_BASE_PATH", base), &[]).await;
        let port = server.address.port();
        for host in ["127.0.0.1", "0.0.0.0", "[::]"] {
            assert!(is_healthy(&format!("{host}:{port}"), base).await, "{host}");
        }
        assert!(!is_healthy(&format!("127.0.0.1:{port}"), beside).await, "{base}");
        assert!(!is_healthy(&format!("0.0.0.0:{}", closed.number), base).await);
        assert!(!is_healthy(&format!("127.0.0.2:{port}"), base).await);
        server.stop().await;
    }
    assert!(dockerfile.contains("\nENV SECKILL_LISTEN=0.0.0.0:8080\n"));
    assert!(dockerfile.ends_with("\nCMD [\"serve\"]\n"), "a flag would win over the variable");
}
