//! Programs are told what happened: in its order, at least once, by an id that stays.

use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::TimeDelta;
use futures_util::future::join_all;
use seckill::http::webhook::Webhook;
use seckill::model::Clock;
use seckill::orders::event_sender::{EventReceiver, EventSender};
use seckill::store::event_log::Event;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use testkit::program::Program;
use testkit::shop::till::Till;
use testkit::shop::world::{PRICE, World};
use testkit::wait::{eventually, must};

/// What a receiver was sent, and how often it refuses.
#[derive(Debug, Clone, Default)]
struct Kept {
    sent: Arc<Mutex<Vec<Value>>>,
    refusals: Arc<Mutex<u32>>,
}

#[async_trait]
impl EventReceiver for Kept {
    fn name(&self) -> &'static str {
        "programs"
    }

    async fn take(&self, events: &[Event]) -> Result<(), String> {
        self.sent.lock().unwrap().push(json!(events));
        let mut refusals = self.refusals.lock().unwrap();
        let taken = refusals.checked_sub(1).map_or(Ok(()), |_| Err("it is away".to_owned()));
        *refusals = refusals.saturating_sub(1);
        taken
    }
}

impl Kept {
    fn refuses(&self, count: u32) {
        *self.refusals.lock().unwrap() = count;
    }

    /// The messages since this was asked for the last time.
    fn messages(&self) -> Vec<Value> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// The events of these messages.
    fn events(&self) -> Vec<Value> {
        self.messages().iter().flat_map(|sent| sent.as_array().unwrap().clone()).collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.events().iter().map(kind).collect()
    }

    /// Of this world's events from now on.
    async fn sender(&self, world: &World) -> EventSender {
        until_complete(world).await;
        let sender = EventSender::new(world.database.clone(), Box::new(self.clone()));
        assert_eq!(sender.step().await.unwrap(), 0);
        sender
    }
}

fn kind(event: &Value) -> String {
    event["type"].as_str().unwrap().to_owned()
}

/// Until no event can come before those that there are: transactions of other tests, on the same server, hold them up.
pub async fn until_complete(world: &World) {
    let complete =
        "select complete_events() >= case when is_called then last_value else 0 end from event_seq";
    eventually("all events are complete", async || {
        sqlx::query_scalar(complete).fetch_one(world.database.pool()).await.unwrap()
    })
    .await;
}

/// Until there is nothing to tell, or the receiver refuses.
async fn tell_all(till: &Till, sender: &EventSender) {
    loop {
        until_complete(&till.world).await;
        if sender.step().await.unwrap() == 0 {
            break;
        }
    }
}

/// All events, as an administrator reads them, so many at once.
async fn log(till: &Till, limit: usize) -> Vec<Value> {
    let (mut next, mut all) = (Some(format!("/api/events/log?limit={limit}")), Vec::new());
    while let Some(path) = next {
        let page = till.as_admin("GET", &path).await;
        let events = page.is(200).body.as_array().unwrap();
        assert!(events.len() <= limit);
        all.extend(events.iter().cloned());
        next = page.next_page();
    }
    all
}

async fn change(till: &Till, change: Value) {
    till.administer("PATCH", "", &change).await.is(200);
}

#[tokio::test]
async fn what_happens_to_orders_is_told_in_its_order_and_listed() {
    let till = Till::open(9).await;
    let before = till.buy(5).await;
    let kept = Kept::default();
    let sender = kept.sender(&till.world).await;
    let paid = till.buy(1).await;
    till.pay(1, &paid, "t1").await;
    till.admin_step(&paid, "redemption").await.is(200);
    let cancelled = till.buy(2).await;
    till.own_step(2, &cancelled, "cancellation").await.is(200);
    let refunded = till.buy(3).await;
    till.pay(3, &refunded, "t3").await;
    till.admin_step(&refunded, "refund").await.is(202);
    till.gateway_work().await.step().await.unwrap();
    till.after(TimeDelta::minutes(15)).await;
    assert_eq!(till.expire().await, 1);
    tell_all(&till, &sender).await;
    let told = kept.events();
    let voucher = till.voucher.id;
    let expected = [
        (&paid, 0, "order.placed", "unpaid", "buyer", json!("1")),
        (&paid, 1, "order.paid", "paid", "gateway", Value::Null),
        (&paid, 2, "order.redeemed", "used", "administrator", json!("100")),
        (&cancelled, 0, "order.placed", "unpaid", "buyer", json!("2")),
        (&cancelled, 1, "order.cancelled", "cancelled", "buyer", json!("2")),
        (&refunded, 0, "order.placed", "unpaid", "buyer", json!("3")),
        (&refunded, 1, "order.paid", "paid", "gateway", Value::Null),
        (&refunded, 2, "order.refund_begun", "refunding", "administrator", json!("100")),
        (&refunded, 3, "order.refunded", "refunded", "gateway", Value::Null),
        (&before, 1, "order.expired", "cancelled", "time", Value::Null),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (event, (order, number, kind, status, actor, actor_id)) in told.iter().zip(expected) {
        assert_eq!(event["id"], format!("{voucher}.{order}.{number}"), "{event}");
        let said = (&event["type"], &event["status"], &event["actor"], &event["actor_id"]);
        assert_eq!(said, (&json!(kind), &json!(status), &json!(actor), &actor_id), "{event}");
        assert_eq!((&event["amount"], &event["order_id"]), (&json!(PRICE), &json!(order)));
    }
    assert!(told[0]["details"]["pay_by"].is_string() && told[1]["details"] == json!({}));
    assert!(told.is_sorted_by_key(|event| event["position"].as_i64()), "{told:#?}");

    // The log begins before the receiver did.
    for limit in [1, 3, 100] {
        let all = log(&till, limit).await;
        assert_eq!(all[0]["id"], format!("{voucher}.{before}.0"), "{limit}");
        assert_eq!(all[1..], told, "{limit}");
    }
    let buyer = till.get_as(1, "/api/events/log").await;
    buyer.problem(403, "forbidden");
    tell_all(&till, &sender).await;
    assert_eq!(kept.messages(), [Value::Null; 0]);
}

#[tokio::test]
async fn what_a_receiver_does_not_take_is_sent_again_after_a_pause_and_is_the_same() {
    let till = Till::open(3).await;
    let kept = Kept::default();
    let sender = kept.sender(&till.world).await;
    till.buy(1).await;
    kept.refuses(2);
    let mut sent = Vec::new();
    // The first pause is about a second, the second one about two.
    for (wait_s, is_due) in [(0, true), (0, false), (2, true), (1, false), (3, true), (9, false)] {
        till.after(TimeDelta::seconds(wait_s)).await;
        until_complete(&till.world).await;
        sender.step().await.unwrap();
        let messages = kept.messages();
        assert_eq!(messages.len(), usize::from(is_due), "{sent:?}");
        sent.extend(messages);
        // What comes meanwhile comes after it.
        if is_due && sent.len() == 2 {
            till.buy(2).await;
        }
    }
    let ids = |message: &Value| message.as_array().unwrap()[0]["id"].clone();
    assert_eq!((sent.len(), ids(&sent[0]), &sent[0]), (3, ids(&sent[2]), &sent[1]), "{sent:#?}");
    assert_eq!(sent[2].as_array().unwrap().len(), 2);
    let row = "select last_error is null and attempts = 0 from event_cursors";
    let is_well: bool =
        sqlx::query_scalar(row).fetch_one(till.world.database.pool()).await.unwrap();
    assert!(is_well);
}

/// A receiver that is never done.
#[derive(Debug, Default)]
struct Stuck(Arc<Notify>);

#[async_trait]
impl EventReceiver for Stuck {
    fn name(&self) -> &'static str {
        "programs"
    }

    async fn take(&self, _: &[Event]) -> Result<(), String> {
        self.0.notify_one();
        pending().await
    }
}

#[tokio::test]
async fn a_server_that_dies_while_it_tells_delays_the_events_and_loses_none() {
    let till = Till::open(3).await;
    let kept = Kept::default();
    let other = kept.sender(&till.world).await;
    till.buy(1).await;
    let stuck = Stuck::default();
    let has_them = Arc::clone(&stuck.0);
    until_complete(&till.world).await;
    let dies = EventSender::new(till.world.another_process().database, Box::new(stuck));
    let dying = tokio::spawn(async move { dies.step().await });
    must("the first server tells", has_them.notified()).await;
    dying.abort();
    for (wait_s, expected) in [(0, 0), (29, 0), (2, 1)] {
        till.after(TimeDelta::seconds(wait_s)).await;
        assert_eq!(other.step().await.unwrap(), expected, "{wait_s}");
    }
    assert_eq!(kept.kinds(), ["order.placed"]);
}

/// So it keeps no server from its other work: the webhook gives up after 3 s.
#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up() {
    let till = Till::open(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let webhook = Webhook::new(url, b"a secret of the receiver", till.world.clock.clone()).unwrap();
    let sender = EventSender::new(till.world.database.clone(), Box::new(webhook));
    sender.step().await.unwrap();
    till.buy(1).await;
    until_complete(&till.world).await;
    assert_eq!(must("it is given up", sender.step()).await.unwrap(), 0);
    let kept = "select last_error from event_cursors where attempts = 1";
    let why: String = sqlx::query_scalar(kept).fetch_one(till.world.database.pool()).await.unwrap();
    assert!(!why.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_one_tells_at_a_time() {
    let till = Till::open(300).await;
    let kept = Kept::default();
    let mut servers = Vec::new();
    for _ in 0..4 {
        servers.push(kept.sender(&till.world.another_process()).await);
    }
    till.sell_many(250).await;
    until_complete(&till.world).await;
    let count = || -> usize {
        kept.sent.lock().unwrap().iter().map(|it| it.as_array().unwrap().len()).sum()
    };
    let tell = async |server: &EventSender| {
        while count() < 250 {
            server.step().await.unwrap();
        }
        server.step().await.unwrap();
    };
    must("all events are told", join_all(servers.iter().map(tell))).await;
    let positions: Vec<_> =
        kept.events().iter().map(|event| event["position"].as_i64().unwrap()).collect();
    assert!(positions.len() == 250 && positions.is_sorted_by(|a, b| a < b), "{positions:?}");
}

/// The purchase that drew the smaller number commits last, or never.
#[tokio::test]
async fn a_purchase_that_commits_late_is_not_passed() {
    for ends in ["commit", "rollback"] {
        let till = Till::open(5).await;
        let other = till.world.priced_voucher(5).await.id;
        let kept = Kept::default();
        let sender = kept.sender(&till.world).await;
        let sell = "select sell($1, array[77], array[1], array[sale_time()])"
            .replace("$1", &till.voucher.id.to_string());
        let mut late = till.world.begin(&sell).await;
        // Another one that is under way, and has got its number later: neither hides the other.
        let mut later = till
            .world
            .begin(&format!("select sell({other}, array[78], array[1], array[sale_time()])"))
            .await;
        let early = till.api.buy(2, till.world.priced_voucher(5).await.id).await;
        let early = early.is(201).text_of("order_id").to_owned();
        for _ in 0..3 {
            sender.step().await.unwrap();
            assert_eq!(kept.messages(), [Value::Null; 0], "{ends}");
            assert_eq!(log(&till, 9).await, [Value::Null; 0], "{ends}");
        }
        sqlx::raw_sql("commit").execute(&mut later).await.unwrap();
        sender.step().await.unwrap();
        assert_eq!(kept.messages(), [Value::Null; 0], "{ends}");
        sqlx::raw_sql(ends).execute(&mut late).await.unwrap();
        tell_all(&till, &sender).await;
        let told = kept.events();
        let orders: Vec<_> = told.iter().map(|it| it["order_id"].as_str().unwrap()).collect();
        let expected = [&["77"][..usize::from(ends == "commit")], &["78", &early]].concat();
        assert_eq!(orders, expected, "{ends}");
        assert_eq!(log(&till, 9).await, told, "{ends}");
    }
}

/// Its transactions have smaller numbers than those of the server from which it comes.
#[tokio::test]
async fn a_database_that_was_restored_elsewhere_waits_for_nothing() {
    let till = Till::open(2).await;
    let kept = Kept::default();
    let sender = kept.sender(&till.world).await;
    till.buy(1).await;
    till.sql("update event_horizon set waits_for = '9000000000000'").await;
    tell_all(&till, &sender).await;
    assert_eq!(kept.kinds(), ["order.placed"]);
}

#[tokio::test]
async fn a_voucher_is_told_to_be_sold_out_once_each_time() {
    let till = Till::open(2).await;
    let kept = Kept::default();
    let sender = kept.sender(&till.world).await;
    let told = async || {
        tell_all(&till, &sender).await;
        kept.kinds()
    };
    till.buy(1).await;
    assert_eq!(told().await, ["order.placed"]);
    let order = till.buy(2).await;
    assert_eq!(told().await, ["order.placed", "voucher.sold_out"]);
    change(&till, json!({ "title": "another" })).await;
    assert_eq!(told().await, ["voucher.changed"]);
    till.own_step(2, &order, "cancellation").await.is(200);
    assert_eq!(told().await, ["order.cancelled"]);
    till.buy(3).await;
    assert_eq!(told().await, ["order.placed", "voucher.sold_out"]);
    change(&till, json!({ "initial_stock": 3 })).await;
    assert_eq!(told().await, ["voucher.restocked"]);
    change(&till, json!({ "initial_stock": 2 })).await;
    assert_eq!(told().await, ["voucher.restocked", "voucher.sold_out"]);
    // A refusal of the receiver writes it once, too.
    change(&till, json!({ "initial_stock": 3 })).await;
    assert_eq!(told().await, ["voucher.restocked"]);
    till.buy(4).await;
    kept.refuses(1);
    assert_eq!(told().await, ["order.placed"]);
    till.after(TimeDelta::seconds(2)).await;
    assert_eq!(told().await, ["order.placed", "voucher.sold_out"]);
}

#[tokio::test]
async fn an_order_that_was_offered_is_told_as_such() {
    // One of a free voucher is paid with that: whoever waits for `order.paid` gets each once.
    for (price, expected) in [(PRICE, "entry.offered"), (0, "order.paid")] {
        let till = Till::with_draw(1, price, "", 2).await;
        let entry = till.enter(1).await.is(201).text_of("entry_id").to_owned();
        let kept = Kept::default();
        let sender = kept.sender(&till.world).await;
        till.after(TimeDelta::hours(1)).await;
        till.serve().await;
        tell_all(&till, &sender).await;
        let told = kept.events();
        let offered = &told[0];
        assert_eq!(told.iter().map(kind).collect::<Vec<_>>(), [expected, "voucher.sold_out"]);
        let said = (&offered["details"]["entry_id"], &offered["actor"], &offered["user_id"]);
        assert_eq!(said, (&json!(entry), &json!("time"), &json!("1")), "{offered}");
        assert_eq!(offered["details"]["pay_by"].is_string(), price > 0, "{offered}");
    }
}

#[tokio::test]
async fn a_change_of_a_voucher_says_who_what_from_and_what_to() {
    let till = Till::with_draw(3, PRICE, "the lottery", 2).await;
    let end = till.voucher.end_time + TimeDelta::hours(1);
    change(&till, json!({ "price": 900, "title": till.voucher.title, "end_time": end })).await;
    change(&till, json!({ "price": 900, "terms": null })).await;
    change(&till, json!({ "paused": true })).await;
    change(&till, json!({ "paused": false })).await;
    change(&till, json!({ "initial_stock": 5 })).await;
    change(&till, json!({ "paused": true, "value": 7 })).await;
    change(&till, json!({ "paused": false })).await;
    till.administer("PATCH", "", &json!({ "initial_stock": -1 }))
        .await
        .problem(422, "invalid_request");
    till.after(TimeDelta::minutes(61)).await;
    for _ in 0..2 {
        till.administer("PUT", "/draw", &json!({ "number": "7" })).await.is(204);
    }
    till.serve().await;
    let program = Program::on(&till.world);
    let id = till.voucher.id.to_string();
    program.says(&["voucher", "restock", &id, "--take", "1"]).await;
    for _ in 0..2 {
        program.says(&["voucher", "cancel", &id, "--yes"]).await;
    }
    until_complete(&till.world).await;
    let all = log(&till, 9).await;
    let steps: Vec<_> = all.iter().filter(|event| event["order_id"].is_null()).collect();
    let [was, is] = [till.voucher.end_time, end].map(|at| at.to_rfc3339());
    let expected = [
        ("changed", json!({ "price": [PRICE, 900], "end_time": [was, is] }), true),
        ("paused", json!({ "paused": [false, true] }), true),
        ("resumed", json!({ "paused": [true, false] }), true),
        ("restocked", json!({ "initial_stock": [3, 5] }), true),
        ("changed", json!({ "paused": [false, true], "value": [null, 7] }), true),
        ("resumed", json!({ "paused": [true, false] }), true),
        ("draw_number_set", json!({ "number": [null, "7"] }), true),
        ("restocked", json!({ "initial_stock": [5, 4] }), false),
        ("sale_cancelled", json!({}), false),
    ];
    assert_eq!(steps.len(), expected.len(), "{all:#?}");
    for (number, (event, (step, details, is_user))) in (1..).zip(steps.iter().zip(expected)) {
        assert_eq!(event["id"], format!("{id}.v.{number}"));
        assert_eq!(
            (&event["type"], &event["details"]),
            (&json!(format!("voucher.{step}")), &details)
        );
        let by = if is_user { json!("100") } else { Value::Null };
        assert_eq!(
            (&event["actor"], &event["actor_id"]),
            (&json!("administrator"), &by),
            "{event}"
        );
        assert!(event["at"].is_string() && event["user_id"].is_null(), "{event}");
    }
    assert_eq!(steps.last().unwrap()["at"], json!(till.world.clock.now()));
}

/// Whoever changes a voucher while another one does waits: each step begins where the one before ended.
#[tokio::test]
async fn two_changes_at_once_are_two_steps_that_follow_one_another() {
    let till = Till::open(3).await;
    // On a busy machine one may wait too long for its turn: then nothing is done, or all of it.
    let change = async |price: i64| {
        eventually("the price is changed", async || {
            let changed = till.administer("PATCH", "", &json!({ "price": price })).await;
            assert!([200, 503].contains(&changed.status), "{changed:?}");
            changed.status == 200
        })
        .await;
    };
    join_all([100, 200, 300].map(change)).await;
    until_complete(&till.world).await;
    let prices: Vec<Value> =
        log(&till, 9).await.iter().map(|event| event["details"]["price"].clone()).collect();
    assert_eq!((prices.len(), &prices[0][0]), (3, &json!(PRICE)), "{prices:?}");
    assert!(prices.windows(2).all(|two| two[0][1] == two[1][0]), "{prices:?}");
}

/// Another session holds the sale, which is needed to write that it is sold out: the events wait, and nothing is lost.
#[tokio::test]
async fn a_sale_that_is_held_delays_its_events_for_a_moment() {
    let till = Till::open(1).await;
    let kept = Kept::default();
    let sender = kept.sender(&till.world).await;
    till.buy(1).await;
    until_complete(&till.world).await;
    let holder = till.hold_the_sale().await;
    assert_eq!(sender.step().await.unwrap(), 0);
    assert_eq!(kept.messages(), [Value::Null; 0]);
    holder.close().await.unwrap();
    till.after(TimeDelta::seconds(2)).await;
    tell_all(&till, &sender).await;
    assert_eq!(kept.kinds(), ["order.placed", "voucher.sold_out"]);
}

/// The horizon may be far behind: nobody has asked for it yet, or a transaction of a stranger holds it up.
#[tokio::test]
async fn a_reader_that_is_new_is_told_of_nothing_that_was_before() {
    let till = Till::open(3).await;
    let mut writes = PgConnection::connect(&till.world.database_url).await.unwrap();
    writes.execute("begin; select pg_current_xact_id()").await.unwrap();
    till.buy(1).await;
    let kept = Kept::default();
    let sender = EventSender::new(till.world.database.clone(), Box::new(kept.clone()));
    assert_eq!(sender.step().await.unwrap(), 0);
    writes.close().await.unwrap();
    till.buy(2).await;
    tell_all(&till, &sender).await;
    let buyers: Vec<_> = kept.events().iter().map(|it| it["user_id"].clone()).collect();
    assert_eq!(buyers, ["2"]);
}
