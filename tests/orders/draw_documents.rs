//! What is published of a draw: made once for each state, shared by all who read it, and enough to prove the service.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Draw, DrawService};
use seckill::orders::line::LineWork;
use serde_json::{Value, json};
use sqlx::Connection;

use redis_link::Redis;
use testkit::program::Program;
use testkit::redis_nodes::Node;
use testkit::shop::api_client::{Answer, Api};
use testkit::shop::till::Till;
use testkit::shop::world::World;
use testkit::wait::eventually;

const NOTHING_KEPT: &str = "nothing that is kept is of less than a second ago";

async fn conditional(till: &Till, path: &str, tag: &str) -> Answer {
    till.send(till.request("GET", path).header("if-none-match", tag)).await
}

/// Until the document is another one than that of `before`.
async fn changed(till: &Till, path: &str, before: &Answer) -> Answer {
    let mut now = None;
    eventually(NOTHING_KEPT, async || {
        let answer = till.get(path).await;
        let is_new = answer.is(200).header("etag") != before.header("etag");
        now = Some(answer);
        is_new
    })
    .await;
    now.unwrap()
}

#[tokio::test]
async fn a_document_of_a_draw_has_a_tag_and_is_sent_to_nobody_who_has_it() {
    let till = Till::with_draw(1, 0, "", 3).await;
    let draw = format!("/api/vouchers/{}/draw", till.voucher.id);
    let service = format!("{draw}/service");
    let mut seen = Vec::new();
    till.all_enter(3).await;
    seen.push(till.get(&draw).await);
    till.after(TimeDelta::hours(1)).await;
    seen.push(changed(&till, &draw, &seen[0]).await);
    seen.push(till.get(&service).await);
    till.serve().await;
    seen.push(changed(&till, &draw, &seen[1]).await);
    seen.push(changed(&till, &service, &seen[2]).await);
    for (nth, answer) in seen.iter().enumerate() {
        let kept = if nth == 3 { "public, max-age=60" } else { "public, no-cache" };
        assert_eq!(answer.header("cache-control"), Some(kept), "{nth}");
    }
    let other = till.another_server().await;
    for (path, nth) in [(&draw, 3), (&service, 4)] {
        let tag = seen[nth].header("etag").unwrap();
        let old = seen[nth - 2].header("etag").unwrap();
        // Whichever server is asked.
        for till in [&till, &other] {
            for known in [tag, "*", &format!("W/{tag}"), &format!("{old}, {tag}")] {
                let answer = conditional(till, path, known).await;
                assert_eq!((answer.status, &*answer.text), (304, ""), "{known}");
                assert_eq!(answer.header("etag"), Some(tag));
            }
            assert_eq!(conditional(till, path, old).await.is(200).body, seen[nth].body);
        }
    }
    // A voucher without a draw has neither.
    let none = till.world.voucher(1).await.id;
    for part in ["draw", "draw/service"] {
        till.get(&format!("/api/vouchers/{none}/{part}")).await.problem(404, "not_found");
    }
}

/// Between the close and the draw the sale's row is needed once, and after the draw nothing of the database.
#[tokio::test]
async fn a_document_of_a_draw_is_made_once_for_each_of_its_states() {
    let till = Till::with_draw(1, 0, "the lottery", 2).await;
    let path = format!("/api/vouchers/{}/draw", till.voucher.id);
    till.all_enter(2).await;
    till.after(TimeDelta::seconds(3_601)).await;
    let closed = till.draw().await;
    let holder = till.hold_the_sale().await;
    tokio::time::sleep(seckill::store::FRESH_FOR).await;
    assert_eq!(till.get(&path).await.is(200).body, closed);
    holder.close().await.unwrap();
    till.administer("PUT", "/draw", &json!({ "number": "7" })).await.is(204);
    till.serve().await;
    let mut drawn = Value::Null;
    eventually(NOTHING_KEPT, async || {
        drawn = till.draw().await;
        drawn["drawn_at"].is_string()
    })
    .await;
    let holder = till.world.begin("lock table entries, vouchers, seckill_vouchers").await;
    tokio::time::sleep(seckill::store::FRESH_FOR).await;
    assert_eq!(till.get(&path).await.is(200).body, drawn);
    holder.close().await.unwrap();
}

/// By what anybody can read, and with nobody's name in it.
#[tokio::test]
async fn the_service_of_a_draw_is_proved_by_what_is_published() {
    let till = Till::with_draw(2, 0, "", 6).await;
    till.all_enter(5).await;
    till.after(TimeDelta::hours(1)).await;
    let path = format!("/api/vouchers/{}/draw/service", till.voucher.id);
    let before = till.get(&path).await;
    assert_eq!(before.is(200).body["ended"], json!([]));
    till.serve().await;
    changed(&till, &path, &before).await;
    // One who waits leaves, and one who came after the draw stands behind.
    let mut waiting = Vec::new();
    for user in 1..=5 {
        let entry = till.entry(user).await;
        if entry["status"] == "in_line" {
            waiting.push((user, entry["entry_id"].clone()));
        }
    }
    let before = till.get(&path).await;
    till.after(TimeDelta::seconds(1)).await;
    till.entries("DELETE", waiting[0].0).await.is(204);
    till.enter(6).await.is(201);
    let served = changed(&till, &path, &before).await;
    let ended = served.body["ended"].as_array().unwrap();
    let of = |outcome: &str| ended.iter().filter(|it| it["outcome"] == outcome).count();
    assert_eq!((ended.len(), of("offered"), of("left")), (3, 2, 1), "{}", served.text);
    assert_eq!(ended.last().unwrap()["entry_id"], waiting[0].1);
    for members in ended.iter().map(|it| it.as_object().unwrap()) {
        let members: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        assert_eq!(members, ["at", "entry_id", "outcome", "place"].into());
    }

    let draw = till.draw().await;
    let program = Program::alone();
    let files = ["draw.json", "service.json"].map(|name| program.file(name));
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let verify = async |service: &Value| {
        std::fs::write(files[0], draw.to_string()).unwrap();
        std::fs::write(files[1], service.to_string()).unwrap();
        program.run(&["draw", "verify", files[0], files[1]]).await
    };
    let verified = verify(&served.body).await;
    assert_eq!(verified.status, 0, "{verified:?}");
    assert!(!verified.stderr.contains("only its source says"), "{verified:?}");
    assert!(verified.stderr.contains("the service holds: 3 entries"), "{verified:?}");
    let mut passed: DrawService = serde_json::from_value(served.body).unwrap();
    passed.ended.remove(0);
    let passed = verify(&serde_json::to_value(passed).unwrap()).await;
    assert_eq!(passed.status, 1, "{passed:?}");
    assert!(passed.stderr.contains("before one ahead of it"), "{passed:?}");
    // The places are published, too.
    let draw: Draw = serde_json::from_value(draw).unwrap();
    let mut places = draw.places.clone().unwrap();
    places.sort_unstable();
    assert_eq!(places, [1, 2, 3, 4, 5]);
}

/// As they do while a clock that went back is not there again.
#[tokio::test]
async fn each_of_several_who_leave_at_one_instant_is_in_what_is_published_of_the_service() {
    let till = Till::with_draw(1, 0, "", 4).await;
    till.all_enter(4).await;
    till.after(TimeDelta::hours(1)).await;
    till.serve().await;
    let path = format!("/api/vouchers/{}/draw/service", till.voucher.id);
    let mut before = till.get(&path).await;
    for user in 1..=4 {
        if till.entry(user).await["status"] == "in_line" {
            till.entries("DELETE", user).await.is(204);
            before = changed(&till, &path, &before).await;
        }
    }
    assert_eq!(before.body["ended"].as_array().unwrap().len(), 4);
}

/// Of a draw and of a line, at its bound and beyond it. Who left counts.
#[tokio::test]
async fn a_sale_takes_as_many_entries_as_it_may_have() {
    for has_draw in [true, false] {
        let api = Api::with_users(4).await;
        let now = api.world.clock.now();
        let end = now + TimeDelta::days(1);
        let new = NewVoucher {
            line: Some(true),
            draw_time: has_draw.then_some(now + TimeDelta::hours(1)),
            max_entries: Some(2),
            ..NewVoucher::free("100 for 80", 0, now - TimeDelta::hours(1), end)
        };
        let path = format!("/api/vouchers/{}/entries", api.world.new_voucher(&new).await.id);
        api.call_as(1, "POST", &path).await.is(201);
        if has_draw {
            // Who comes back has the entry of before.
            api.call_as(1, "DELETE", &path).await.is(204);
            api.world.set_time(now + TimeDelta::minutes(1)).await;
            api.call_as(1, "POST", &path).await.is(201);
        }
        api.call_as(2, "POST", &path).await.is(201);
        api.call_as(3, "POST", &path).await.problem(409, "entries_full");
        api.call_as(2, "POST", &path).await.is(200);
        api.call_as(2, "DELETE", &path).await.is(204);
        api.call_as(4, "POST", &path).await.problem(409, "entries_full");
        // Also at the bound, who comes back needs no other row.
        api.world.set_time(now + TimeDelta::minutes(2)).await;
        api.call_as(2, "POST", &path).await.is(201);
        api.world.audits_hold().await;
    }
}

/// The batches of entries are for vouchers that there are: nothing is asked of the table of entries.
#[tokio::test]
async fn who_enters_a_voucher_that_does_not_exist_is_told_so_without_a_batch() {
    let till = Till::with_draw(1, 0, "", 1).await;
    let holder = till.world.begin("lock table entries").await;
    for method in ["POST", "DELETE"] {
        let answer = till.call(method, "/api/vouchers/777/entries", &till.world.token(1)).await;
        answer.problem(404, "voucher_not_found");
    }
    holder.close().await.unwrap();
}

#[tokio::test]
async fn who_reads_a_draw_that_does_not_exist_waits_for_no_draw_that_is_read() {
    let till = Till::with_draw(1, 0, "", 1).await;
    let none = till.world.voucher(1).await.id.to_string();
    let holder = till.world.begin("lock table entries").await;
    let path = format!("/api/vouchers/{}/draw", till.voucher.id);
    let others = async {
        till.world.until_one_waits().await;
        for voucher in ["777", &none] {
            for part in ["draw", "draw/service"] {
                let answer = till.get(&format!("/api/vouchers/{voucher}/{part}")).await;
                answer.problem(404, "not_found");
            }
        }
    };
    tokio::select! {
        biased;
        read = till.get(&path) => panic!("the draw was read before the others were answered: {read:?}"),
        () = others => {}
    }
    holder.close().await.unwrap();
}

/// A draw takes no ids of orders. The offers wait for Redis.
#[tokio::test(flavor = "multi_thread")]
async fn entries_are_drawn_while_redis_is_away() {
    let mut node = Node::start(&[]).await;
    let world = World { redis: Redis::new(&node.url()).unwrap(), ..World::new().await };
    let now = world.clock.now();
    let draw_time = Some(now + TimeDelta::hours(1));
    let free = NewVoucher::free("100 for 80", 1, now, now + TimeDelta::days(1));
    let voucher = world.new_voucher(&NewVoucher { draw_time, ..free }).await.id;
    world.users(1).await;
    let api = Api::of(world.clone()).await;
    api.call_as(1, "POST", &format!("/api/vouchers/{voucher}/entries")).await.is(201);
    world.set_time(now + TimeDelta::hours(1)).await;
    let mut work = LineWork::new(world.database.clone(), world.shop().await);
    node.kill();
    assert!(work.step().await.unwrap());
    let draw = api.get(&format!("/api/vouchers/{voucher}/draw")).await;
    assert!(draw.is(200).body["drawn_at"].is_string(), "{draw:?}");
    assert!(work.step().await.is_err());
}
