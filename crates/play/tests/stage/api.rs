//! Who may begin a show, and how many may watch it.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{SCREEN, page, server, stage};
use testkit::shop::private_server::PrivateServer;
use testkit::wait::eventually;

async fn begin(server: &PrivateServer, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let address = format!("http://{}/api/stage/shows", server.node.address);
    let request = reqwest::Client::new().post(address).json(body);
    let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn until_ended(server: &PrivateServer) -> Value {
    let mut last = Value::Null;
    eventually("the show is over", async || {
        last = stage(server).await;
        ["ended", "failed"].contains(&last["phase"].as_str().unwrap())
    })
    .await;
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_show_is_begun_from_this_machine_and_its_own_page_alone() {
    let server = server(20, 5).await;
    let rush = json!({ "crowd": "rush" });
    for headers in [
        &[("host", "evil.example")][..],
        &[("x-forwarded-for", "192.0.2.1")],
        &[("origin", "http://evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ] {
        let (status, body) = begin(&server, headers, &rush).await;
        assert_eq!((status, &body["code"]), (403, &json!("forbidden")), "{headers:?}");
    }
    for wrong in [
        json!({}),
        json!({ "crowd": "many" }),
        json!({ "crowd": "rush", "users": 7 }),
        json!({ "crowd": "rush", "against": "r99" }),
        json!({ "crowd": "slow", "against": "r01" }),
        json!({ "crowd": "failover", "against": "r01" }),
        json!([]),
    ] {
        let (status, body) = begin(&server, &[], &wrong).await;
        assert_eq!((status, &body["code"]), (422, &json!("invalid_request")), "{wrong}");
    }
    assert_eq!(stage(&server).await["phase"], "idle");
    let (status, _) = begin(&server, &[("sec-fetch-site", "same-origin")], &rush).await;
    assert_eq!(status, 202);
    assert_eq!(until_ended(&server).await["halves"][0]["verdict"]["sold"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_shows_at_once_one_is_played() {
    let server = server(40, 5).await;
    let rush = json!({ "crowd": "rush" });
    for number in 1..=2 {
        let begun = join_all((0..8).map(|_| begin(&server, &[], &rush))).await;
        assert!(begun.iter().all(|it| *it == (202, json!({ "number": number }))), "{begun:?}");
        assert_eq!(until_ended(&server).await["number"], number);
    }
}

/// The shares are those of all streams of events.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_a_share_of_the_streams_and_one_that_never_reads_holds_up_nobody() {
    let arguments =
        ["--listen", "127.0.0.1:0", "--stage-users", "2000", "--streams-per-address", "4"];
    let server = PrivateServer::start_with(&arguments, &[]).await;
    let at = |path: &str| format!("http://{}{path}", server.node.address);
    let address = at("/api/stage/events");
    let client = reqwest::Client::new();
    // They never read.
    let mut deaf = Vec::new();
    for address in [&address, &at("/api/events")] {
        let stream = client.get(address).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        deaf.push(stream);
    }
    assert_eq!(stage(&server).await["phase"], "idle");
    let mut held = Vec::new();
    eventually("the one that looked has left", async || {
        let stream = client.get(&address).send().await.unwrap();
        if stream.status() == 200 {
            held.push(stream);
        }
        held.len() == 2
    })
    .await;
    for address in [&address, &at("/api/events")] {
        let refused = client.get(address).send().await.unwrap();
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().contains_key("retry-after"));
    }
    // A page without a place may start a sale.
    let browser = page(&server, "/watch", SCREEN).await;
    browser.until_text("#message", "Too many pages are watching").await;
    browser.click("#start").await;
    // Two places are free again, for the page and for this test; those who do not read keep nobody from the end.
    drop(held);
    let shown = until_ended(&server).await;
    assert_eq!(shown["halves"][0]["bought"].as_array().unwrap().len(), 200);
    browser.until_shown("#ours[data-holds=true]").await;
    browser.close_after_cuts().await;
    drop(deaf);
}
