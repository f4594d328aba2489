//! `seckill lab serve`, the binary, as k6, wrk and curl meet it.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serving::{Serving, read, serve};
use testkit::processes::{descendants_of, is_alive, living_in, place, seckill, send};
use testkit::raw_http::Raw;
use testkit::shop::held_rows::waiting;
use testkit::wait::{eventually, must};

#[track_caller]
fn assert_refused((status, problem): (u16, Value), expected: u16, code: &str) {
    assert_eq!((status, &problem["code"]), (expected, &code.into()), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_is_accepted_asks_again_and_is_told_of_the_order() {
    let serving = Serving::begin().await;
    let rung = "r22_stream_done_right";
    let voucher = serving.voucher(rung, 3).await;
    let (status, accepted) = serving.buy(rung, &voucher, Some(7)).await;
    assert_eq!((status, accepted.get("order_id")), (202, None), "{accepted}");
    let (status, order) = serving.decided(rung, &voucher, 7).await;
    assert!(status == 200 && order["order_id"].is_string(), "{status} {order}");
    assert_eq!(serving.books(rung, &voucher).await["orders"], 1);
    assert_refused(serving.ask(rung, &voucher, 8).await, 404, "no_purchase");
    assert_eq!(serving.buy(rung, &voucher, Some(7)).await.1["code"], "already_bought");

    // Redis has two left, and the database none: a buyer that was refused is not told of an order.
    let mut database = PgConnection::connect(serving.database("_guarded")).await.unwrap();
    let empty = format!("update seckill_vouchers set stock = 0 where voucher_id = {voucher}");
    database.execute(sqlx::AssertSqlSafe(empty)).await.unwrap();
    assert_eq!(serving.buy(rung, &voucher, Some(9)).await.0, 202);
    assert_refused(serving.decided(rung, &voucher, 9).await, 409, "sold_out");
    assert_refused(serving.buy(rung, &voucher, Some(9)).await, 409, "sold_out");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_is_who_the_token_says() {
    let serving = Serving::begin().await;
    let voucher = serving.voucher("r18a_constraints", 2).await;
    let (status, ordered) = serving.buy("r18a", &voucher, Some(7)).await;
    assert_eq!(status, 201, "{ordered}");
    assert_eq!((&ordered["user_id"], &ordered["voucher_id"]), (&"7".into(), &json!(voucher)));
    assert!(ordered["order_id"].as_str().unwrap().parse::<i64>().unwrap() > 0);
    // It was answered at once, and can be asked for all the same.
    assert_eq!(serving.ask("r18a", &voucher, 7).await, (200, ordered));
    assert_refused(serving.ask("r18a", &voucher, 8).await, 404, "no_purchase");
    assert_refused(serving.buy("r18a", &voucher, Some(7)).await, 409, "already_bought");
    assert_eq!(serving.buy("r18a", &voucher, None).await.0, 201);
    assert_refused(serving.buy("r18a", &voucher, None).await, 409, "sold_out");
    let figures = ["initial_stock", "stock", "orders", "distinct_users", "oversold", "duplicates"];
    let books = serving.books("r18a", &voucher).await;
    assert_eq!(json!(figures.map(|figure| &books[figure])), json!([2, 0, 2, 2, 0, 0]));
    assert_eq!(books["holds"], true, "{books}");
    // The naive rung does not ask who it is. Its books say what that broke, and what a crowd would have broken.
    let voucher = serving.voucher("r01", 5).await;
    for _ in 0..2 {
        assert_eq!(serving.buy("r01", &voucher, Some(7)).await.0, 201);
    }
    let one = format!("update seckill_vouchers set initial_stock = 1 where voucher_id = {voucher}");
    let mut database = PgConnection::connect(serving.database("_bare")).await.unwrap();
    database.execute(sqlx::AssertSqlSafe(one)).await.unwrap();
    let books = serving.books("r01", &voucher).await;
    assert_eq!(json!(figures.map(|figure| &books[figure])), json!([1, 3, 2, 1, 1, 1]));
    assert_eq!(books["holds"], false, "{books}");
    assert!(books["violations"].to_string().contains("no_oversell"), "{books}");
    // The audit of the program finds the buyers, and the same.
    for (which, holds) in [("_guarded", true), ("_bare", false)] {
        let url = serving.database(which).to_owned();
        eventually("the buyers are in the books", async || {
            let mut command = seckill(&["audit", "--json", "-"]);
            let output = command.env("DATABASE_URL", &url).output().await.unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["holds"] == holds && !report.to_string().contains("orphans")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_names_every_rung_with_a_command_that_buys() {
    let serving = Serving::begin().await;
    for path in ["/", "/lab"] {
        let (status, list) = serving.get(path).await;
        assert_eq!(status, 200);
        let rungs = list["rungs"].as_array().unwrap();
        assert_eq!(rungs.len(), ladder::RUNGS.len());
        for (rung, known) in rungs.iter().zip(ladder::RUNGS) {
            assert_eq!(rung["rung"], known.id);
            assert!(!rung["idea"].as_str().unwrap().is_empty(), "{rung}");
            let curl = rung["buy"].as_str().unwrap();
            let voucher = rung["voucher_id"].as_str().unwrap();
            let path = format!("{}/lab/{}/vouchers/{voucher}/orders", serving.base, known.id);
            assert_eq!(curl, format!("curl -X POST {path}"));
            assert!(serving.said.contains(curl), "{}", serving.said);
        }
        let voucher = rungs[0]["voucher_id"].as_str().unwrap();
        assert_eq!(serving.books(ladder::RUNGS[0].id, voucher).await["stock"], 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let serving = Serving::begin().await;
    let own = serving.voucher("r04", 1).await;
    let of_another = format!("/lab/r05a/vouchers/{own}/orders");
    let orders = format!("/lab/r04/vouchers/{own}/orders");
    for (path, status, code) in [
        ("/lab/r99/vouchers/1/orders", 404, "rung_not_found"),
        ("/lab/r0/vouchers/1/orders", 404, "rung_not_found"),
        ("/lab/%00/vouchers/1/orders", 404, "rung_not_found"),
        ("/lab/%ff/vouchers/1/orders", 422, "invalid_request"),
        ("/lab/r04/vouchers/0/orders", 422, "invalid_request"),
        ("/lab/r04/vouchers/-1/orders", 422, "invalid_request"),
        ("/lab/r04/vouchers/x/orders", 422, "invalid_request"),
        ("/lab/r04/vouchers/99999999999999999999/orders", 422, "invalid_request"),
        ("/lab/r04/vouchers/9223372036854775807/orders", 404, "voucher_not_found"),
        (&of_another, 404, "voucher_not_found"),
        ("/lab/r99/vouchers", 404, "rung_not_found"),
        ("/lab/r04", 404, "not_found"),
        ("/api/vouchers/1/orders", 404, "not_found"),
        ("/lab/r04/vouchers/1", 405, "method_not_allowed"),
    ] {
        assert_refused(read(serving.post(path, "").await).await, status, code);
    }
    for body in [
        "{",
        "[1]",
        "7",
        "{\"stock\":-1}",
        "{\"stock\":1000001}",
        "{\"stock\":1.5}",
        "{\"stock\":\"1\"}",
        "{\"stok\":1}",
        "\u{0}",
    ] {
        let refused = read(serving.post("/lab/r04/vouchers", body).await).await;
        assert_refused(refused, 422, "invalid_request");
    }
    let large = vec![b' '; 10 * 1024 * 1024];
    for path in ["/lab/r04/vouchers", &orders] {
        let refused = read(serving.post(path, large.clone()).await).await;
        assert_refused(refused, 413, "invalid_request");
        // Of a length that is not announced.
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        let address = serving.base["http://".len()..].parse().unwrap();
        let mut raw = Raw::sent(address, format!("{head}{:x}\r\n", large.len())).await;
        raw.send(&large).await;
        assert_eq!(raw.ask("\r\n0\r\n\r\n").await.status, 413, "{path}");
    }
    for body in ["", " \n", "{}", "{\"stock\":null}"] {
        let (got, new) = read(serving.post("/lab/r04/vouchers", body).await).await;
        assert_eq!((got, &new["stock"]), (201, &100.into()), "{body}");
    }
    for token in ["x", "0", "-1", "", "9223372036854775808"] {
        let request = serving.client.post(format!("{}{orders}", serving.base)).bearer_auth(token);
        assert_refused(read(request.send().await.unwrap()).await, 422, "invalid_request");
    }
    assert_eq!(serving.books("r04", &own).await["orders"], 0);
}

/// Sends a purchase, and returns when it waits for the row that `held` has locked.
async fn half_way(serving: &Serving, voucher: &str, held: &mut PgConnection) -> TcpStream {
    let hold = format!("select 1 from seckill_vouchers where voucher_id = {voucher} for update");
    held.execute(sqlx::AssertSqlSafe(hold)).await.unwrap();
    let mut stream = TcpStream::connect(&serving.base["http://".len()..]).await.unwrap();
    let head = "HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    let request = format!("POST /lab/r02/vouchers/{voucher}/orders {head}");
    stream.write_all(request.as_bytes()).await.unwrap();
    // On a connection of its own: within a transaction PostgreSQL tells the same again and again.
    let looks = PgPool::connect(serving.database("_bare")).await.unwrap();
    eventually("the purchase is half-way", async || waiting(&looks).await == 1).await;
    looks.close().await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_goes_on_when_its_buyer_leaves_and_when_the_program_is_told_to_end() {
    let mut serving = Serving::begin().await;
    let voucher = serving.voucher("r02", 3).await;
    let mut database = PgConnection::connect(serving.database("_bare")).await.unwrap();
    let mut held = database.begin().await.unwrap();
    drop(half_way(&serving, &voucher, &mut held).await);
    held.commit().await.unwrap();
    eventually("it has been sold", async || serving.books("r02", &voucher).await["orders"] == 1)
        .await;

    let mut held = database.begin().await.unwrap();
    let mut stream = half_way(&serving, &voucher, &mut held).await;
    send(serving.child.id().unwrap(), Signal::SIGTERM);
    eventually("nobody else is let in", async || {
        TcpStream::connect(&serving.base["http://".len()..]).await.is_err()
    })
    .await;
    held.commit().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(must("it ends", serving.child.wait()).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_cleanly_and_drops_its_databases() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut serving = Serving::begin().await;
        let world = serving.world.take().unwrap();
        let voucher = serving.voucher("r12", 3).await;
        assert_eq!(serving.buy("r12", &voucher, None).await.0, 201);
        let names = ["_bare", "_guarded"].map(|which| {
            let url: url::Url = serving.database(which).parse().unwrap();
            url.path().trim_start_matches('/').to_owned()
        });
        let there = async || -> i64 {
            sqlx::query_scalar("select count(*) from pg_database where datname = any($1)")
                .bind(&names[..])
                .fetch_one(world.database.pool())
                .await
                .unwrap()
        };
        assert_eq!(there().await, 2);
        let ended = serving.ends_on(signal).await;
        assert!(ended.success(), "{signal}: {ended}");
        assert_eq!(there().await, 0, "{signal}");
        let run = names[0].trim_end_matches("_bare");
        let mut keys = redis::cmd("KEYS");
        let keys: Vec<String> = world.redis.query(keys.arg(format!("*{run}*"))).await.unwrap();
        assert!(keys.is_empty(), "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_servers_of_its_own_it_leaves_no_process_and_no_directory() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let place = place();
        let mut command = serve();
        command.env("TMPDIR", place.path());
        let mut serving = Serving::start(command).await;
        // It has three lock servers of its own.
        let voucher = serving.voucher("r15_redlock", 3).await;
        assert_eq!(serving.buy("r15_redlock", &voucher, None).await.0, 201);
        let started = descendants_of(serving.child.id().unwrap());
        assert!(started.len() >= 6, "{started:?}");
        let ended = serving.ends_on(signal).await;
        assert_eq!(ended.success(), signal != Signal::SIGKILL, "{signal}: {ended}");
        eventually("all that it started is gone", async || {
            started.iter().all(|pid| !is_alive(*pid)) && living_in(place.path()).is_empty()
        })
        .await;
        eventually("no directory is left", async || {
            std::fs::read_dir(place.path()).unwrap().count() == 0
        })
        .await;
    }
}
