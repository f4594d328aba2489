//! Each row of the table of routes, played: what a request alone can provoke. Every answer of every test is held against the
//! description, which is made of the rows (`testkit::shop::api_client`).

use std::iter::from_fn;

use reqwest::RequestBuilder;
use seckill::http::problem::Code;
use seckill::http::server::ServerLimits;
use seckill::http::{ROUTES, Route, Who, router};
use serde_json::{Value, json};

use testkit::shop::api_client::{Api, DOCUMENT};
use testkit::shop::served::Served;
use testkit::shop::world::World;

const ADMINISTRATOR: i64 = 1;
const BUYER: i64 = 2;
/// No voucher and no order has it.
const NO_ID: &str = "777";
/// The address of the client, before the proxy.
const ADDRESS: &str = "192.0.2.1";

fn description(row: &Route) -> &'static Value {
    &DOCUMENT["paths"][row.path][row.method.as_str().to_lowercase()]
}

fn has_parameter(row: &Route, name: &str) -> bool {
    description(row)["parameters"]
        .as_array()
        .is_some_and(|all| all.iter().any(|it| it["name"] == name))
}

/// A request that only `user`, and what there is, keep the route from doing.
fn asking(api: &Api, row: &Route, user: Option<i64>) -> RequestBuilder {
    asking_with(api, row, user, if has_parameter(row, "before") { "?before=7" } else { "" })
}

fn asking_with(api: &Api, row: &Route, user: Option<i64>, query: &str) -> RequestBuilder {
    let path = row.path.replace("{id}", NO_ID) + query;
    let request = api.request(row.method.as_str(), &path).header("x-forwarded-for", ADDRESS);
    let request = match user {
        Some(user) => request.bearer_auth(api.world.token(user)),
        None => request,
    };
    match (row.method.as_str(), row.path) {
        ("POST", "/api/login-codes") => request.json(&json!({ "phone": "13800138000" })),
        ("POST", "/api/sessions") => {
            request.json(&json!({ "phone": "13800138000", "code": "000000" }))
        }
        ("POST", "/api/vouchers") => request.json(&json!({ "title": "voucher", "stock": 1 })),
        ("PATCH", _) => request.json(&json!({})),
        ("PUT", _) => request.json(&json!({ "number": "1" })),
        _ => request,
    }
}

/// A request that is refused with `code`; `None`: it takes more than a request alone.
fn provoking(api: &Api, row: &Route, code: Code) -> Option<RequestBuilder> {
    let first_missing = row.own.iter().copied().find(|code| code.kind().status == 404);
    Some(match code {
        Code::Unauthenticated => asking(api, row, None),
        Code::Forbidden if row.who == Who::Gateway => asking(api, row, None),
        Code::Forbidden if row.who == Who::Administrator => asking(api, row, Some(BUYER)),
        Code::Forbidden => asking(api, row, Some(BUYER)).json(&json!({ "user_id": "9" })),
        Code::InvalidRequest if row.who == Who::Gateway => return None,
        Code::InvalidRequest if description(row)["requestBody"].is_object() => {
            asking(api, row, Some(ADMINISTRATOR)).body("no JSON")
        }
        Code::InvalidRequest if has_parameter(row, "limit") => {
            asking_with(api, row, Some(ADMINISTRATOR), "?limit=0")
        }
        code if Some(code) == first_missing => asking(api, row, Some(ADMINISTRATOR)),
        _ => return None,
    })
}

#[tokio::test]
async fn each_route_refuses_what_its_row_says() {
    let api = Api::with_users(2).await;
    api.world.admin_token(ADMINISTRATOR).await;
    let mut provoked = 0;
    for row in ROUTES {
        let too_large = asking(&api, row, None).body("x".repeat(17 * 1024));
        api.send(too_large).await.problem(413, "invalid_request");
        for code in row.refusals() {
            let Some(request) = provoking(&api, row, code) else { continue };
            let answer = api.send(request).await;
            assert_eq!(answer.body["code"], code.as_str(), "{row:?}: {answer:?}");
            answer.problem(code.kind().status, code.as_str());
            provoked += 1;
        }
    }
    assert!(provoked > 60, "only {provoked}");
}

fn refuses(row: &&Route, code: Code) -> bool {
    row.refusals().any(|refused| refused == code)
}

/// A token's user and an address have asked as often as they may.
#[tokio::test]
async fn each_route_with_a_rate_refuses_who_has_used_it_up() {
    let world = World::with(|settings| {
        settings.buyer_rate = "1/1h".parse().unwrap();
        settings.address_rate = "1/1h".parse().unwrap();
    });
    let api = Api::behind_proxy(world.await).await;
    api.world.users(2).await;
    api.get_as(BUYER, "/api/me").await.is(200);
    let stranger = api.request("GET", "/api/me").header("x-forwarded-for", ADDRESS);
    api.send(stranger).await.problem(401, "unauthenticated");
    for row in ROUTES.iter().filter(|row| refuses(row, Code::TooManyRequests)) {
        let answer = api.send(asking(&api, row, Some(BUYER))).await;
        assert_eq!(answer.status, 429, "{row:?}: {answer:?}");
        answer.problem(429, "too_many_requests").retry_after_s();
    }
}

#[tokio::test]
async fn each_route_with_a_permit_refuses_when_all_are_taken() {
    let world = World::new().await;
    let app = world.app().await;
    let address = Served::new(router(app.clone()), ServerLimits::of(100)).address;
    let api = Api::at(world, address);
    api.world.users(2).await;
    for row in ROUTES {
        let Some(which) = row.permit else { continue };
        let permits = which(&app.memory().limits);
        let held: Vec<_> = from_fn(|| permits.take(None).ok()).collect();
        assert!(!held.is_empty(), "{row:?}");
        let answer = api.send(asking(&api, row, Some(BUYER))).await;
        assert_eq!(answer.status, 503, "{row:?}: {answer:?}");
        answer.problem(503, "unavailable").retry_after_s();
    }
}
