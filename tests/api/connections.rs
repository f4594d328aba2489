//! Connections that are slow, odd, or gone, and the server's end.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use seckill::http::router;
use seckill::http::server::ServerLimits;
use seckill::purchase::Strategy;
use seckill::store::time_limits::ANSWER_WITHIN;
use serde_json::Value;
use sqlx::Connection;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use testkit::raw_http::{HEALTHZ, Raw, purchase_head};
use testkit::shop::api_client::Api;
use testkit::shop::served::Served;
use testkit::shop::world::{World, each_strategy};
use testkit::wait::{PATIENCE, eventually};

async fn lock_exists(world: &World, buyer: i64) -> bool {
    world.locks_held(buyer..=buyer).await == 1
}

#[tokio::test]
async fn a_head_of_a_hundred_kilobytes_is_refused_and_the_server_lives() {
    let api = Api::shared().await;
    let long = "x".repeat(100_000);
    let heads = [
        format!("GET /healthz HTTP/1.1\r\nhost: s\r\nx-long: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: s\r\n\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: s\r\n{}\r\n", "x: y\r\n".repeat(10_000)),
    ];
    for head in heads {
        let mut raw = Raw::connect(api.address).await;
        // The server may hang up before it has all of it.
        let sent = tokio::io::AsyncWriteExt::write_all(&mut raw.0, head.as_bytes());
        let _ = timeout(PATIENCE, sent).await.unwrap();
        let mut told = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut raw.0, &mut told);
        let _ = timeout(PATIENCE, read).await.unwrap();
        let told = String::from_utf8(told).unwrap();
        let refused = told.is_empty() || told.starts_with("HTTP/1.1 4");
        assert!(refused, "{told}");
    }
    api.get("/healthz").await.is(200);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let (api, id) = Api::with_sale(3, 2).await;
    let requests = (1..=3).map(|buyer| purchase_head(&api.world.token(buyer), id, ""));
    let mut raw = Raw::sent(api.address, requests.collect::<String>() + HEALTHZ).await;
    for buyer in ["1", "2"] {
        let answer = raw.answer().await.unwrap();
        assert_eq!((answer.status, &answer.json()["user_id"]), (201, &buyer.into()));
    }
    assert_eq!(raw.answer().await.unwrap().json()["code"], "sold_out");
    assert_eq!(raw.answer().await.unwrap().body, b"ok\n");
}

#[tokio::test]
async fn odd_requests_are_answered_and_the_server_lives() {
    let api = Api::shared().await;
    let absolute = format!("GET http://{}/healthz HTTP/1.1\r\nhost: s\r\n\r\n", api.address);
    let requests = [
        (absolute.as_str(), 200),
        ("GET /healthz HTTP/1.0\r\n\r\n", 200),
        ("\r\n\r\nGET /healthz HTTP/1.1\r\nhost: s\r\n\r\n", 200),
        ("OPTIONS * HTTP/1.1\r\nhost: s\r\n\r\n", 404),
        ("CONNECT example.org:443 HTTP/1.1\r\nhost: s\r\n\r\n", 404),
        ("GET /api/../healthz HTTP/1.1\r\nhost: s\r\n\r\n", 404),
        ("GET /api/vouchers/\u{1f3ab} HTTP/1.1\r\nhost: s\r\n\r\n", 422),
        ("GET /healthz HTTP/3.0\r\n\r\n", 400),
        ("GET /health z HTTP/1.1\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{0}\r\n\r\n", 400),
    ];
    for (request, status) in requests {
        let mut raw = Raw::sent(api.address, request).await;
        let answer = raw.answer().await.unwrap_or_else(|| panic!("no answer to {request:?}"));
        assert_eq!(answer.status, status, "{request:?}: {answer:?}");
    }
    api.get("/healthz").await.is(200);
}

/// The first one's purchase is in the database when all hang up, every other one with a reset in place of a farewell.
#[tokio::test(flavor = "multi_thread")]
async fn buyers_who_hang_up_leave_whole_orders_or_none_and_no_lock() {
    each_strategy(async |world| {
        world.users(60).await;
        let id = world.voucher(40).await.id;
        world.wait_long_for_rows().await;
        let api = Api::of(world).await;
        let row = api.world.hold_the_row().await;
        let begun = Instant::now();
        let mut leaving = Vec::new();
        for buyer in 1..=60 {
            let head = purchase_head(&api.world.token(buyer), id, "");
            let raw = Raw::sent(api.address, head).await;
            if buyer == 1 {
                api.world.until_one_waits().await;
            }
            if buyer % 2 == 0 {
                raw.0.get_ref().set_zero_linger().unwrap();
            }
            leaving.push(raw);
        }
        drop(leaving);
        let is_locked = lock_exists(&api.world, 1).await;
        // A purchase that is not answered in time releases its lock: on a busy machine this look may come too late.
        if begun.elapsed() < ANSWER_WITHIN {
            assert_eq!(is_locked, api.world.settings.strategy != Strategy::GroupCommitUnlocked);
        }
        row.close().await.unwrap();
        // Everybody comes back, so everybody learns what became of them.
        for buyer in 1..=60 {
            let mut first = Value::Null;
            eventually("the buyer is served", async || {
                first = api.buy(buyer, id).await.body["code"].clone();
                first != "order_in_progress" && first != "unavailable"
            })
            .await;
            // Memory may know the order before the purchase that was left has released its lock.
            eventually("the lock is released", async || !lock_exists(&api.world, buyer).await)
                .await;
            assert!(buyer > 1 || first == "already_bought", "what was begun was not ended");
            // Who has an order is told which, and nobody has two.
            let (told, orders) = (api.buy(buyer, id).await, api.get_as(buyer, "/api/orders").await);
            match &orders.body.as_array().unwrap()[..] {
                [] => drop(told.problem(409, "sold_out")),
                [order] => {
                    let told = told.problem(409, "already_bought");
                    assert_eq!(told.body["order_id"], order["order_id"]);
                }
                several => panic!("{several:?}"),
            }
        }
        let audit = api.world.audit().await;
        assert!(audit.holds && audit.orders == 40, "{audit:?}");
    })
    .await;
}

/// Time is tokio's and stands still while anything can happen; when nothing can, it jumps
/// to the next thing that somebody waits for. No database: its pool waits, too.
#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_cut_off() {
    let address = Served::new(Router::new(), ServerLimits::of(1)).address;
    // A connection that says nothing, one in the middle of its head, one kept alive in vain:
    // each has the only place there is, and the next gets it all the same.
    for start in ["", "GET /healthz HTTP/1.1\r\nhost: s\r\nx-slow: ", HEALTHZ] {
        let mut raw = Raw::sent(address, start).await;
        let mut told = String::new();
        raw.0.read_to_string(&mut told).await.unwrap();
        assert!(!told.starts_with("HTTP/1.1 2") && !told.starts_with("HTTP/1.1 5"), "{told}");
    }
}

/// On one thread, so that the server reads nothing between the requests and the end.
#[tokio::test(flavor = "current_thread")]
async fn requests_that_are_in_their_sockets_when_a_server_stops_are_answered() {
    const EACH: usize = 100;
    let app = Router::new().route("/healthz", get(async || "ok"));
    let mut server = Served::new(app, ServerLimits::of(1 + 2 * EACH));
    let address = server.address;
    let mut silent = Raw::connect(address).await;
    assert_eq!(silent.ask(HEALTHZ).await.status, 200);
    let mut clients = Vec::new();
    for _ in 0..EACH {
        let mut idle = Raw::connect(address).await;
        assert_eq!(idle.ask(HEALTHZ).await.status, 200);
        let client = idle.0.into_inner().into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        clients.push(client);
    }
    // These wait to be accepted.
    clients.extend((0..EACH).map(|_| std::net::TcpStream::connect(address).unwrap()));
    for client in &mut clients {
        std::io::Write::write_all(client, HEALTHZ.as_bytes()).unwrap();
    }
    server.stop();
    for (number, client) in clients.into_iter().enumerate() {
        client.set_nonblocking(true).unwrap();
        let mut raw = Raw(tokio::io::BufReader::new(TcpStream::from_std(client).unwrap()));
        let answer = raw.answer().await;
        assert!(answer.is_some_and(|answer| answer.status == 200), "client {number}");
    }
    assert!(silent.answer().await.is_none(), "an idle connection is closed");
    server.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// Two addresses have as many connections as they may, and all there are is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_gets_through_when_all_connections_are_taken() {
    let world = World::new().await;
    let limits = ServerLimits { connections_of_a_peer: 4, reserve: 1, ..ServerLimits::of(8) };
    let address = Served::new(router(world.app().await), limits).address;
    let from = |last| Raw::connect_from(last, address);
    let mut taken = Vec::new();
    for last in [2, 2, 2, 2, 3, 3, 3, 3] {
        let mut raw = from(last).await;
        assert_eq!(raw.ask(HEALTHZ).await.status, 200);
        taken.push(raw);
    }
    // Those two get no more.
    assert!(from(2).await.answer().await.is_none());
    // Of the reserve one is silent: it is closed, and the next probe is answered.
    let _silent = from(4).await;
    for _ in 0..3 {
        let mut probe = from(5).await;
        let answer = probe.ask(HEALTHZ).await;
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains("connection: close"), "{answer:?}");
        assert!(probe.answer().await.is_none());
    }
    // Where there is room a connection is kept as ever.
    drop(taken);
    eventually("a connection is kept", async || {
        let mut raw = from(5).await;
        let kept = !raw.ask(HEALTHZ).await.head.contains("connection: close");
        raw.send(HEALTHZ).await;
        kept && raw.answer().await.is_some()
    })
    .await;
}

/// The server waits for the next connection while all others are taken; they are closed before it comes.
#[tokio::test(flavor = "current_thread")]
async fn a_connection_that_comes_after_the_crowd_is_kept() {
    let limits = ServerLimits { reserve: 1, ..ServerLimits::of(1) };
    let address = Served::new(Router::new(), limits).address;
    let mut crowd = Raw::connect(address).await;
    assert_eq!(crowd.ask(HEALTHZ).await.status, 404);
    crowd.send(HEALTHZ.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n")).await;
    assert_eq!(crowd.answer().await.unwrap().status, 404);
    // On one thread: the server has closed it and taken its permit back.
    assert!(crowd.answer().await.is_none());
    let mut late = Raw::connect(address).await;
    for _ in 0..2 {
        let answer = late.ask(HEALTHZ).await;
        assert!(!answer.head.contains("connection: close"), "{answer:?}");
    }
}

/// A request that is sent while the server closes an idle connection is lost: so a balancer closes first, however
/// crowded the server is. Time is tokio's, as above.
#[tokio::test(start_paused = true)]
async fn a_balancer_keeps_its_idle_connections_and_a_crowd_of_others_does_not() {
    let network: ipnet::IpNet = "127.0.0.2/32".parse().unwrap();
    let idle = Duration::from_secs(600);
    let limits = ServerLimits { exempt: vec![network], idle, ..ServerLimits::of(4) };
    let address = Served::new(Router::new(), limits).address;
    let from = async |last| {
        let mut raw = Raw::connect_from(last, address).await;
        assert_eq!(raw.ask(HEALTHZ).await.status, 404);
        raw
    };
    let (mut first, _second) = (from(3).await, from(3).await);
    let mut balancer = from(2).await;
    let mut crowded = from(3).await;
    // The one that came when three of four were there has ten seconds, the first has the setting, the balancer an hour.
    let is_open = async |raw: &mut Raw, after_s: u64| {
        let silence = timeout(Duration::from_secs(after_s), raw.0.read_u8()).await;
        silence.is_err()
    };
    assert!(is_open(&mut crowded, 9).await && !is_open(&mut crowded, 2).await);
    assert!(is_open(&mut first, 585).await && !is_open(&mut first, 10).await);
    assert!(is_open(&mut balancer, 2_900).await);
    assert_eq!(balancer.ask(HEALTHZ).await.status, 404);
}

/// As the time in the test above. The only connection there may be is that of a client which reads
/// nothing of a large answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_is_given_up() {
    let app = Router::new().route("/large", get(async || vec![b'x'; 64 << 20]));
    let address = Served::new(app, ServerLimits::of(1)).address;
    let deaf = Raw::sent(address, "GET /large HTTP/1.1\r\nhost: s\r\n\r\n").await;
    let mut next = Raw::connect(address).await;
    let asking = next.ask("GET /nothing HTTP/1.1\r\nhost: s\r\n\r\n");
    assert_eq!(timeout(Duration::from_secs(30), asking).await.unwrap().status, 404);
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_buys_beside_a_thousand_slow_readers_and_a_thousand_half_sent_heads() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let (api, id) = Api::with_sale(1, 2).await;
    let largest = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: s\r\n\r\n";
    let half = "POST /api/vouchers/1/orders HTTP/1.1\r\nhost: s\r\nx-slow: ";
    let mut slow = Vec::new();
    for start in [largest, half] {
        for _ in 0..1_000 {
            slow.push(Raw::sent(api.address, start).await);
        }
    }
    api.buy(1, id).await.is(201);
    drop(slow);
}
