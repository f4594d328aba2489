//! Tokens that are not ours, not any more, or not tokens.

use chrono::TimeDelta;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use seckill::http::tokens::Tokens;
use seckill::model::Clock;
use serde_json::{Value, json};

use testkit::shop::api_client::Api;
use testkit::shop::world::user;

/// `{"alg":"none","typ":"JWT"}`
const HEADER_ALG_NONE: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";

async fn refuses(api: &Api, header: &[u8]) {
    for (method, path) in
        [("GET", "/api/me"), ("GET", "/api/orders"), ("POST", "/api/vouchers/1/orders")]
    {
        let request = api.request(method, path).header("authorization", header);
        let answer = api.send(request).await;
        answer.problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
}

fn signed(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(algorithm), claims, &key).unwrap()
}

#[tokio::test]
async fn a_request_without_a_proper_header_is_refused() {
    let api = Api::new().await;
    api.world.users(1).await;
    let good = api.world.token(1);
    for path in ["/api/me", "/api/orders", "/api/orders/1"] {
        api.get(path).await.problem(401, "unauthenticated");
    }
    api.send(api.request("POST", "/api/vouchers/1/orders")).await.problem(401, "unauthenticated");
    for header in [
        "",
        "Bearer",
        "Bearer ",
        good.as_str(),
        "Basic YTpi",
        "Bearer a.b.c",
        "Bearer ..",
        "Bearer \t",
    ] {
        refuses(&api, header.as_bytes()).await;
    }
    refuses(&api, format!("Basic {good}").as_bytes()).await;
    refuses(&api, format!("Bearer {good} {good}").as_bytes()).await;
    refuses(&api, b"Bearer \xff\xfe").await;
    refuses(&api, format!("Bearer {}", "x".repeat(10_000)).as_bytes()).await;
}

#[tokio::test]
async fn a_forged_token_is_refused() {
    let api = Api::new().await;
    api.world.users(2).await;
    let good = api.world.token(1);
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let other = api.world.token(2);
    let other_claims = other.split('.').nth(1).unwrap();
    let last = if signature.ends_with('A') { "Q" } else { "A" };
    let forged = [
        format!("{header}.{other_claims}.{signature}"),
        format!("{header}.{claims}."),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.{}{last}", &signature[..signature.len() - 1]),
        format!("{HEADER_ALG_NONE}.{claims}."),
        format!("{HEADER_ALG_NONE}.{claims}.{signature}"),
        format!("{HEADER_ALG_NONE}.{claims}"),
    ];
    for token in forged {
        refuses(&api, format!("Bearer {token}").as_bytes()).await;
    }
    api.get_as(1, "/api/me").await.is(200);
}

#[tokio::test]
async fn a_token_of_another_algorithm_or_secret_is_refused() {
    let api = Api::new().await;
    api.world.users(1).await;
    let claims = json!({ "sub": "1", "exp": 4_000_000_000_u64, "admin": true });
    let secret = api.world.secret.clone();
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        refuses(&api, format!("Bearer {}", signed(algorithm, &secret, &claims)).as_bytes()).await;
    }
    let other = signed(Algorithm::HS256, "another secret, as long as ours", &claims);
    refuses(&api, format!("Bearer {other}").as_bytes()).await;
    refuses(&api, format!("Bearer {}", signed(Algorithm::HS256, "", &claims)).as_bytes()).await;
    let ours = signed(Algorithm::HS256, &secret, &claims);
    api.send(api.request("GET", "/api/me").bearer_auth(ours)).await.is(200);
}

#[tokio::test]
async fn a_token_that_does_not_say_what_it_must_is_refused() {
    let api = Api::new().await;
    api.world.users(1).await;
    let end = 4_000_000_000_u64;
    let incomplete = [
        json!({ "sub": "1" }),
        json!({ "exp": end }),
        json!({ "sub": 1, "exp": end }),
        json!({ "sub": "-1", "exp": end }),
        json!({ "sub": "0", "exp": end }),
        json!({ "sub": "1", "exp": "never" }),
        json!({ "sub": "1", "exp": -1 }),
        json!({ "sub": "1", "exp": end, "iat": "now" }),
        json!({ "sub": "1", "exp": end, "iat": 1e300 }),
    ];
    for claims in incomplete {
        let token = signed(Algorithm::HS256, &api.world.secret, &claims);
        refuses(&api, format!("Bearer {token}").as_bytes()).await;
    }
}

#[tokio::test]
async fn a_token_is_void_from_the_second_it_names() {
    let api = Api::new().await;
    api.world.users(1).await;
    let token = api.world.token(1);
    let me = async || api.send(api.request("GET", "/api/me").bearer_auth(&token)).await;
    api.world.clock.advance(TimeDelta::minutes(60) - TimeDelta::microseconds(1));
    me().await.is(200);
    api.world.clock.advance(TimeDelta::microseconds(1));
    me().await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn an_administrators_token_is_not_made_of_a_buyers() {
    let api = Api::new().await;
    api.world.users(1).await;
    let body = json!({ "title": "t", "stock": 1 });
    let create = async |token: String| {
        api.send(api.request("POST", "/api/vouchers").json(&body).bearer_auth(token)).await
    };
    create(api.world.token(1)).await.problem(403, "forbidden");
    create(api.world.admin_token(1).await).await.is(201);
    let stranger = Tokens::new(b"another secret, as long as ours", api.world.clock.clone());
    let now = api.world.clock.now();
    let token = stranger.mint(user(1), now, now + TimeDelta::hours(1)).unwrap();
    create(token).await.problem(401, "unauthenticated");
}
