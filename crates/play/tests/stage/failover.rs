//! One of two servers is killed in the middle of a sale.

use serde_json::json;

use super::{SCREEN, page, server, stage};
use testkit::processes::descendants_of;
use testkit::shop::private_server::PrivateServer;
use testkit::wait::eventually;

/// The servers that `play` has started.
fn servers(server: &PrivateServer) -> usize {
    let is_server = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"serve")
    };
    descendants_of(server.node.pid()).iter().filter(|pid| is_server(pid)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_servers_is_killed_and_the_other_sells_what_is_left() {
    let server = server(400, 60).await;
    let browser = page(&server, "/watch", SCREEN).await;
    assert!(!browser.shows("#kill").await);
    browser.click("#failover").await;
    browser.until_text("#ours-title", "Two servers, one database").await;
    browser.until_text("#ours .sentence", "of 80 attempts are over").await;
    browser.until("Number(document.querySelector('#ours .number').textContent) < 32").await;
    assert_eq!(servers(&server), 2);
    browser.click("#kill").await;
    browser.until_text("#ours-title", "Server 2 is dead").await;
    browser.until("document.querySelector('#kill').disabled").await;
    eventually("one server is left", async || servers(&server) < 2).await;
    browser.until_text("#ours .sentence", "32 buyers hold 32 vouchers. 0 never existed.").await;
    browser.until_text("#ours .sentence", "Server 2 was killed with").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.until("!document.querySelector('#kill').checkVisibility()").await;

    let shown = stage(&server).await;
    let half = &shown["halves"][0];
    assert!(half["killed_at"].as_i64().unwrap() > 0, "{shown}");
    assert!(half["verdict"]["silent"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(half["verdict"]["unexpected"], 0);
    let (voucher, token) = (half["voucher_id"].as_str().unwrap(), server.admin().await);
    let audit = server.send("POST", &format!("/api/vouchers/{voucher}/audit"), &token, None).await;
    let audit = &audit.is(200).body;
    assert_eq!((&audit["holds"], &audit["orders"]), (&json!(true), &json!(32)));
    eventually("no server is left", async || servers(&server) == 0).await;
    browser.close().await;
}

/// A kill is nothing where no two servers sell, and nobody from elsewhere may have one.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_page_of_this_server_kills_and_only_one_of_two() {
    let server = server(20, 5).await;
    let kill = async |site: &str| {
        let address = format!("http://{}/api/stage/kill", server.node.address);
        let request = reqwest::Client::new().post(address).header("sec-fetch-site", site);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(kill("cross-site").await, 403);
    assert_eq!(kill("same-origin").await, 204);
    assert_eq!(stage(&server).await["phase"], "idle");
}
