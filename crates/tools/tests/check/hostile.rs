//! Commands and servers that do not do what they should: exit status 2, one sentence, nothing left behind.

use std::process::Stdio;

use nix::sys::signal::Signal;
use testkit::closed_port::ClosedPort;
use testkit::processes::{is_alive, place, send};
use testkit::program::Ran;
use testkit::wait::{eventually, must};

use super::shop::{Design, SALE, Shop};
use super::wire::Wire;
use super::{ONE_ROUND, QUIET, check, check_in, command, replaced};

#[tokio::test(flavor = "multi_thread")]
async fn a_books_command_that_cannot_be_used_ends_the_check_with_a_sentence_and_its_line() {
    let shop = Shop::start(Design::Right).await;
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
        let books = format!("[books]\ncommand = '''{command}'''\nquiet = \"10ms\"\n");
        let text = shop.file_without_books("") + &books;
        let line = text.lines().position(|line| line.starts_with("command")).unwrap() + 1;
        let checked = check(&text, &[]).await;
        checked.is_refused(why);
        checked.is_refused(&format!("target.toml:{line}: the books command"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_books_command_that_hangs_is_ended_with_all_that_it_started() {
    let shop = Shop::start(Design::Right).await;
    for (within, signal) in [("2s", None), ("600s", Some(Signal::SIGTERM))] {
        let place = place();
        let text = format!(
            "{}[books]\ncommand = 'sleep 1000 & echo $! > new; mv new sleeper; wait'\n\
             within = \"{within}\"\nquiet = \"10ms\"\n",
            shop.file_without_books("")
        );
        let mut command = command(place.path(), &text);
        let checking = command.stderr(Stdio::piped()).spawn().unwrap();
        let sleeper = place.path().join("sleeper");
        eventually("the command runs", async || sleeper.exists()).await;
        let sleeper = std::fs::read_to_string(sleeper).unwrap().trim().parse().unwrap();
        if let Some(signal) = signal {
            send(checking.id().unwrap(), signal);
        }
        let ran = Ran::from(must("it ends", checking.wait_with_output()).await.unwrap());
        match signal {
            Some(_) => assert!(ran.status > 0, "{ran:?}"),
            None => assert!(
                ran.status == 2 && ran.stderr.contains("the books command took longer than 2 s"),
                "{ran:?}"
            ),
        }
        eventually("the sleeper is gone", async || !is_alive(sleeper)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_told_the_voucher_the_stock_and_the_address() {
    let shop = Shop::start(Design::Right).await;
    let place = place();
    let books = "[books]\nquiet = \"10ms\"\nwithin = \"5s\"\ncommand = '''echo \"$VOUCHER $ADDRESS\" >> \
                 books; echo '{\"orders\":0,\"users\":0,\"stock\":0}' '''\n";
    let sale = "[sale]\ncommand = 'echo \"$STOCK $ADDRESS\" >> sale; echo made; wc -l < sale'\n";
    let text = replaced(&shop.file_without_books(""), SALE, sale) + books;
    let checked = check_in(place.path(), &text, &ONE_ROUND).await;
    // There are no such vouchers: every answer is a 404.
    assert_eq!(checked.ran.status, 1, "{checked:#?}");
    assert!(checked["outcomes"]["http_404"].as_u64().unwrap() > 100);
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let url = format!("http://{}", shop.addresses[0]);
    assert_eq!(read("sale"), format!("100 {url}\n40 {url}\n1 {url}\n40 {url}\n20 {url}\n"));
    for voucher in 1..=4 {
        assert!(read("books").contains(&format!("{voucher} {url}\n")), "{}", read("books"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vouchers_that_are_not_new_or_not_named_by_a_word_are_refused() {
    let shop = Shop::start(Design::Right).await;
    let old = format!("command = 'echo {}'", shop.voucher(10, &["1"]));
    let request = "request = { path = \"/vouchers\", body = '{\"stock\": {stock}}' }";
    for (sale, why) in [
        (&*replaced(request, "vouchers", "vouchers?id=1-or-1=1"), "no id at /data"),
        (&*replaced(request, "vouchers", "vouchers?id=12"), "the voucher 12 on sale a second time"),
        ("command = 'echo 1.2'", "prints no id: \"1.2\""),
        (&*old, "it has 1 orders already"),
    ] {
        let text = replaced(&shop.file("", QUIET), request, sale);
        check(&text, &ONE_ROUND).await.is_refused(why);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_at_the_books_that_fails_is_repeated_and_ends_in_no_verdict() {
    let shop = Shop::start(Design::BooksStumble).await;
    check(&shop.file("", QUIET), &ONE_ROUND).await.is_judged(&[], &[]);
    let shop = Shop::start(Design::BooksBreak).await;
    let text = shop.file("", &replaced(QUIET, "20s", "300ms"));
    let checked = check(&text, &ONE_ROUND).await;
    assert_eq!(checked.ran.status, 2, "{checked:#?}");
    let said = checked.said("no_lost_order");
    assert!(said.contains("the books request is answered with 500"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_dies_in_the_middle_is_judged_by_what_was_heard() {
    for is_on_sale in [true, false] {
        let shop = Shop::start(Design::Right).await.behind(Some(Wire::Dies)).await;
        let more = if is_on_sale { shop.on_sale(10) } else { String::new() };
        let text = shop.file(&more, &replaced(QUIET, "20s", "300ms"));
        let checked = check(&text, &ONE_ROUND).await;
        assert_eq!(checked.ran.status, 1, "{checked:#?}");
        assert_eq!(checked.with("broken"), ["every_attempt_answered"], "{checked:#?}");
        assert_eq!(checked.with("holds"), [""; 0], "{checked:#?}");
        let why = checked.said("no_oversell");
        match is_on_sale {
            true => assert!(checked["outcomes"]["not_sent"].as_u64() >= Some(2), "{checked:#?}"),
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
    check(&text, &[]).await.is_refused(&format!("cannot connect to {address}"));
}
