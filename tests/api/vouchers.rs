//! Vouchers: putting them on sale, finding them, where their sale stands.

use chrono::TimeDelta;
use serde_json::{Value, json};

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::world::midnight;
use testkit::wait::eventually;

async fn create(api: &Api, body: &Value) -> Answer {
    let token = api.world.admin_token(1).await;
    api.call_with("POST", "/api/vouchers", &token, body).await
}

#[tokio::test]
async fn a_new_voucher_is_on_sale_for_a_day_and_is_found_where_it_says() {
    let api = Api::new().await;
    let created = create(&api, &json!({ "title": "100 for 80 ¥ 优惠券 🎫", "stock": 7 })).await;
    created.is(201);
    let id = created.text_of("id").to_owned();
    assert_eq!(created.header("location"), Some(format!("/api/vouchers/{id}").as_str()));
    let expected = json!({
        "id": id, "title": "100 for 80 ¥ 优惠券 🎫", "stock": 7, "initial_stock": 7, "status": "on_sale",
        "begin_time": "2026-11-11T00:00:00Z", "end_time": "2026-11-12T00:00:00Z",
        "subtitle": "", "terms": "", "value": null, "price": 0, "pay_within_s": 900,
        "line": false, "draw_time": null, "draw_beacon": "", "max_entries": 1_000_000, "offer_between": "",
    });
    assert_eq!(created.body, expected);
    let found = api.get(created.header("location").unwrap()).await;
    assert_eq!((found.status, &found.body), (200, &expected));
    assert_eq!(api.get("/api/vouchers").await.body, json!([expected]));
}

#[tokio::test]
async fn times_may_come_from_any_zone_and_go_out_in_utc() {
    let api = Api::new().await;
    let body = json!({
        "title": "t", "stock": 0,
        "begin_time": "2026-11-11T10:00:00.5+08:00", "end_time": "2026-11-12T00:00:00-01:00",
    });
    let created = create(&api, &body).await;
    assert_eq!(created.body["begin_time"], "2026-11-11T02:00:00.500Z");
    assert_eq!(created.body["end_time"], "2026-11-12T01:00:00Z");
}

/// What it is at each instant, with and without stock, is the unit test's of vouchers.
#[tokio::test]
async fn the_status_follows_the_clock() {
    let api = Api::new().await;
    let (begin, end) = (midnight() + TimeDelta::hours(1), midnight() + TimeDelta::hours(2));
    let path = format!("/api/vouchers/{}", api.world.voucher_between(1, begin, end).await.id);
    let tick = TimeDelta::microseconds(1);
    for (instant, status) in
        [(begin - tick, "upcoming"), (begin, "on_sale"), (end - tick, "on_sale"), (end, "ended")]
    {
        api.world.set_time(instant).await;
        // The list is a second old at most, and so is what the server knows of the database's clock: it may have been read
        // between the two clocks that the test sets.
        eventually("the voucher and the list say so", async || {
            api.get(&path).await.text_of("status") == status
                && api.get("/api/vouchers").await.body[0]["status"] == status
        })
        .await;
    }
}

#[tokio::test]
async fn the_list_is_read_page_by_page_along_its_links() {
    let api = Api::new().await;
    for _ in 0..7 {
        api.world.voucher(1).await;
    }
    let seen = api.pages(1, "/api/vouchers?limit=3", "id").await;
    assert_eq!(seen, [vec!["7", "6", "5"], vec!["4", "3", "2"], vec!["1"]]);
}

#[tokio::test]
async fn a_page_that_makes_no_sense_is_refused() {
    let api = Api::shared().await;
    let wrong = [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=99999999999999999999",
        "before=0",
        "before=x",
        "before=-1",
        "before=9223372036854775808",
        "offset=1",
        "limit=1&limit=2",
        "before=%FF",
        "limit=%00",
    ];
    for query in wrong {
        api.get(&format!("/api/vouchers?{query}")).await.problem(422, "invalid_request");
        api.get_as(1, &format!("/api/orders?{query}")).await.problem(422, "invalid_request");
    }
    for query in ["", "limit=100", "limit=1&before=9223372036854775807"] {
        let page = api.get(&format!("/api/vouchers?{query}")).await;
        assert_eq!((page.status, &page.body, page.header("link")), (200, &json!([]), None));
    }
}

#[tokio::test]
async fn an_administrator_changes_a_voucher_and_what_is_not_named_stays() {
    let api = Api::with_users(3).await;
    let token = api.world.admin_token(100).await;
    let voucher = api.world.priced_voucher(2).await;
    let path = format!("/api/vouchers/{}", voucher.id);
    let change = async |body: Value| api.call_with("PATCH", &path, &token, &body).await;
    let before = api.get(&path).await.body;
    assert_eq!(change(json!({})).await.is(200).body, before);
    let more = json!({
        "title": "new", "subtitle": "second line", "terms": "none", "value": 9_000, "price": 7_000,
        "pay_within_s": 60, "initial_stock": 3, "begin_time": "2026-11-10T00:00:00Z",
        "end_time": "2026-11-20T00:00:00Z",
    });
    let changed = change(more.clone()).await;
    for (name, value) in more.as_object().unwrap() {
        assert_eq!(&changed.is(200).body[name], value, "{name}");
    }
    assert_eq!(changed.body["stock"], 3);
    // This server goes by it at once.
    assert_eq!(api.buy(1, voucher.id).await.is(201).body["amount"], 7_000);
    assert_eq!(change(json!({ "paused": true })).await.is(200).body["status"], "paused");
    api.buy(2, voucher.id).await.problem(409, "sale_paused");
    change(json!({ "paused": false })).await.is(200);
    // The same request twice adds nothing.
    for _ in 0..2 {
        assert_eq!(change(json!({ "initial_stock": 5 })).await.is(200).body["stock"], 4);
    }
    // What is sold is not taken away.
    change(json!({ "initial_stock": 0 })).await.problem(409, "stock_is_sold");
    assert_eq!(change(json!({ "initial_stock": 1 })).await.is(200).body["status"], "sold_out");
    for wrong in [
        json!({ "price": -1 }),
        json!({ "value": 0.5 }),
        json!({ "initial_stock": 2_147_483_648_i64 }),
        json!({ "begin_time": "2026-11-20T00:00:00Z" }),
        json!({ "begin_time": "2026-11-21T00:00:00Z", "end_time": "2026-11-21T00:00:00Z" }),
        json!({ "end_time": "9999-12-31T23:59:60Z" }),
        json!({ "paused": "yes" }),
        json!({ "stock": 5 }),
        json!([]),
    ] {
        change(wrong).await.problem(422, "invalid_request");
    }
    let (buyer, free) = (api.world.token(1), json!({ "price": 0 }));
    api.call_with("PATCH", &path, &buyer, &free).await.problem(403, "forbidden");
    let gone = api.call_with("PATCH", "/api/vouchers/77", &token, &free).await;
    gone.problem(404, "voucher_not_found");
    assert!(api.world.audit().await.holds);
}

#[tokio::test]
async fn what_cannot_be_sold_is_refused() {
    let api = Api::new().await;
    let with = |name: &str, value: Value| {
        let mut body = json!({ "title": "t", "stock": 1 });
        body[name] = value;
        body
    };
    let begin = "2026-11-11T08:00:00Z";
    let sale = |begin: &str, end: &str| json!({ "title": "t", "stock": 1, "begin_time": begin, "end_time": end });
    let wrong = [
        with("title", json!("a\u{0}b")),
        with("subtitle", json!("a\u{200b}b")),
        with("terms", json!("a\u{b}b")),
        with("price", json!(-1)),
        with("value", json!(-1)),
        with("pay_within_s", json!(0)),
        with("title", json!(5)),
        with("title", Value::Null),
        with("stock", json!(-1)),
        with("stock", json!(2_147_483_648_u64)),
        with("stock", json!(-2_147_483_649_i64)),
        with("stock", json!(1e30)),
        with("stock", json!(1.5)),
        with("stock", json!("1")),
        with("stock", json!([1])),
        with("id", json!("1")),
        with("begin_time", json!("tomorrow")),
        with("begin_time", json!("2026-11-11T08:00:00")),
        with("begin_time", json!(1_800_000_000)),
        with("begin_time", json!("9999-12-31T12:00:00Z")),
        with("begin_time", json!("+262142-12-31T23:59:59Z")),
        with("end_time", json!("2026-11-11T00:00:00Z")),
        sale(begin, begin),
        sale(begin, "2026-11-11T07:59:59Z"),
        sale(begin, "+10000-01-01T00:00:00Z"),
        // The database keeps microseconds, and no leap seconds.
        sale("2026-11-11T08:00:00.000000001Z", "2026-11-11T08:00:00.000000002Z"),
        sale(begin, "2026-11-11T08:00:00.000000999Z"),
        sale("2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z"),
        sale(begin, "9999-12-31T23:59:60Z"),
        sale("1969-12-31T23:59:59Z", begin),
        sale("-0001-01-01T00:00:00Z", begin),
        json!({ "title": "t" }),
        json!({ "stock": 1 }),
        json!(["t", 1, null, null]),
        json!(null),
    ];
    for body in wrong {
        create(&api, &body).await.problem(422, "invalid_request");
    }
    assert_eq!(api.get("/api/vouchers").await.body, json!([]));
}

#[tokio::test]
async fn the_extremes_that_can_be_sold_are_accepted() {
    let api = Api::new().await;
    create(&api, &json!({ "title": "优".repeat(200), "stock": i32::MAX })).await.is(201);
    create(&api, &json!({ "title": "\u{200a}券\u{fe0f}", "stock": 0 })).await.is(201);
    // An integer to JSON Schema, however it is written.
    let created = create(&api, &json!({ "title": "t", "stock": 7.0 })).await;
    assert_eq!(created.is(201).body["stock"], 7);
    let ages = json!({ "title": "t", "stock": 1, "begin_time": "1970-01-01T00:00:00Z", "end_time": "9999-12-31T23:59:59.999999999Z" });
    let created = create(&api, &ages).await;
    assert_eq!(created.is(201).body["end_time"], "9999-12-31T23:59:59.999999Z");
}

#[tokio::test]
async fn a_body_that_is_not_json_or_does_not_say_so_is_refused() {
    let api = Api::new().await;
    let token = api.world.admin_token(1).await;
    let create = async |content_type: Option<&str>, body: &[u8]| {
        let request = api.request("POST", "/api/vouchers").bearer_auth(&token).body(body.to_vec());
        api.send(match content_type {
            Some(content_type) => request.header("content-type", content_type),
            None => request,
        })
        .await
    };
    let body = br#"{"title":"t","stock":1}"#;
    let form = Some("application/x-www-form-urlencoded");
    let others = ["", "text/plain", "application/jsonx", "text/json"].map(Some);
    for content_type in [None, form].into_iter().chain(others) {
        create(content_type, body).await.problem(422, "invalid_request");
    }
    // Media types have no case (RFC 9110, 8.3.1).
    for content_type in
        ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
    {
        create(Some(content_type), body).await.is(201);
    }
    let deep = format!(r#"{{"title":{}{}}}"#, "[".repeat(4000), "]".repeat(4000));
    let texts: [&[u8]; 10] = [
        b"",
        b"{",
        b"{}}",
        b"title=t&stock=1",
        b"\xef\xbb\xbf{\"title\":\"t\",\"stock\":1}",
        b"{\"title\":\"\xff\",\"stock\":1}",
        br#"{"title":"\ud800","stock":1}"#,
        br#"{"title":"t","stock":1,"stock":2}"#,
        br#"{"title":"t","stock":01}"#,
        deep.as_bytes(),
    ];
    for text in texts {
        create(Some("application/json"), text).await.problem(422, "invalid_request");
    }
}
