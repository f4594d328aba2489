//! Tokens that are not ours, not any more, or not tokens.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use ring::hmac;
use serde_json::{Value, json};

use testkit::shop::api_client::Api;

/// `{"alg":"none","typ":"JWT"}`
const HEADER_ALG_NONE: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";

async fn refuses(api: &Api, header: &[u8]) {
    for (method, path) in
        [("GET", "/api/me"), ("GET", "/api/orders"), ("POST", "/api/vouchers/1/orders")]
    {
        let answer = api.send(api.request(method, path).header("authorization", header)).await;
        answer.problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
}

/// A token whose header names `algorithm`; by one that there is not, it is signed with HMAC-SHA256.
pub fn signed(algorithm: &str, secret: &str, claims: &Value) -> String {
    let hmac = match algorithm {
        "HS384" => hmac::HMAC_SHA384,
        "HS512" => hmac::HMAC_SHA512,
        _ => hmac::HMAC_SHA256,
    };
    let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
    let header = json!({ "alg": algorithm, "typ": "JWT" });
    let signed = format!("{}.{}", encoded(&header), encoded(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

#[tokio::test]
async fn a_request_without_a_proper_header_is_refused() {
    let api = Api::with_users(1).await;
    let good = api.world.token(1);
    for path in ["/api/me", "/api/orders", "/api/orders/1"] {
        api.get(path).await.problem(401, "unauthenticated");
    }
    api.send(api.request("POST", "/api/vouchers/1/orders")).await.problem(401, "unauthenticated");
    let (basic, twice) = (format!("Basic {good}"), format!("Bearer {good} {good}"));
    let long = format!("Bearer {}", "x".repeat(10_000));
    for header in
        ["", "Bearer", "Bearer ", &good, &basic, "Bearer a.b.c", "Bearer ..", &twice, &long]
    {
        refuses(&api, header.as_bytes()).await;
    }
    refuses(&api, b"Bearer \xff\xfe").await;
}

#[tokio::test]
async fn a_token_that_is_not_ours_or_does_not_say_what_it_must_is_refused() {
    let api = Api::with_users(2).await;
    let (good, other) = (api.world.token(1), api.world.token(2));
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let other_claims = other.split('.').nth(1).unwrap();
    let end = 4_000_000_000_u64;
    let said = json!({ "sub": "1", "exp": end, "iat": 7, "admin": true });
    let of_ours = |claims| signed("HS256", &api.world.secret, &claims);
    for token in [
        format!("{header}.{other_claims}.{signature}"),
        // That a signature is whole and ours is the unit test's of tokens.
        format!("{header}.{claims}"),
        format!("{HEADER_ALG_NONE}.{claims}."),
        format!("{HEADER_ALG_NONE}.{claims}.{signature}"),
        format!("{HEADER_ALG_NONE}.{claims}"),
        signed("HS384", &api.world.secret, &said),
        signed("HS512", &api.world.secret, &said),
        // The signature is good, and the header says that it is none.
        signed("none", &api.world.secret, &said),
        signed("hs256", &api.world.secret, &said),
        signed("HS256", "another secret, as long as ours", &said),
        signed("HS256", "", &said),
        of_ours(json!({ "sub": "1", "iat": 7 })),
        of_ours(json!({ "sub": "1", "exp": end })),
        of_ours(json!({ "exp": end, "iat": 7 })),
        of_ours(json!({ "sub": 1, "exp": end, "iat": 7 })),
        of_ours(json!({ "sub": "-1", "exp": end, "iat": 7 })),
        of_ours(json!({ "sub": "0", "exp": end, "iat": 7 })),
        of_ours(json!({ "sub": "1", "exp": "never", "iat": 7 })),
        of_ours(json!({ "sub": "1", "exp": -1, "iat": 7 })),
        of_ours(json!({ "sub": "1", "exp": end, "iat": "now" })),
        of_ours(json!({ "sub": "1", "exp": end, "iat": 1e300 })),
    ] {
        refuses(&api, format!("Bearer {token}").as_bytes()).await;
    }
    for token in [good, of_ours(said)] {
        api.call("GET", "/api/me", &token).await.is(200);
    }
}

#[tokio::test]
async fn a_token_is_void_from_the_second_it_names() {
    let api = Api::with_users(1).await;
    let token = api.world.token(1);
    let me = || api.call("GET", "/api/me", &token);
    api.world.clock.advance(TimeDelta::minutes(60) - TimeDelta::microseconds(1));
    me().await.is(200);
    api.world.clock.advance(TimeDelta::microseconds(1));
    me().await.problem(401, "unauthenticated");
}
