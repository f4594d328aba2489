//! A draw and a line on the board: made, watched, and told their public number. In a real browser.

use chrono::TimeDelta;
use seckill::model::Clock;
use serde_json::json;

use crate::board::sales::{as_admin, board, server};
use testkit::shop::api_client::Api;
use testkit::shop::till::beacon_at;
use testkit::shop::web_driver::PHONE;
use testkit::shop::world::World;
use testkit::wait::eventually;

/// A busy machine may refuse the entry for a moment.
async fn enters(api: &Api, voucher: &str, user: i64) {
    eventually("the entry is taken", async || {
        let answer = api.call_as(user, "POST", &format!("{voucher}/entries")).await;
        if answer.status != 201 {
            answer.problem(503, "unavailable");
        }
        answer.status == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_is_made_watched_and_told_its_number() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "en", PHONE).await;
    browser.click("#new-sale summary").await;
    browser.fill("#title", "Dinner").await;
    browser.fill("#stock", "1").await;
    let now = api.world.clock.now();
    let set = async |id: &str, time: TimeDelta| {
        // As a field for a local time has it.
        let local = format!(
            "(time => new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString())(
                Date.parse('{}')).slice(0, 19)",
            (now + time).to_rfc3339()
        );
        browser.set(id, browser.value(&local).await.as_str().unwrap()).await;
    };
    set("#begin", TimeDelta::hours(-1)).await;
    set("#end", TimeDelta::hours(10)).await;
    browser.fill("#beacon", "a lottery").await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#beacon-error", "SOURCE@TIME").await;
    let beacon = beacon_at("a lottery", now + TimeDelta::minutes(31));
    browser.fill("#beacon", &beacon).await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#beacon-error", "Only a draw has a public number").await;
    set("#draw", TimeDelta::hours(10)).await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#draw-error", "Entries must close while the sale is on").await;
    set("#draw", TimeDelta::minutes(30)).await;
    browser.fits().await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#sale-form-state", "The sale is created").await;
    let made = api.get("/api/vouchers").await.body[0].clone();
    for (member, value) in [
        ("line", json!(true)),
        ("draw_time", json!(now + TimeDelta::minutes(30))),
        ("draw_beacon", json!(beacon)),
        ("status", json!("draw_open")),
    ] {
        assert_eq!(made[member], value, "{member}");
    }

    let path = format!("/api/vouchers/{}", made["id"].as_str().unwrap());
    browser.until_text("#sale-state", "draw: entries until").await;
    browser.until_text("#line-state", "Draw: 0 have entered so far.").await;
    for user in [1, 2] {
        enters(&api, &path, user).await;
    }
    browser.until_text("#line-state", "Draw: 2 have entered so far.").await;
    assert!(!browser.shows("#number").await);
    api.world.set_time(now + TimeDelta::minutes(31)).await;
    browser.until_text("#line-state", "2 entered. It waits for its public number").await;
    browser.fill("#number", "07F").await;
    browser.click("#number-form button").await;
    browser.until_text("#number-error", "1 to 200 digits").await;
    browser.fill("#number", "75").await;
    browser.fits().await;
    browser.click("#number-form button").await;
    browser.until_text("#line-state", "Its public number: 75").await;
    api.world.serve_lines().await;
    browser.until_text("#line-state", "In line: 1. Offered so far: 1.").await;
    browser.close_quietly().await;
    let line = as_admin(&api, "GET", &format!("{path}/line"), &json!(null)).await;
    assert_eq!((&line.is(200).body["in_line"], &line.body["number"]), (&json!(1), &json!("75")));
    api.get(&format!("{path}/line")).await.problem(401, "unauthenticated");
    api.get_as(1, &format!("{path}/line")).await.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_made_by_one_box() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "zh-CN", PHONE).await;
    browser.click("#new-sale summary").await;
    browser.fill("#title", "晚餐").await;
    browser.click("#line-wanted").await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#sale-form-state", "活动已创建").await;
    let made = api.get("/api/vouchers").await.body[0].clone();
    assert_eq!((&made["line"], &made["draw_time"]), (&json!(true), &json!(null)));
    browser.until_text("#line-state", "排队：0 人；已轮到：0 人").await;
    browser.close_quietly().await;
}
