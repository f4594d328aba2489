//! Crowds that a server sends at itself.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use testkit::processes::{children_of, living_in};
use testkit::shop::api_client::Answer;
use testkit::shop::private_server::{DEMO_ADMIN_PHONE, PrivateServer};
use testkit::wait::eventually;

const CURRENT: &str = "/api/crowds/current";

fn crowd(voucher: &str, users: impl Into<Value>, attempts: impl Into<Value>) -> Value {
    json!({ "voucher_id": voucher, "users": users.into(), "attempts": attempts.into() })
}

async fn send(server: &PrivateServer, token: &str, crowd: &Value) -> Answer {
    server.send("POST", "/api/crowds", token, Some(crowd)).await
}

async fn current(server: &PrivateServer, token: &str) -> Value {
    server.insist("GET", CURRENT, token).await.is(200).body.clone()
}

/// The verdict on a crowd, once it is over.
async fn verdict(server: &PrivateServer, token: &str) -> Value {
    let mut last = Value::Null;
    eventually("the crowd is over", async || {
        last = current(server, token).await;
        ["ended", "stopped", "failed"].contains(&last["phase"].as_str().unwrap())
    })
    .await;
    assert_eq!((&last["phase"], &last["failure"]), (&json!("ended"), &Value::Null), "{last}");
    assert_eq!(last["done"], last["total"], "{last}");
    last["verdict"].take()
}

fn outcomes(verdict: &Value) -> u64 {
    verdict["outcomes"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_sells_a_voucher_out_and_is_judged_also_when_others_bought_before() {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let voucher = server.voucher(&token, 50, 0).await;
    let buying = format!("/api/vouchers/{voucher}/orders");
    server.send("POST", &buying, &token, None).await.is(201);

    let sent = send(&server, &token, &crowd(&voucher, 200, 3)).await;
    assert_eq!(sent.is(202).header("location"), Some(CURRENT));
    assert_eq!((&sent.body["phase"], &sent.body["total"]), (&json!("preparing"), &json!(600)));
    let judged = verdict(&server, &token).await;
    assert_eq!((&judged["holds"], &judged["orders"]), (&json!(true), &json!(49)), "{judged}");
    assert_eq!((outcomes(&judged), &judged["outcomes"]["ordered"]), (600, &json!(49)), "{judged}");
    let audit = &judged["audit"];
    assert_eq!((&audit["orders"], &audit["stock"]), (&json!(50), &json!(0)), "{judged}");
    for figure in ["untold", "lost", "undersold", "unexpected"] {
        assert_eq!(judged[figure], 0, "{judged}");
    }
    assert!(judged["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{judged}");

    // Another one finds nothing left.
    send(&server, &token, &crowd(&voucher, 20, 2)).await.is(202);
    let judged = verdict(&server, &token).await;
    assert_eq!((&judged["holds"], &judged["orders"]), (&json!(true), &json!(0)), "{judged}");
    assert_eq!(outcomes(&judged), 40, "{judged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_for_administrators_and_has_bounds() {
    let server = PrivateServer::start().await;
    let (token, buyer) = tokio::join!(server.admin(), server.login("13800138000"));
    let voucher = server.voucher(&token, 50, 0).await;
    let good = crowd(&voucher, 10, 1);
    for (method, path) in [("POST", "/api/crowds"), ("GET", CURRENT), ("DELETE", CURRENT)] {
        let body = (method == "POST").then_some(&good);
        let forged = format!("{token}x");
        for (token, status, code) in [
            ("", 401, "unauthenticated"),
            (forged.as_str(), 401, "unauthenticated"),
            (buyer.as_str(), 403, "forbidden"),
        ] {
            server.send(method, path, token, body).await.problem(status, code);
        }
    }
    let huge: Value = serde_json::from_str("99999999999999999999999999").unwrap();
    for wrong in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(20_001),
        json!(2_147_483_648_i64),
        json!(1e300),
        json!("10"),
        json!(null),
        json!([10]),
        huge,
    ] {
        let of_users = send(&server, &token, &crowd(&voucher, wrong.clone(), 1)).await;
        of_users.problem(422, "invalid_request");
        let of_attempts = send(&server, &token, &crowd(&voucher, 1, wrong)).await;
        of_attempts.problem(422, "invalid_request");
    }
    send(&server, &token, &crowd(&voucher, 1, 11)).await.problem(422, "invalid_request");
    for id in ["0", "-1", "", "9223372036854775808"] {
        send(&server, &token, &crowd(id, 1, 1)).await.problem(422, "invalid_request");
    }
    let mut more = good.clone();
    more["nodes"] = json!(["192.0.2.1:80"]);
    send(&server, &token, &more).await.problem(422, "invalid_request");
    send(&server, &token, &crowd("987654321", 1, 1)).await.problem(404, "voucher_not_found");
    let later = server.voucher(&token, 5, 3_600).await;
    let early = send(&server, &token, &crowd(&later, 1, 1)).await;
    assert!(early.problem(409, "sale_not_started").body["begin_time"].is_string());
    let over = server.voucher(&token, 5, -25 * 3_600).await;
    send(&server, &token, &crowd(&over, 1, 1)).await.problem(409, "sale_ended");
    // Of all that, nothing was begun.
    server.send("GET", CURRENT, &token, None).await.is(204);
    server.send("DELETE", CURRENT, &token, None).await.problem(404, "crowd_not_found");
    send(&server, &token, &good).await.is(202);
    verdict(&server, &token).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_crowds_at_once_one_is_sent_and_it_can_be_stopped() {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    // Its sale begins later, so it is under way until it is stopped.
    let voucher = server.voucher(&token, 5, 50).await;
    let plan = crowd(&voucher, 5, 1);
    for _ in 0..3 {
        let all = futures_util::future::join_all((0..8).map(|_| send(&server, &token, &plan)));
        let mut statuses: Vec<u16> = all.await.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409]);
        send(&server, &token, &plan).await.problem(409, "crowd_in_progress");
        assert_eq!(current(&server, &token).await["phase"], "preparing");
        for _ in 0..2 {
            server.send("DELETE", CURRENT, &token, None).await.is(204);
            let stopped = current(&server, &token).await;
            assert_eq!((&stopped["phase"], &stopped["done"]), (&json!("stopped"), &json!(0)));
        }
    }
}

/// A server whose crowd is in the middle of its attempts.
async fn in_the_middle_of_a_crowd() -> (PrivateServer, String) {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let voucher = server.voucher(&token, 20_000, 0).await;
    send(&server, &token, &crowd(&voucher, 20_000, 10)).await.is(202);
    eventually("the crowd has sent attempts", async || {
        let crowd = current(&server, &token).await;
        crowd["phase"] == "running" && crowd["done"].as_u64().unwrap() > 0
    })
    .await;
    (server, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_is_stopped_leaves_no_process_and_a_sale_that_holds() {
    let (server, token) = in_the_middle_of_a_crowd().await;
    let before = children_of(server.node.pid());
    server.insist("DELETE", CURRENT, &token).await.is(204);
    assert_eq!(current(&server, &token).await["phase"], "stopped");
    eventually("the crowd's process is gone", async || {
        children_of(server.node.pid()).len() == before.len() - 1
    })
    .await;
    let voucher = current(&server, &token).await["voucher_id"].as_str().unwrap().to_owned();
    let path = format!("/api/vouchers/{voucher}/audit");
    let audit = server.insist("POST", &path, &token).await;
    assert_eq!(audit.is(200).body["holds"], true, "{audit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_of_a_crowd_leaves_no_process() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let (mut server, _) = in_the_middle_of_a_crowd().await;
        // The server, the crowd, the supervisor and both stores at least.
        assert!(living_in(server.place.path()).len() >= 5);
        server.node.send(signal);
        let ended = server.node.ended().await;
        assert_eq!(ended.success(), signal == Signal::SIGTERM, "{ended}");
        eventually("nothing runs any more", async || living_in(server.place.path()).is_empty())
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_of_a_demonstration_is_one_only_from_this_machine() {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let from = async |header: &str, value: &str| {
        let request = server.api.request("GET", "/api/nodes").bearer_auth(&token);
        server.api.send(request.header(header, value)).await
    };
    from("host", "localhost:1").await.is(200);
    from("host", "evil.example").await.problem(403, "forbidden");
    from("x-forwarded-for", "192.0.2.1").await.problem(403, "forbidden");
    from("forwarded", "for=192.0.2.1").await.problem(403, "forbidden");
}

/// Whoever asks is shown the code; that of an administrator only on this machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_request_for_a_login_code_has_the_code() {
    let server = PrivateServer::start().await;
    for (phone, headers, is_shown) in [
        ("13800138000", &[][..], true),
        ("13800138001", &[("host", "evil.example")], true),
        (DEMO_ADMIN_PHONE, &[], true),
        (DEMO_ADMIN_PHONE, &[("host", "evil.example")], false),
        (DEMO_ADMIN_PHONE, &[("x-forwarded-for", "192.0.2.1")], false),
    ] {
        let request = server.api.request("POST", "/api/login-codes");
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        let sent = server.api.send(request.json(&json!({ "phone": phone }))).await;
        let code = sent.is(202).body["code"].as_str();
        assert_eq!(
            code.is_some_and(|code| code.len() == 6),
            is_shown,
            "{phone} {headers:?}: {sent:?}"
        );
        assert!(sent.body["expires_in_s"].is_u64(), "{sent:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_configures_administrators_or_listens_to_others_has_no_other_administrator() {
    let others: [(&str, &[(&str, &str)]); 4] = [
        ("127.0.0.1:0", &[("SECKILL_ADMIN_PHONES", "13800138000")]),
        ("127.0.0.1:0", &[("SECKILL_TRUSTED_PROXIES", "10.0.0.0/8")]),
        ("127.0.0.1:0", &[("SECKILL_SMS", "log"), ("SECKILL_ADMIN_PHONES", "13800138000")]),
        ("0.0.0.0:0", &[]),
    ];
    for (listen, variables) in others {
        let mut server = PrivateServer::start_with(&["--listen", listen], variables).await;
        server.api.address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        let token = server.admin().await;
        let answer = server.send("GET", "/api/nodes", &token, None).await;
        answer.problem(403, "forbidden");
    }
}
