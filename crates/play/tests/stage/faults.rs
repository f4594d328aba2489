//! What a page says when something of the show dies.

use std::env::{split_paths, var_os};
use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use serde_json::json;

use super::{SCREEN, dots, page, server, stage, until_sold};
use testkit::processes::{descendants_of, is_alive, living_in, send};
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::Browser;
use testkit::wait::eventually;

/// The process below the server's whose command line has this word.
fn process(server: &PrivateServer, word: &str) -> Option<u32> {
    descendants_of(server.node.pid()).into_iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

/// A page that watches a slow crowd, which is in the middle of its sale.
async fn in_the_middle(server: &PrivateServer) -> Browser {
    let browser = page(server, "/watch", SCREEN).await;
    browser.click("#slow").await;
    browser.until_text("#shop-link", "Buy against 10 others").await;
    browser.until_text("#ours .sentence", "of 10 attempts are over").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_loaded_again_in_the_middle_goes_on_watching() {
    let server = server(400, 12).await;
    let browser = in_the_middle(&server).await;
    browser.until("Number(document.querySelector('#ours .number').textContent) < 4").await;
    browser.reload().await;
    until_sold(&browser, 4, 6).await;
    assert_eq!(stage(&server).await["number"], 1);
    browser.close().await;
}

/// A buyer of the game in the middle of a purchase, with three Redis servers beside.
async fn session(server: &PrivateServer) {
    let body = json!({ "rung": "r14_multi_lock", "users": 1, "stock": 2, "schedule": "AAB" });
    server.api.post("/api/lab/sessions", &body).await.is(201);
}

/// Waits until nothing is left of all that the server started but its data and its log.
async fn until_all_is_gone(server: &PrivateServer, below: &[u32]) {
    eventually("nothing of it is left", async || {
        let kept = fs::read_dir(server.place.path()).unwrap().count();
        let is_any_alive = below.iter().any(|pid| is_alive(*pid));
        !is_any_alive && living_in(server.place.path()).is_empty() && kept == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_is_said_to_be_gone_and_leaves_nothing() {
    let mut server = server(400, 20).await;
    session(&server).await;
    let browser = in_the_middle(&server).await;
    let below = descendants_of(server.node.pid());
    assert!(below.len() >= 10, "the stores, the crowd, and the game's: {below:?}");
    server.node.send(Signal::SIGKILL);
    browser.until_text("#message", "The server is gone, and the show with it").await;
    assert_eq!(browser.value("document.querySelector('#start').disabled").await, true);
    server.node.ended().await;
    until_all_is_gone(&server, &below).await;
    // One at the same address is found, and there is no show.
    server.start_again().await;
    browser.until_text("#ours .sentence", "400 buyers want 40 vouchers").await;
    browser.until("document.querySelector('#message').hidden").await;
    browser.until("!document.querySelector('#start').disabled").await;
    browser.close_after_cuts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_does_not_wait_for_the_show_and_leaves_nothing() {
    let mut server = server(400, 60).await;
    session(&server).await;
    let browser = in_the_middle(&server).await;
    let below = descendants_of(server.node.pid());
    server.node.send(Signal::SIGTERM);
    assert!(server.node.ended().await.success());
    let log = fs::read_to_string(server.place.path().join("log")).unwrap();
    assert!(!log.contains("requests that were not answered in time were dropped"), "{log}");
    until_all_is_gone(&server, &below).await;
    browser.until_text("#message", "The server is gone").await;
    browser.close_after_cuts().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_dies_is_told_in_a_sentence_and_there_is_another_one() {
    let server = server(400, 30).await;
    let browser = in_the_middle(&server).await;
    let mut crowd = None;
    eventually("the crowd's process is found", async || {
        crowd = process(&server, "crowd");
        crowd.is_some()
    })
    .await;
    send(crowd.unwrap(), Signal::SIGKILL);
    browser.until_text("#message", "The process that sends the crowd has died").await;
    // What nobody was told stays open.
    assert!(browser.value(&dots("ours", "waiting")).await.as_u64().unwrap() > 0);
    browser.click("#start").await;
    until_sold(&browser, 40, 360).await;
    browser.until("document.querySelector('#message').hidden").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer_is_told_in_a_sentence_and_there_is_another_show() {
    let server = server(400, 5).await;
    let browser = in_the_middle(&server).await;
    let databases: Vec<u32> = descendants_of(server.node.pid())
        .into_iter()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.trim_end() == "postgres")
        })
        .collect();
    assert!(!databases.is_empty());
    for pid in &databases {
        send(*pid, Signal::SIGSTOP);
    }
    browser.until_text("#message", "The database went away before it could be audited").await;
    for pid in &databases {
        send(*pid, Signal::SIGCONT);
    }
    eventually("there is another show", async || {
        browser.click("#start").await;
        browser.until("!document.querySelector('#start').disabled").await;
        stage(&server).await["halves"][0]["verdict"]["sold"] == json!(40)
    })
    .await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_design_whose_process_dies_is_told_in_a_sentence_and_ours_stays() {
    let server = server(400, 5).await;
    let browser = page(&server, "/watch", SCREEN).await;
    browser.click("#start").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.click("#against").await;
    let sells = "document.querySelector('#stage[data-halves=\"2\"]:is([data-phase=countdown], [data-phase=selling])')";
    browser.until(sells).await;
    for pid in descendants_of(server.node.pid()) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.ends_with(b"lab\0node\0") {
            send(pid, Signal::SIGKILL);
        }
    }
    browser.until_text("#message", "This design could not be shown to its end").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.click("#against").await;
    browser.until_text("#other .sentence", "buyers hold").await;
    browser.close().await;
}

/// On its search path is all but Java.
#[tokio::test(flavor = "multi_thread")]
async fn a_design_that_cannot_be_had_here_says_how_to_get_it_and_ours_stays() {
    let place = tempfile::tempdir().unwrap();
    #[allow(clippy::disallowed_methods)] // the search path of whoever runs the tests
    let search_path = var_os("PATH").unwrap();
    for directory in split_paths(&search_path) {
        for program in fs::read_dir(directory).into_iter().flatten().flatten() {
            if program.file_name() != "java" {
                // The first of a name is the one that counts.
                let _ = symlink(program.path(), place.path().join(program.file_name()));
            }
        }
    }
    let arguments = ["--listen", "127.0.0.1:0", "--stage-users", "400"];
    let path = [("PATH", place.path().to_str().unwrap())];
    let server = PrivateServer::start_with(&arguments, &path).await;
    let browser = page(&server, "/watch", SCREEN).await;
    browser.click("#start").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.value("document.querySelector('#design').value = 'r17_zookeeper'").await;
    browser.click("#against").await;
    browser.until_text("#message", "This design cannot run on this machine: ").await;
    browser.until_text("#message", "is not installed: run scripts/setup.sh lab").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.click("#start").await;
    browser.until("document.querySelector('#other').hidden").await;
    browser.until_text("#ours .sentence", "40 buyers hold 40 vouchers.").await;
    browser.close().await;
}
