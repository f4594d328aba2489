//! Commands and servers that do not do what they should: exit status 2, one sentence, nothing left behind.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::closed_port::ClosedPort;
use testkit::processes::{is_alive, place};
use testkit::wait::eventually;
use tokio::process::Command;
use tokio::time::timeout;

use super::target_server::{TargetServer, Wire, Wrong};
use super::{BOOKS, check, file, said, with};

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
        ("echo '{\"orders\": 99999999999999999999}'", "no whole number within ±10^15 at /orders"),
        ("echo '{\"orders\": 0, \"stock\": 1e99}'", "no whole number within ±10^15 at /stock"),
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
    let books = format!("[books]\ncommand = '{command}'\nwithin = \"2s\"\nquiet = \"10ms\"\n");
    let text = file(&target, &books);
    let (output, _) = timeout(PATIENCE, check(place.path(), &text, &[])).await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the books command took longer than 2 s"), "{said}");
    let sleeper = std::fs::read_to_string(place.path().join("sleeper")).unwrap();
    let sleeper = sleeper.trim().parse().unwrap();
    eventually("the sleeper is gone", async || !is_alive(sleeper)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_end_ends_the_books_command_with_all_that_it_started() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let place = place();
    let books = "[books]\ncommand = 'sleep 1000 & echo $! > new; mv new sleeper; wait'\n";
    std::fs::write(place.path().join("target.toml"), file(&target, books)).unwrap();
    let mut checking = Command::new(env!("CARGO_BIN_EXE_seckill-tools"))
        .arg("check")
        .arg(place.path().join("target.toml"))
        .spawn()
        .unwrap();
    let sleeper = place.path().join("sleeper");
    eventually("the command runs", async || sleeper.exists()).await;
    let sleeper = std::fs::read_to_string(sleeper).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(checking.id().unwrap().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let status = timeout(PATIENCE, checking.wait()).await.unwrap().unwrap();
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    eventually("the sleeper is gone", async || !is_alive(sleeper)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_told_the_voucher_the_stock_and_the_address() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let place = place();
    let books = "[books]\nquiet = \"10ms\"\nwithin = \"5s\"\ncommand = '''echo \"$VOUCHER $ADDRESS\" >> \
                 books; echo '{\"orders\":0,\"users\":0,\"stock\":0}' '''\n";
    let text = file(&target, books);
    let (before, _) = text.split_once("[sale]").unwrap();
    let sale = "[sale]\ncommand = 'echo \"$STOCK $ADDRESS\" >> sale; echo made; wc -l < sale'\n";
    let arguments = ["--rounds", "1"];
    let (output, result) = check(place.path(), &format!("{before}{sale}"), &arguments).await;
    // There are no such vouchers: every answer is a 404.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(result.unwrap()["outcomes"]["http_404"].as_u64().unwrap() > 100);
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let url = format!("http://{}", target.address);
    assert_eq!(read("sale"), format!("100 {url}\n40 {url}\n1 {url}\n40 {url}\n20 {url}\n"));
    for voucher in 1..=4 {
        assert!(read("books").contains(&format!("{voucher} {url}\n")), "{}", read("books"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vouchers_that_are_not_new_or_not_named_by_a_word_are_refused() {
    let run = async |wrong, sale: &str| {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let old = target.voucher(10, &["1"]);
        let place = place();
        let text = file(&target, BOOKS);
        let text = match text.split_once("[sale]") {
            Some((head, _)) if !sale.is_empty() => {
                format!(
                    "{head}[sale]\ncommand = 'echo {}'\n",
                    sale.replace("OLD", &old.to_string())
                )
            }
            _ => text,
        };
        check(place.path(), &text, &["--rounds", "1"]).await
    };
    for (wrong, sale, why) in [
        (Wrong::NamesVouchersBadly, "", "no id at /data"),
        (Wrong::SharesVouchers, "", "the voucher 12 on sale a second time"),
        (Wrong::Nothing, "1.2", "prints no id: \"1.2\""),
        (Wrong::Nothing, "OLD", "it has 1 orders already"),
    ] {
        let (output, result) = run(wrong, sale).await;
        assert_eq!((output.status.code(), result), (Some(2), None), "{sale}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.lines().last().unwrap().contains(why), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_books_that_fails_is_repeated_and_ends_in_no_verdict() {
    for (wrong, status) in [(Wrong::BooksStumble, 0), (Wrong::BooksBreak, 2)] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let books = if status == 0 { BOOKS.to_owned() } else { BOOKS.replace("20s", "300ms") };
        let (output, result) =
            check(place.path(), &file(&target, &books), &["--rounds", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{wrong:?}: {output:?}"));
        assert_eq!(output.status.code(), Some(status), "{wrong:?}: {result:#}");
        if status == 2 {
            let said = said(&result, "no_lost_order");
            assert!(said.contains("the books request is answered with 500"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_dies_in_the_middle_is_judged_by_what_was_heard() {
    for is_on_sale in [true, false] {
        let target = TargetServer::start(Wrong::Dies, Wire::KeepAlive).await;
        let voucher = target.voucher(10, &[]);
        let place = place();
        let books = BOOKS.replace("20s", "300ms");
        let more = if is_on_sale { format!("voucher = {voucher}\n{books}") } else { books };
        let (output, result) = check(place.path(), &file(&target, &more), &["--rounds", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{output:?}"));
        assert_eq!(output.status.code(), Some(1), "{result:#}");
        assert_eq!(with(&result, "broken"), ["every_attempt_answered"], "{result:#}");
        assert_eq!(with(&result, "holds"), [""; 0], "{result:#}");
        let why = said(&result, "no_oversell");
        match is_on_sale {
            true => assert!(result["outcomes"]["not_sent"].as_u64() >= Some(2), "{result:#}"),
            false => assert!(why.contains("not all crowds were sent: a new voucher"), "{why}"),
        }
        assert!(why.contains("the books request has no answer"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_reached_is_said_to_be_so() {
    let closed = ClosedPort::take();
    let address = format!("127.0.0.1:{}", closed.number);
    let text = format!(
        "addresses = [\"http://{address}\"]\nvoucher = 1\n[purchase]\npath = \"/{{user}}\"\n\
         [[answer]]\nis = \"ordered\"\nstatus = 200\n"
    );
    let place = place();
    let (output, result) = check(place.path(), &text, &[]).await;
    assert_eq!((output.status.code(), result), (Some(2), None), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("cannot connect to {address}")), "{said}");
}
