//! Commands and servers that do not do what they should: exit status 2, one sentence, nothing left behind.

use std::time::Duration;

use testkit::processes::{is_alive, place};
use testkit::wait::eventually;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::target_server::{TargetServer, Wire, Wrong};
use super::{check, file};

/// Longer than any of it may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_books_command_that_cannot_be_used_ends_the_check_with_a_sentence_and_its_line() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    for (command, why) in [
        ("echo no such table >&2; exit 3", "fails (exit status: 3): no such table"),
        ("kill -9 $$", "fails (signal: 9"),
        ("echo hello", "prints no JSON: \"hello\""),
        ("true", "prints no JSON"),
        ("printf '\\377'", "prints what is no text"),
        ("yes", "prints more than"),
        ("echo '{\"orders\": -1}'", "prints -1 at /orders"),
        ("echo '{\"orders\": 99999999999999999999}'", "no whole number at /orders"),
        ("echo '{\"orders\": 0, \"stock\": 1e99}'", "no whole number at /stock"),
        ("no-such-program-here", "fails (exit status: 127)"),
    ] {
        let place = place();
        let books = format!("[books]\ncommand = '''{command}'''\nquiet = \"10ms\"\n");
        let (output, result) = check(place.path(), &file(&target, &books), &[]).await;
        assert_eq!((output.status.code(), result), (Some(2), None), "{command}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last().unwrap();
        assert!(last.contains(why) && last.contains("target.toml:4: the books command"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_books_command_that_hangs_is_ended_with_all_that_it_started() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let place = place();
    let command = "sleep 1000 & echo $! > sleeper; wait";
    let books = format!("[books]\ncommand = '{command}'\nwithin = \"300ms\"\nquiet = \"10ms\"\n");
    let text = file(&target, &books);
    let (output, _) = timeout(PATIENCE, check(place.path(), &text, &[])).await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the books command took longer than 0.3 s"), "{said}");
    let sleeper = std::fs::read_to_string(place.path().join("sleeper")).unwrap();
    let sleeper = sleeper.trim().parse().unwrap();
    eventually("the sleeper is gone", async || !is_alive(sleeper)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_told_the_voucher_the_stock_and_the_address() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let place = place();
    let books = "[books]\nquiet = \"10ms\"\ncommand = '''echo \"$VOUCHER $ADDRESS\" > books; \
                 echo '{\"orders\":1,\"users\":1,\"stock\":0}' '''\n";
    let text = file(&target, books);
    let (before, _) = text.split_once("[sale]").unwrap();
    let sale = "[sale]\ncommand = 'echo \"$STOCK $ADDRESS\" > sale; echo made; echo 12'\n";
    let (output, result) = check(place.path(), &format!("{before}{sale}"), &[]).await;
    // There is no voucher 12: every answer is a 404.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(result.unwrap()["outcomes"]["http_404"].as_u64().unwrap() > 100);
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(read("books"), format!("12 http://{}\n", target.address));
    assert_eq!(read("sale"), format!("20 http://{}\n", target.address));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_reached_is_said_to_be_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let text = format!(
        "addresses = [\"http://{address}\"]\nvoucher = 1\n[purchase]\npath = \"/\"\n\
         [[answer]]\nis = \"ordered\"\nstatus = 200\n"
    );
    let place = place();
    let (output, result) = check(place.path(), &text, &[]).await;
    assert_eq!((output.status.code(), result), (Some(2), None), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("cannot connect to {address}")), "{said}");
}
