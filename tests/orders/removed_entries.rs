//! An administrator removes an entry from a draw or a line, with a reason that anybody can read.

use chrono::TimeDelta;
use seckill::model::{Clock, Draw, DrawService};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use testkit::program::Program;
use testkit::shop::api_client::Answer;
use testkit::shop::held_rows::set_lock_timeouts;
use testkit::shop::till::Till;
use testkit::wait::eventually;

const REASON: &str = "one of 40 accounts of one buyer";

/// What the administrator is told who removes this entry.
async fn remove_because(till: &Till, entry: &str, reason: &str) -> Answer {
    let reason: String = url::form_urlencoded::byte_serialize(reason.as_bytes()).collect();
    let path = format!("/api/vouchers/{}/entries/{entry}?reason={reason}", till.voucher.id);
    till.as_admin("DELETE", &path).await
}

async fn remove(till: &Till, entry: &str) -> Answer {
    remove_because(till, entry, REASON).await
}

/// The entries of users 1 to `count`.
async fn enter(till: &Till, count: i64) -> Vec<String> {
    let mut entries = Vec::new();
    for user in 1..=count {
        entries.push(till.enter(user).await.is(201).text_of("entry_id").to_owned());
    }
    entries
}

/// The service of the draw, once so many entries were removed from it.
async fn service(till: &Till, removed: usize) -> Value {
    let path = format!("/api/vouchers/{}/draw/service", till.voucher.id);
    let mut service = Value::Null;
    eventually("nothing that is kept is of less than a second ago", async || {
        service = till.get(&path).await.is(200).body.clone();
        service["removed"].as_array().unwrap().len() == removed
    })
    .await;
    service
}

#[tokio::test]
async fn what_was_removed_from_a_draw_is_published_and_the_draw_is_verified_all_the_same() {
    let till = Till::with_draw(2, 0, "", 6).await;
    let entries = enter(&till, 6).await;
    remove(&till, &entries[0]).await.is(204);
    // Not by others, and not twice.
    let path = format!("/api/vouchers/{}/entries/{}?reason=x", till.voucher.id, entries[1]);
    till.call_as(1, "DELETE", &path).await.problem(403, "forbidden");
    remove(&till, &entries[0]).await.problem(404, "entry_not_found");
    assert_eq!(till.entry(1).await["status"], "removed");
    till.enter(1).await.problem(403, "forbidden");
    till.entries("DELETE", 1).await.is(204);

    till.after(TimeDelta::hours(1)).await;
    let closed = till.draw().await;
    assert_eq!(closed["entries"].as_array().unwrap().len(), 5);
    remove(&till, &entries[1]).await.problem(409, "draw_closed");
    till.serve().await;
    // In place of those who were drawn first, and were offered it, the third one is removed.
    let mut drawn = Value::Null;
    eventually("the draw is published", async || {
        drawn = till.draw().await;
        drawn["places"].is_array()
    })
    .await;
    let verified = serde_json::from_value::<Draw>(drawn.clone()).unwrap().verify().unwrap();
    let [first, third] = [verified[0], verified[2]].map(|entry| entry.to_string());
    let served = remove(&till, &first).await;
    assert!(served.problem(409, "already_bought").body["order_id"].is_string(), "{served:?}");
    till.after(TimeDelta::minutes(1)).await;
    remove(&till, &third).await.is(204);
    till.holds().await;

    let service = service(&till, 2).await;
    let removed = [(&entries[0], 61), (&third, 0)].map(|(entry, minutes_ago)| {
        let at = till.world.clock.now() - TimeDelta::minutes(minutes_ago);
        json!({ "entry_id": entry, "reason": REASON, "at": at })
    });
    assert_eq!(service["removed"], json!(removed));
    let outcomes: Vec<_> =
        service["ended"].as_array().unwrap().iter().map(|ended| &ended["outcome"]).collect();
    assert_eq!(outcomes, ["offered", "offered", "removed"]);
    let service: DrawService = serde_json::from_value(service).unwrap();
    service.verify(&verified).unwrap();

    let program = Program::on(&till.world);
    let [draw_file, service_file] = ["draw.json", "service.json"].map(|name| program.file(name));
    std::fs::write(&draw_file, drawn.to_string()).unwrap();
    std::fs::write(&service_file, serde_json::to_vec(&service).unwrap()).unwrap();
    let [draw_file, service_file] = [&draw_file, &service_file].map(|it| it.to_str().unwrap());
    let ran = program.run(&["draw", "verify", draw_file, service_file]).await;
    assert!(ran.status == 0 && ran.stderr.contains(REASON), "{ran:?}");
    // A removal without a reason is none.
    let silent = DrawService { removed: Vec::new(), ..service };
    std::fs::write(service_file, serde_json::to_vec(&silent).unwrap()).unwrap();
    let ran = program.run(&["draw", "verify", draw_file, service_file]).await;
    assert!(ran.status == 1 && ran.stderr.contains("no reason is published"), "{ran:?}");
}

#[tokio::test]
async fn whoever_is_removed_from_a_line_is_not_offered_what_comes_back() {
    let till = Till::with_line(1, 4).await;
    let order = till.buy(1).await;
    let entries =
        [till.enter(2).await, till.enter(3).await].map(|it| it.text_of("entry_id").to_owned());
    remove(&till, &entries[0]).await.is(204);
    till.own_step(1, &order, "cancellation").await.is(200);
    till.serve().await;
    let statuses = [till.entry(2).await, till.entry(3).await].map(|it| it["status"].clone());
    assert_eq!(statuses, ["removed", "offered"]);
    till.holds().await;

    // With the last one who waits the voucher is for anybody again.
    let till = Till::with_line(1, 4).await;
    let order = till.buy(1).await;
    let entry = till.enter(2).await.text_of("entry_id").to_owned();
    remove(&till, &entry).await.is(204);
    till.own_step(1, &order, "cancellation").await.is(200);
    till.buy(2).await;
    till.holds().await;
}

#[tokio::test]
async fn a_removal_needs_a_reason_that_people_can_read_and_an_entry_of_the_voucher() {
    let till = Till::with_line(0, 2).await;
    let entry = till.enter(1).await.is(201).text_of("entry_id").to_owned();
    let long = "字".repeat(200);
    let longer = format!("{long}字");
    for reason in ["", " ", "a\u{202e}b", "a\nb", longer.as_str()] {
        remove_because(&till, &entry, reason).await.problem(422, "invalid_request");
    }
    let path = |voucher: &str, entry: &str| format!("/api/vouchers/{voucher}/entries/{entry}");
    let own = till.voucher.id.to_string();
    let none = uuid::Uuid::new_v4().to_string();
    let other = till.world.voucher_with_line(0).await.id.to_string();
    for (path, status, code) in [
        (path(&own, &entry), 422, "invalid_request"),
        (path(&own, "7") + "?reason=x", 422, "invalid_request"),
        (path("0", &entry) + "?reason=x", 422, "invalid_request"),
        (path(&own, &entry) + "?reason=x&why=y", 422, "invalid_request"),
        (path(&own, &none) + "?reason=x", 404, "entry_not_found"),
        (path(&other, &entry) + "?reason=x", 404, "entry_not_found"),
        (path("777", &entry) + "?reason=x", 404, "voucher_not_found"),
    ] {
        till.as_admin("DELETE", &path).await.problem(status, code);
    }
    assert_eq!(till.entry(1).await["status"], "in_line");
    remove_because(&till, &entry, &long).await.is(204);
}

/// Each with a removal, in both orders; what both came to, and where the entry stands then.
#[tokio::test]
async fn a_removal_beside_another_step_of_the_entry_is_one_of_the_two() {
    let offer = "select outcome from offer_to_line($1, array[99], false)";
    let leave = "select outcome from enter_line($1, array[2], array[null::uuid])";
    let remove = "select coalesce(refusal, 'removed') from remove_entry($1, (select id from entries where user_id = 2), 'x', 100)";
    for (first, second, said, status) in [
        (offer, remove, "already_bought", "offered"),
        (remove, offer, "idle", "removed"),
        (leave, remove, "entry_not_found", "left"),
        (remove, leave, "not_entered", "removed"),
        (remove, remove, "entry_not_found", "removed"),
    ] {
        let till = Till::with_line(1, 2).await;
        let order = till.buy(1).await;
        till.enter(2).await.is(201);
        till.own_step(1, &order, "cancellation").await.is(200);
        let of_voucher = |call: &str| call.replace("$1", &till.voucher.id.to_string());
        let pool = till.world.database.pool();
        set_lock_timeouts(pool, "lock_timeout", "10s").await;
        let second = sqlx::query_scalar::<_, String>(AssertSqlSafe(of_voucher(second)));
        let came_to = till.world.behind(&of_voucher(first), second.fetch_one(pool)).await.unwrap();
        assert_eq!((came_to.as_str(), &till.entry(2).await["status"]), (said, &json!(status)));
        till.holds().await;
    }
}
