//! Server-sent events: what is sent, how much is kept for whom, how a stream ends.

use std::collections::HashSet;

use chrono::TimeDelta;
use futures_util::future::join_all;
use reqwest::Response;
use seckill::http::router;
use seckill::http::server::ServerLimits;
use seckill::model::VoucherId;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use testkit::shop::api_client::{Api, DOCUMENT};
use testkit::shop::served::Served;
use testkit::shop::world::{World, midnight};
use testkit::wait::{eventually, must};

/// A reader of a stream.
struct Listener {
    response: Response,
    unread: String,
    /// When the stream began.
    time: Value,
}

impl Listener {
    async fn new(api: &Api, path: &str) -> Self {
        let response = api.request("GET", path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-store");
        let mut listener = Self { response, unread: String::new(), time: Value::Null };
        // First when to come again, and what time it is.
        let greeting = listener.lines().await.unwrap();
        let (retry, time) = greeting.split_once('\n').unwrap();
        let retry: u32 = retry.strip_prefix("retry: ").unwrap().parse().unwrap();
        assert!((1000..4000).contains(&retry));
        let time = time.strip_prefix("event: time\ndata: ").unwrap();
        listener.time = serde_json::from_str::<Value>(time).unwrap()["now"].clone();
        listener
    }

    /// The next lines up to an empty one; `None`: the stream has ended, properly.
    async fn lines(&mut self) -> Option<String> {
        loop {
            if let Some((lines, rest)) = self.unread.split_once("\n\n") {
                let (lines, rest) = (lines.to_owned(), rest.to_owned());
                self.unread = rest;
                return Some(lines);
            }
            let chunk = must("the stream goes on", self.response.chunk()).await.unwrap()?;
            self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event as its reader has it.
    async fn event(&mut self) -> Value {
        let lines = self.lines().await.expect("the stream has ended");
        let fields = lines.lines().map(|line| line.split_once(": ").unwrap());
        fields.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }

    /// The next voucher.
    async fn voucher(&mut self) -> Value {
        loop {
            let lines = self.lines().await.expect("the stream has ended");
            if let Some(data) = lines.strip_prefix("event: voucher\ndata: ") {
                return serde_json::from_str(data).unwrap();
            }
            assert!(lines.starts_with("event: time\ndata: {"), "{lines}");
        }
    }

    /// Reads until a voucher's `member` is `value`.
    async fn until(&mut self, member: &str, value: impl Into<Value>) -> Value {
        let value = value.into();
        loop {
            let voucher = self.voucher().await;
            if voucher[member] == value {
                return voucher;
            }
        }
    }
}

/// Generated clients, and tools that hold streams against the description, read an event as `{event, data, retry}`.
#[tokio::test]
async fn an_event_is_as_the_description_says() {
    let (api, id) = Api::with_sale(0, 5).await;
    let schemas = &DOCUMENT["components"]["schemas"];
    let has_all = |schema: &Value, value: &Value| {
        let whole = std::slice::from_ref(schema);
        let parts = schema["allOf"].as_array().map_or(whole, Vec::as_slice);
        let required = parts.iter().flat_map(|part| part["required"].as_array().unwrap());
        let is_described = |name| parts.iter().any(|part| part["properties"].get(name).is_some());
        required.into_iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            && value.as_object().unwrap().keys().all(is_described)
    };
    for (path, operation) in [
        ("/api/events".to_owned(), "/api/events"),
        (format!("/api/vouchers/{id}/events"), "/api/vouchers/{id}/events"),
    ] {
        let answers = &DOCUMENT["paths"][operation]["get"]["responses"]["200"]["content"];
        let schema = answers["text/event-stream"]["schema"]["$ref"].as_str().unwrap();
        let schema = DOCUMENT.pointer(schema.strip_prefix('#').unwrap()).unwrap();
        let response = api.request("GET", &path).send().await.unwrap();
        let mut listener = Listener { response, unread: String::new(), time: Value::Null };
        for (name, described) in [("time", "TimeEvent"), ("voucher", "VoucherEvent")] {
            let event = listener.event().await;
            assert!(has_all(schema, &event), "{schema}: {event}");
            assert_eq!(event["event"], name);
            let data = serde_json::from_str(event["data"].as_str().unwrap()).unwrap();
            assert!(has_all(&schemas[described], &data), "{}: {data}", schemas[described]);
        }
        let names = DOCUMENT.pointer("/components/schemas/EventName/enum").unwrap();
        assert_eq!(names, &serde_json::json!(["voucher", "time"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_receives_what_is_and_then_what_changes() {
    let api = Api::with_users(2).await;
    let end = midnight() + TimeDelta::hours(2);
    let begin = midnight() + TimeDelta::hours(1);
    let id = api.world.voucher_between(2, begin, end).await.id;
    let mut streams = Vec::new();
    for path in ["/api/events".to_owned(), format!("/api/vouchers/{id}/events")] {
        streams.push(Listener::new(&api, &path).await);
    }
    for stream in &mut streams {
        assert_eq!(stream.time, "2026-11-11T00:00:00.000000Z");
        let upcoming = stream.voucher().await;
        // The voucher as anybody can read it, and the time.
        let mut read = api.get(&format!("/api/vouchers/{id}")).await.body;
        read["now"] = upcoming["now"].clone();
        assert_eq!(upcoming, read);
        assert_eq!(upcoming["now"], "2026-11-11T00:00:00Z");
        assert_eq!(upcoming["status"], "upcoming");
    }
    api.world.set_time(begin).await;
    for stream in &mut streams {
        assert_eq!(stream.until("status", "on_sale").await["now"], "2026-11-11T01:00:00Z");
    }
    api.buy(1, id).await.is(201);
    for stream in &mut streams {
        stream.until("stock", 1).await;
    }
    api.buy(2, id).await.is(201);
    for stream in &mut streams {
        assert_eq!(stream.until("status", "sold_out").await["stock"], 0);
    }
    // Who watches all of them receives a new voucher, too.
    let new = api.world.voucher(3).await.id.to_string();
    assert_eq!(streams[0].until("id", new).await["stock"], 3);
    api.world.set_time(end).await;
    streams[1].until("status", "ended").await;
    // A listener who comes later receives what time it is, though nothing has changed since.
    api.world.set_time(end + TimeDelta::hours(5)).await;
    eventually("the server knows the time", async || {
        let date = api.get(&format!("/api/vouchers/{id}")).await.headers["date"].clone();
        date == "Wed, 11 Nov 2026 07:00:00 GMT"
    })
    .await;
    let mut late = Listener::new(&api, &format!("/api/vouchers/{id}/events")).await;
    assert_eq!(late.time, "2026-11-11T07:00:00.000000Z");
    assert_eq!(late.voucher().await["now"], "2026-11-11T02:00:00Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voucher_that_does_not_exist_has_no_events() {
    let api = Api::new().await;
    api.get("/api/vouchers/1/events").await.problem(404, "voucher_not_found");
    // A reader of all vouchers waits for the first one.
    let mut all = Listener::new(&api, "/api/events").await;
    let id = api.world.voucher(1).await.id.to_string();
    assert_eq!(all.voucher().await["id"], *id);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_has_its_share_of_the_streams() {
    let world = World::with(|settings| settings.streams_per_address = 2).await;
    let world = World { event_streams: 3, ..world };
    let voucher = format!("/api/vouchers/{}", world.voucher(1).await.id);
    let of_one = format!("{voucher}/events");
    let api = Api::behind_proxy(world).await;
    let asking = |from: &str, path: &str| api.request("GET", path).header("x-forwarded-for", from);
    let watch = async |from: &str, path: &str| {
        let response = asking(from, path).send().await.unwrap();
        (response.status().as_u16(), response)
    };
    let is_refused = async |from: &str| {
        for path in ["/api/events", &of_one] {
            let refused = api.send(asking(from, path)).await;
            assert_eq!(refused.problem(503, "unavailable").header("retry-after"), Some("30"));
        }
    };
    // One /64 is one address.
    let first = watch("2001:db8::1", "/api/events").await;
    let second = watch("2001:db8::2", &of_one).await;
    assert_eq!((first.0, second.0), (200, 200));
    is_refused("2001:db8::3").await;
    let other = watch("192.0.2.1", "/api/events").await;
    assert_eq!(other.0, 200);
    // There are three in all. What is not a stream is answered as ever.
    is_refused("192.0.2.2").await;
    api.get(&voucher).await.is(200);
    drop(first);
    let has_room = async || watch("2001:db8::3", "/api/events").await.0 == 200;
    eventually("the share is given back", has_room).await;
}

/// (That no backlog is kept for a reader who missed much is `event_hub`'s own test.)
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_receives_the_newest_state_and_holds_up_nobody() {
    let api = Api::new().await;
    // 20 vouchers with long names: much that is not read.
    let title = "x".repeat(200);
    for _ in 0..20 {
        api.world.voucher(1_000_000).await;
    }
    let naming = sqlx::query("update vouchers set title = $1").bind(&title);
    naming.execute(api.world.database.pool()).await.unwrap();
    let mut slow = TcpStream::connect(api.address).await.unwrap();
    slow.write_all(b"GET /api/events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut quick = Listener::new(&api, "/api/events").await;
    let sell = "update seckill_vouchers set stock = stock - 1";
    let mut last = 1_000_000;
    for _ in 0..5 {
        sqlx::query(sell).execute(api.world.database.pool()).await.unwrap();
        last -= 1;
        let mut received = HashSet::new();
        while received.len() < 20 {
            let voucher = quick.until("stock", last).await;
            received.insert(voucher["id"].to_string());
        }
    }
    // The slow one reads only now: it receives the last state, too.
    let (mut read, mut buffer) = (String::new(), [0; 4096]);
    let until_last = async {
        while read.matches(&format!("\"stock\":{last},")).count() < 20 {
            let count = slow.read(&mut buffer).await.unwrap();
            read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    must("the slow reader receives the newest state", until_last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_streams_end_when_the_server_stops() {
    let world = World::new().await;
    let id: VoucherId = world.voucher(1).await.id;
    let app = world.app().await;
    let events = app.memory().events.clone();
    let mut server =
        Served::with_farewell(router(app), ServerLimits::of(64), move || events.close());
    let api = Api::at(world, server.address);
    let paths = ["/api/events".to_owned(), format!("/api/vouchers/{id}/events")];
    let mut streams = join_all(paths.iter().map(|path| Listener::new(&api, path))).await;
    for stream in &mut streams {
        stream.voucher().await;
    }
    server.stop();
    for stream in &mut streams {
        assert_eq!(stream.lines().await, None);
    }
    server.ended().await;
}
