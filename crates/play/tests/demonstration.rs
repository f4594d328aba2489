//! Who is an administrator of a demonstration, and who is shown login codes.

use serde_json::json;

use testkit::shop::private_server::{DEMO_ADMIN_PHONE, PrivateServer};

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_of_a_demonstration_is_one_only_from_this_machine() {
    let server = PrivateServer::start().await;
    let token = server.admin().await;
    let from = async |header: &str, value: &str| {
        let request = server.api.request("GET", "/api/refunds").bearer_auth(&token);
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
        // It does not read the path.
        (
            "127.0.0.1:0",
            &[("SECKILL_TRUSTED_PROXIES", "10.0.0.0/8"), ("SECKILL_BASE_PATH", "/shop")],
        ),
        ("127.0.0.1:0", &[("SECKILL_SMS", "log"), ("SECKILL_ADMIN_PHONES", "13800138000")]),
        ("0.0.0.0:0", &[]),
    ];
    for (listen, variables) in others {
        let mut server = PrivateServer::start_with(&["--listen", listen], variables).await;
        server.api.address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        let token = server.admin().await;
        let answer = server.send("GET", "/api/refunds", &token, None).await;
        answer.problem(403, "forbidden");
    }
}
