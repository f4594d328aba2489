//! `seckill lab serve`, the binary, as k6, wrk and curl meet it.

use std::process::{ExitStatus, Stdio};

use nix::sys::signal::Signal;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};

use testkit::processes::{DEADLINE, descendants_of, is_alive, living_in, place, seckill};
use testkit::shop::held_rows::waiting;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// A running `lab serve`.
pub(crate) struct Serving {
    pub(crate) base: String,
    /// All it said before anybody came.
    said: String,
    child: Child,
    /// Its end is the program's, too, so that it does not outlive a test that was killed.
    _stdin: ChildStdin,
    client: Client,
}

impl Serving {
    async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reading = async {
            let mut said = String::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                said += &format!("{line}\n");
                if line.starts_with("Ctrl-C stops") {
                    return said;
                }
            }
            panic!("it ended after {said:?}");
        };
        let said = tokio::time::timeout(DEADLINE, reading).await.unwrap();
        let first = said.lines().next().unwrap();
        let base = first.strip_prefix("listening on ").expect("the line is fixed").to_owned();
        let stdin = child.stdin.take().unwrap();
        Self { base, said, child, _stdin: stdin, client: Client::new() }
    }

    pub(crate) async fn on(world: &World) -> Self {
        let mut command = serve();
        command.env("DATABASE_URL", &world.database_url).env("REDIS_URL", &world.redis_url);
        Self::start(command).await
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.client.post(format!("{}{path}", self.base)).body(body).send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.client.get(format!("{}{path}", self.base)).send().await.unwrap()).await
    }

    async fn voucher(&self, rung: &str, stock: i64) -> String {
        let body = json!({ "stock": stock }).to_string();
        let (status, new) = read(self.post(&format!("/lab/{rung}/vouchers"), body).await).await;
        assert_eq!(status, 201, "{new}");
        assert_eq!((&new["initial_stock"], &new["stock"]), (&stock.into(), &stock.into()));
        new["voucher_id"].as_str().unwrap().to_owned()
    }

    async fn buy(&self, rung: &str, voucher: &str, user: Option<i64>) -> (u16, Value) {
        let path = format!("{}/lab/{rung}/vouchers/{voucher}/orders", self.base);
        let request = self.client.post(path);
        let request = match user {
            Some(user) => request.bearer_auth(user),
            None => request,
        };
        read(request.send().await.unwrap()).await
    }

    /// What a user hears of a purchase.
    async fn ask(&self, rung: &str, voucher: &str, user: i64) -> (u16, Value) {
        let path = format!("{}/lab/{rung}/vouchers/{voucher}/orders", self.base);
        read(self.client.get(path).bearer_auth(user).send().await.unwrap()).await
    }

    /// The same, when it is decided.
    async fn decided(&self, rung: &str, voucher: &str, user: i64) -> (u16, Value) {
        let decided = async {
            loop {
                match self.ask(rung, voucher, user).await {
                    (202, _) => tokio::task::yield_now().await,
                    decided => return decided,
                }
            }
        };
        tokio::time::timeout(DEADLINE, decided).await.unwrap()
    }

    /// `count` strangers at once; how many of them were sold one.
    async fn crowd(&self, rung: &str, voucher: &str, count: usize) -> usize {
        let strangers = (0..count).map(|_| self.buy(rung, voucher, None));
        let told = futures_util::future::join_all(strangers).await;
        for (status, answer) in &told {
            let sold_out = *status == 409 && answer["code"] == "sold_out";
            assert!(*status == 201 || sold_out, "{status} {answer}");
        }
        told.iter().filter(|(status, _)| *status == 201).count()
    }

    async fn books(&self, rung: &str, voucher: &str) -> Value {
        let (status, books) = self.get(&format!("/lab/{rung}/vouchers/{voucher}")).await;
        assert_eq!(status, 200, "{books}");
        books
    }

    /// The URL of a scratch database, as the program says it.
    fn database(&self, which: &str) -> &str {
        let of = |line: &&str| line.contains("DATABASE_URL='") && line.contains(which);
        let line = self.said.lines().find(of).expect("it says where its databases are");
        line.split('\'').nth(1).unwrap()
    }

    async fn ends_on(&mut self, signal: Signal) -> ExitStatus {
        testkit::processes::send(self.child.id().unwrap(), signal);
        tokio::time::timeout(DEADLINE, self.child.wait()).await.expect("it ends").unwrap()
    }
}

fn serve() -> Command {
    seckill(&["lab", "serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"])
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let expected = if status < 400 { "application/json" } else { "application/problem+json" };
    assert_eq!(kind, expected, "{status}");
    assert_eq!(response.headers().contains_key("retry-after"), status == 503);
    let body: Value = response.json().await.unwrap();
    if status >= 400 {
        assert_eq!(body["status"], status, "{body}");
        assert!(body["title"].is_string() && body["code"].is_string(), "{body}");
    }
    (status, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_who_is_accepted_asks_again_and_hears_of_the_order() {
    let world = World::new().await;
    let serving = Serving::on(&world).await;
    let rung = "r22_stream_done_right";
    let voucher = serving.voucher(rung, 3).await;
    let (status, accepted) = serving.buy(rung, &voucher, Some(7)).await;
    assert_eq!((status, accepted.get("order_id")), (202, None), "{accepted}");
    let (status, order) = serving.decided(rung, &voucher, 7).await;
    assert!(status == 200 && order["order_id"].is_string(), "{status} {order}");
    assert_eq!(serving.books(rung, &voucher).await["orders"], 1);
    let (status, unknown) = serving.ask(rung, &voucher, 8).await;
    assert_eq!((status, &unknown["code"]), (404, &"no_purchase".into()), "{unknown}");
    assert_eq!(serving.buy(rung, &voucher, Some(7)).await.1["code"], "already_bought");

    // Redis has two left, and the database none: a buyer that was refused is not told of an order.
    let mut database = PgConnection::connect(serving.database("_guarded")).await.unwrap();
    sqlx::query("update seckill_vouchers set stock = 0 where voucher_id = $1")
        .bind(voucher.parse::<i64>().unwrap())
        .execute(&mut database)
        .await
        .unwrap();
    assert_eq!(serving.buy(rung, &voucher, Some(9)).await.0, 202);
    let (status, refused) = serving.decided(rung, &voucher, 9).await;
    assert_eq!((status, &refused["code"]), (409, &"sold_out".into()), "{refused}");
    let (status, again) = serving.buy(rung, &voucher, Some(9)).await;
    assert_eq!((status, &again["code"]), (409, &"sold_out".into()), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_requests_oversell_the_naive_rung_and_not_the_guarded_one() {
    let world = World::new().await;
    let serving = Serving::on(&world).await;
    let mut tries = 0;
    // It takes two who read the last voucher together: likely every time, certain never.
    loop {
        tries += 1;
        let voucher = serving.voucher("r01", 10).await;
        let sold = serving.crowd("r01", &voucher, 60).await as i64;
        let books = serving.books("r01", &voucher).await;
        assert_eq!((&books["orders"], &books["initial_stock"]), (&sold.into(), &10.into()));
        assert_eq!(books["oversold"], (sold - 10).max(0), "{books}");
        if sold > 10 {
            assert_eq!(books["holds"], false, "{books}");
            assert!(books["violations"][0].as_str().unwrap().contains("no_oversell"), "{books}");
            break;
        }
        assert!(tries < 50, "it never oversold");
    }
    for _ in 0..tries {
        let voucher = serving.voucher("r04", 10).await;
        assert_eq!(serving.crowd("r04", &voucher, 60).await, 10);
        let books = serving.books("r04", &voucher).await;
        assert_eq!((&books["orders"], &books["stock"]), (&10.into(), &0.into()), "{books}");
        assert_eq!((&books["holds"], &books["distinct_users"]), (&true.into(), &10.into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_is_who_the_token_says() {
    let world = World::new().await;
    let serving = Serving::on(&world).await;
    let voucher = serving.voucher("r18a_constraints", 2).await;
    let (status, ordered) = serving.buy("r18a", &voucher, Some(7)).await;
    assert_eq!(status, 201, "{ordered}");
    assert_eq!((&ordered["user_id"], &ordered["voucher_id"]), (&"7".into(), &json!(voucher)));
    assert!(ordered["order_id"].as_str().unwrap().parse::<i64>().unwrap() > 0);
    // It was answered at once, and can be asked for all the same.
    assert_eq!(serving.ask("r18a", &voucher, 7).await, (200, ordered));
    let (status, unknown) = serving.ask("r18a", &voucher, 8).await;
    assert_eq!((status, &unknown["code"]), (404, &"no_purchase".into()), "{unknown}");
    let (status, refused) = serving.buy("r18a", &voucher, Some(7)).await;
    assert_eq!((status, &refused["code"]), (409, &"already_bought".into()));
    assert_eq!(serving.buy("r18a", &voucher, None).await.0, 201);
    let (status, refused) = serving.buy("r18a", &voucher, None).await;
    assert_eq!((status, &refused["code"]), (409, &"sold_out".into()));
    // The naive rung does not ask who it is.
    let voucher = serving.voucher("r01", 5).await;
    for _ in 0..2 {
        assert_eq!(serving.buy("r01", &voucher, Some(7)).await.0, 201);
    }
    assert_eq!(serving.books("r01", &voucher).await["duplicates"], 1);
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
    let world = World::new().await;
    let serving = Serving::on(&world).await;
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
    let world = World::new().await;
    let serving = Serving::on(&world).await;
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
        let (got, problem) = read(serving.post(path, "").await).await;
        assert_eq!((got, &problem["code"]), (status, &code.into()), "{path}: {problem}");
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
        let (got, problem) = read(serving.post("/lab/r04/vouchers", body).await).await;
        assert_eq!((got, &problem["code"]), (422, &"invalid_request".into()), "{body}: {problem}");
    }
    for body in ["", " \n", "{}", "{\"stock\":null}"] {
        let (got, new) = read(serving.post("/lab/r04/vouchers", body).await).await;
        assert_eq!((got, &new["stock"]), (201, &100.into()), "{body}");
    }
    for token in ["x", "0", "-1", "", "9223372036854775808"] {
        let request = serving.client.post(format!("{}{orders}", serving.base)).bearer_auth(token);
        let (got, problem) = read(request.send().await.unwrap()).await;
        assert_eq!((got, &problem["code"]), (422, &"invalid_request".into()), "{token}");
    }
    assert_eq!(serving.books("r04", &own).await["orders"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_are_refused_announced_or_not() {
    let world = World::new().await;
    let serving = Serving::on(&world).await;
    let voucher = serving.voucher("r04", 1).await;
    for path in ["/lab/r04/vouchers".to_owned(), format!("/lab/r04/vouchers/{voucher}/orders")] {
        let large = vec![b' '; 10 * 1024 * 1024];
        let (status, problem) = read(serving.post(&path, large.clone()).await).await;
        assert_eq!((status, &problem["code"]), (413, &"invalid_request".into()), "{problem}");
        let mut stream = TcpStream::connect(&serving.base["http://".len()..]).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(format!("{:x}\r\n", large.len()).as_bytes()).await.unwrap();
        stream.write_all(&large).await.unwrap();
        stream.write_all(b"\r\n0\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    assert_eq!(serving.books("r04", &voucher).await["orders"], 0);
}

/// Sends a purchase, and returns when it waits for the row that `held` has locked.
async fn half_way(serving: &Serving, voucher: &str, held: &mut PgConnection) -> TcpStream {
    sqlx::query("select 1 from seckill_vouchers where voucher_id = $1 for update")
        .bind(voucher.parse::<i64>().unwrap())
        .execute(&mut *held)
        .await
        .unwrap();
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
    let world = World::new().await;
    let mut serving = Serving::on(&world).await;
    let voucher = serving.voucher("r02", 3).await;
    let mut database = PgConnection::connect(serving.database("_bare")).await.unwrap();
    let mut held = database.begin().await.unwrap();
    drop(half_way(&serving, &voucher, &mut held).await);
    held.commit().await.unwrap();
    eventually("it has been sold", async || serving.books("r02", &voucher).await["orders"] == 1)
        .await;

    let mut held = database.begin().await.unwrap();
    let mut stream = half_way(&serving, &voucher, &mut held).await;
    testkit::processes::send(serving.child.id().unwrap(), Signal::SIGTERM);
    eventually("nobody else is let in", async || {
        TcpStream::connect(&serving.base["http://".len()..]).await.is_err()
    })
    .await;
    held.commit().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let ended = tokio::time::timeout(DEADLINE, serving.child.wait()).await.expect("it ends");
    assert!(ended.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_cleanly_and_drops_its_databases() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let world = World::new().await;
        let mut serving = Serving::on(&world).await;
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
        let voucher = serving.voucher("r01", 3).await;
        assert_eq!(serving.buy("r01", &voucher, None).await.0, 201);
        let started = descendants_of(serving.child.id().unwrap());
        assert!(started.len() >= 3, "{started:?}");
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
