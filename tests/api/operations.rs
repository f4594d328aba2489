//! What operators look at, and what the API says of routes that it does not have.

use std::collections::BTreeSet;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use seckill::http::with_common_layers;
use seckill::telemetry;
use serde_json::json;
use tower::ServiceExt;

use testkit::raw_http::{HEALTHZ, Raw};
use testkit::shop::api_client::{Api, DOCUMENT};
use testkit::shop::world::World;
use testkit::wait::eventually;

/// The servers of the tests may lose the last moments before they are killed.
fn readiness(database: &str) -> serde_json::Value {
    let durability = "unsafe: fsync or full_page_writes is off";
    json!({
        "database": database,
        "redis": "ok",
        "durability": durability,
        "cut_off": false,
        "draining": false,
    })
}

#[tokio::test]
async fn the_process_is_alive_and_ready() {
    let api = Api::shared().await;
    let alive = api.get("/healthz").await;
    assert_eq!((alive.status, alive.text.as_str()), (200, "ok\n"));
    let ready = api.get("/readyz").await;
    assert_eq!((ready.status, &ready.body), (200, &readiness("ok")));
}

#[tokio::test]
async fn a_process_whose_database_is_away_says_so_and_goes_on_refusing() {
    let api = Api::new().await;
    api.world.database.close().await;
    api.get("/healthz").await.is(200);
    eventually("the process notices", async || {
        let ready = api.get("/readyz").await;
        assert_eq!(ready.status, 200, "nobody else does better: {ready:?}");
        ready.body == readiness("unavailable")
    })
    .await;
    for path in ["/api/vouchers", "/api/vouchers/1", "/api/me", "/api/orders", "/api/orders/1"] {
        let answer = api.get_as(1, path).await;
        assert!(answer.problem(503, "unavailable").header("retry-after").is_some());
    }
    let answer = api.buy(1, 1).await;
    assert!(answer.problem(503, "unavailable").header("retry-after").is_some());
}

#[tokio::test]
async fn the_metrics_count_purchases_and_answers() {
    let api = Api::with_users(1).await;
    let voucher = api.world.voucher(5).await;
    api.buy(1, voucher.id).await.is(201);
    let metrics = api.get("/metrics").await;
    assert!(
        metrics.is(200).header("content-type").unwrap().starts_with("text/plain; version=0.0.4")
    );
    for line in metrics.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
        assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
    }
    // Other tests count into the same process: at least ours must be there.
    let counted = |start: &str| {
        let mut lines = metrics.text.lines().filter(|line| line.starts_with(start));
        lines.any(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() >= 1.0)
    };
    assert!(counted("seckill_purchases_total{outcome=\"ordered\"}"), "{}", metrics.text);
    let buying =
        "seckill_http_request_seconds_count{route=\"/api/vouchers/{id}/orders\",status=\"201\"}";
    assert!(counted(buying), "{}", metrics.text);
}

#[tokio::test]
async fn an_unknown_route_is_a_problem_like_any_other() {
    let api = Api::shared().await;
    let paths = [
        "/api",
        "/api/",
        "/api/nothing",
        "/api/vouchers/",
        "/api/vouchers/1/orders/",
        "/api/vouchers/1/orders/2",
        "/%FF",
        "/docs/nothing.html",
    ];
    for path in paths {
        for method in ["GET", "POST", "DELETE"] {
            if path.starts_with("/docs") && method != "GET" {
                continue;
            }
            api.send(api.request(method, path)).await.problem(404, "not_found");
        }
    }
    // What weighs most is the unit test's of languages.
    let titles: [(&str, &[u8], &str); 3] = [
        ("/api/nothing", b"zh", "资源不存在"),
        ("/api/vouchers/1", b"zh", "优惠券不存在"),
        ("/api/vouchers/1", b"\xff\xfe", "There is no such voucher"),
    ];
    for (path, language, title) in titles {
        let request = api.request("GET", path).header("accept-language", language);
        assert_eq!(api.send(request).await.text_of("title"), title, "{path} {language:?}");
    }
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let api = Api::shared().await;
    let documented = DOCUMENT["paths"].as_object().unwrap().iter().map(|(path, item)| {
        let methods = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
        (path.replace("{id}", "1"), methods.collect::<BTreeSet<_>>())
    });
    let pages = ["/docs", "/docs/", "/api/openapi.json"];
    let pages = pages.map(|path| (path.to_owned(), BTreeSet::from(["GET".to_owned()])));
    for (path, mut methods) in documented.chain(pages) {
        if methods.contains("GET") {
            methods.insert("HEAD".to_owned());
        }
        let answer = api.send(api.request("BREW", &path)).await;
        let allow = answer.problem(405, "method_not_allowed").header("allow").unwrap();
        let allowed: BTreeSet<_> =
            allow.split(',').map(|method| method.trim().to_owned()).collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_their_limits() {
    let api = Api::with_users(1).await;
    let too_large = "x".repeat(20_000);
    let requests = [
        (200, api.request("GET", "/healthz")),
        (200, api.request("GET", "/api/vouchers")),
        (200, api.request("GET", "/api/openapi.json")),
        (303, api.request("GET", "/docs")),
        (200, api.request("GET", "/docs/")),
        (200, api.request("GET", "/docs/swagger-initializer.js")),
        (404, api.request("GET", "/docs/nothing")),
        (404, api.request("GET", "/nothing")),
        (401, api.request("GET", "/api/me")),
        (405, api.request("POST", "/api/me")),
        (413, api.request("POST", "/api/sessions").body(too_large)),
        (404, api.buying(1, 17)),
    ];
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.build().unwrap();
    for (status, request) in requests {
        let request = request.build().unwrap();
        let path = request.url().path().to_owned();
        let answer = client.execute(request).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let header = |name: &str| answer.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{path}: {policy}");
        assert!(policy.ends_with("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        let is_of_the_page = path.starts_with("/docs/") && status == 200;
        assert_eq!(policy.contains("script-src"), is_of_the_page, "{path}: {policy}");
    }
}

#[tokio::test]
async fn head_and_options_are_answered_on_every_route() {
    let api = Api::shared().await;
    let documented =
        DOCUMENT["paths"].as_object().unwrap().keys().map(|path| path.replace("{id}", "1"));
    let paths: Vec<String> = documented
        .chain(["/docs/", "/docs", "/api/openapi.json", "/nothing"].map(str::to_owned))
        .collect();
    for path in &paths {
        for method in ["HEAD", "OPTIONS", "TRACE"] {
            let answer = api.send(api.request(method, path)).await;
            assert!(
                answer.status < 500 && (method != "HEAD" || answer.text.is_empty()),
                "{path} {answer:?}"
            );
        }
    }
    // The next answer on the connection stands where it must: a HEAD has no body.
    let mut raw = Raw::connect(api.address).await;
    for path in &paths {
        raw.send(format!("HEAD {path} HTTP/1.1\r\nhost: s\r\n\r\n")).await;
        raw.answer_to_head().await.unwrap();
    }
    assert_eq!(raw.ask(HEALTHZ).await.body, b"ok\n");
}

#[tokio::test]
async fn a_handler_that_panics_is_answered_with_a_problem_and_counted() {
    telemetry::start_metrics();
    let panics = get(async || -> &'static str { panic!("a panic on purpose") });
    let routes = with_common_layers(Router::new().route("/panics", panics));
    let request = Request::get("/panics").header("accept-language", "zh").body(Body::empty());
    let answer = routes.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 500);
    let headers = answer.headers();
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(headers["content-language"], "zh-CN");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    let body = to_bytes(answer.into_body(), 1024).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&problem["code"], &problem["status"]), (&json!("internal_error"), &json!(500)));
    let counted = "seckill_http_request_seconds_count{route=\"/panics\",status=\"500\"} 1";
    assert!(telemetry::metrics_text().contains(counted), "{}", telemetry::metrics_text());
}

#[tokio::test]
async fn a_request_has_an_id_that_its_answer_and_its_problem_name() {
    let api = Api::shared().await;
    let given = api.request("GET", "/api/orders").header("x-request-id", "of-the-balancer.1");
    let refused = api.send(given).await;
    refused.problem(401, "unauthenticated");
    assert_eq!(refused.header("x-request-id"), Some("of-the-balancer.1"));
    assert_eq!(refused.body["request_id"], "of-the-balancer.1");
    // What a log could not show is not taken over.
    let answer = api.send(api.request("GET", "/healthz").header("x-request-id", "a b")).await;
    assert_eq!(answer.header("x-request-id").unwrap().len(), 32, "{answer:?}");
    let ids = [api.get("/nothing").await, api.get("/nothing").await];
    assert_ne!(ids[0].header("x-request-id"), ids[1].header("x-request-id"));
    assert_eq!(ids[0].header("x-request-id"), ids[0].body["request_id"].as_str());
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_may_use_the_api_and_one_of_another_may_not() {
    let origins = "https://shop.example".parse().unwrap();
    let api = Api::of(World::with(|settings| settings.allowed_origins = origins).await).await;
    let allows = "access-control-allow-origin";
    let asked = async |origin: &str| {
        let preflight = api.request("OPTIONS", "/api/vouchers/1/orders").header("origin", origin);
        let preflight = preflight
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,content-type");
        preflight.send().await.unwrap()
    };
    let allowed = asked("https://shop.example").await;
    assert_eq!(
        (allowed.status(), allowed.headers()[allows].to_str().unwrap()),
        (StatusCode::OK, "https://shop.example")
    );
    let headers = allowed.headers()["access-control-allow-headers"].to_str().unwrap();
    for header in ["authorization", "content-type", "traceparent", "tracestate", "baggage"] {
        assert!(headers.split(',').any(|allowed| allowed == header), "{header}: {headers}");
    }
    assert!(!allowed.headers().contains_key("access-control-allow-credentials"));
    for other in ["https://shop.example.evil.example", "http://shop.example", "null"] {
        assert!(!asked(other).await.headers().contains_key(allows), "{other}");
    }
    // Also what is refused before it has a route can be read.
    let too_large = api.request("POST", "/api/sessions").header("origin", "https://shop.example");
    let refused = too_large.body(vec![b' '; 20_000]).send().await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), refused.headers()[allows].to_str().unwrap()),
        (413, "https://shop.example")
    );
    let exposed = refused.headers()["access-control-expose-headers"].to_str().unwrap();
    for header in ["date", "retry-after", "x-request-id"] {
        assert!(exposed.split(',').any(|shown| shown == header), "{header}: {exposed}");
    }

    // Off by default.
    let api = Api::shared().await;
    let asked = api.request("GET", "/api/vouchers").header("origin", "https://shop.example");
    assert_eq!(api.send(asked).await.header(allows), None);
}
