//! `serve` with private servers that keep their data.

use nix::sys::signal::Signal;
use serde_json::Value;

use testkit::processes::{Node, descendants_of, is_alive, living_in, place, seckill};
use testkit::shop::api_client::Client;
use testkit::wait::eventually;

async fn voucher_titles(node: &Node) -> Vec<Value> {
    let vouchers = Client::at(node.address).get("/api/vouchers").await;
    vouchers.body.as_array().unwrap().iter().map(|voucher| voucher["title"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_serve_takes_its_servers_along_and_the_next_has_the_data() {
    let place = place();
    let data = place.path().join("data");
    let data = data.to_str().unwrap();
    let serve = || {
        let mut command = seckill(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
        command.env("TMPDIR", place.path());
        command
    };
    let mut first = Node::start(&mut serve()).await;

    // A second command beside it uses the servers that run.
    let add = ["voucher", "add", "--title", "kept", "--stock", "5", "--data-dir", data];
    let added = seckill(&add).env("TMPDIR", place.path()).output().await.unwrap();
    assert!(added.status.success(), "{added:?}");
    let id: i64 = String::from_utf8(added.stdout).unwrap().trim().parse().unwrap();
    assert!(id > 0);
    assert_eq!(voucher_titles(&first).await, ["kept"]);

    let servers = descendants_of(first.pid());
    assert!(servers.len() > 3, "a supervisor, Redis, PostgreSQL and its own: {servers:?}");
    first.send(Signal::SIGKILL);
    first.ended().await;
    // The next one may come while the servers of the first still stop.
    let mut second = Node::start(&mut serve()).await;
    eventually("the servers of the killed one are gone", async || {
        !servers.iter().any(|pid| is_alive(*pid))
    })
    .await;
    assert_eq!(voucher_titles(&second).await, ["kept"]);

    second.send(Signal::SIGTERM);
    assert_eq!(second.ended().await.code(), Some(0));
    assert_eq!(living_in(place.path()), [0; 0]);
}
