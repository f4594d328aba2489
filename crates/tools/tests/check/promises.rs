//! What is wrong is found, with a witness, and nothing else is.

use testkit::golden::assert_fields;
use testkit::processes::place;

use super::target_server::{TargetServer, Wire, Wrong};
use super::{BOOKS, check, file, said, with};

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_design_is_found_by_its_promise_and_a_witness() {
    for (wrong, broken, witness) in [
        (Wrong::Nothing, &[][..], ""),
        (Wrong::Queues, &[], ""),
        (Wrong::RepeatsWithoutId, &[], ""),
        (Wrong::BooksComeLate, &[], ""),
        (Wrong::Oversells, &["no_oversell"], "1 sold that did not exist"),
        (Wrong::SellsTwice, &["one_per_user"], "has the orders"),
        (Wrong::RefusesEarly, &["no_undersell"], "heard sold_out after"),
        (Wrong::Misbooks, &["books_add_up"], "the books do not add up"),
        (Wrong::SharesOrders, &["no_lost_order"], "heard ordered, order 5 after"),
        (Wrong::KeepsSecret, &["no_untold_order"], "of user 7 is in the books"),
        (Wrong::Fails, &["every_attempt_answered"], "http_500"),
        (Wrong::FailsAfterwards, &["every_attempt_answered"], "http_500"),
        (Wrong::Closes, &["every_attempt_answered"], "no_answer"),
        (Wrong::QueuesForever, &["every_attempt_answered"], "heard nothing more in time"),
    ] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let mut text = file(&target, BOOKS);
        if wrong == Wrong::QueuesForever {
            // Nobody else is queued, so nobody else needs the time.
            text = text.replacen("within = \"20s\"\n[[later", "within = \"100ms\"\n[[later", 1);
        }
        let (output, result) = check(place.path(), &text, &["--rounds", "8"]).await;
        let result = result.unwrap_or_else(|| panic!("{wrong:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), broken, "{wrong:?}: {result:#}");
        if wrong == Wrong::Fails {
            // With examples of answers.
            assert_fields("check --json", &result);
        }
        // Where the last one is never sold, nothing shows that there is no other.
        let unknown: &[&str] = if wrong == Wrong::RefusesEarly { &["no_oversell"] } else { &[] };
        assert_eq!(with(&result, "unknown"), unknown, "{wrong:?}: {result:#}");
        let status = i32::from(!broken.is_empty());
        assert_eq!(output.status.code(), Some(status), "{wrong:?}: {output:?}");
        if let [promise] = broken {
            let said = said(&result, promise);
            assert!(said.contains(witness), "{wrong:?}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_was_told_and_is_not_in_the_books_is_named_with_its_user() {
    let target = TargetServer::start(Wrong::Loses, Wire::KeepAlive).await;
    let place = place();
    // The books are waited for until the time is up: the order might still come.
    let books = BOOKS.replace("20s", "2s");
    let arguments = ["--rounds", "1"];
    let (output, result) = check(place.path(), &file(&target, &books), &arguments).await;
    let result = result.unwrap_or_else(|| panic!("{output:?}"));
    assert!(with(&result, "broken").contains(&"no_lost_order".to_owned()), "{result:#}");
    assert!(
        said(&result, "no_lost_order").contains("user 7 heard ordered, order 1152"),
        "{output:?}"
    );
    assert!(output.stdout.starts_with(b"BROKEN: "), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_are_not_final_break_only_what_cannot_be_undone() {
    // They have to be quiet for longer than they are waited for.
    let books = BOOKS.replace("20ms", "10s").replace("20s", "300ms");
    for (wrong, broken) in [
        (Wrong::BooksComeLate, &[][..]),
        (Wrong::Misbooks, &[]),
        (Wrong::KeepsSecret, &[]),
        (Wrong::Oversells, &["no_oversell"]),
        (Wrong::SellsTwice, &["one_per_user"]),
    ] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let (output, result) =
            check(place.path(), &file(&target, &books), &["--rounds", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{wrong:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), broken, "{wrong:?}: {result:#}");
        assert_eq!(with(&result, "holds"), ["every_attempt_answered"], "{wrong:?}: {result:#}");
        assert!(said(&result, "books_add_up").contains("a longer within"), "{result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_file_says_wrongly_is_not_taken_for_a_wrong_backend() {
    for (wrong, unknown, why) in [
        (Wrong::TellsOneId, &["no_lost_order"][..], "every yes names the order 5: let `order`"),
        (Wrong::TellsOtherIds, &["no_lost_order"], "and the counts agree: let `order` point"),
        (Wrong::QueuesUnreadably, &["every_attempt_answered"], "fit no [[later.answer]]"),
        (Wrong::QueuesBusily, &[], ""),
        (Wrong::RenamesUsers, &[], ""),
    ] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let mut text = file(&target, BOOKS);
        match wrong {
            Wrong::RenamesUsers => text = text.replace("order = \"/id\"\n", ""),
            Wrong::QueuesUnreadably => {
                text = text.replacen("within = \"20s\"\n[[later", "within = \"100ms\"\n[[later", 1);
            }
            _ => text += "[[later.answer]]\nis = \"unavailable\"\nstatus = 503\n",
        }
        let (output, result) = check(place.path(), &text, &["--rounds", "2"]).await;
        let result = result.unwrap_or_else(|| panic!("{wrong:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), [""; 0], "{wrong:?}: {result:#}");
        assert_eq!(with(&result, "unknown"), unknown, "{wrong:?}: {result:#}");
        if let [promise] = unknown {
            assert!(said(&result, promise).contains(why), "{wrong:?}: {result:#}");
        }
        let notes = result["notes"].to_string();
        assert_eq!(
            notes.contains("names users otherwise"),
            wrong == Wrong::RenamesUsers,
            "{notes}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_tells_the_users_where_the_books_do_not_count_them() {
    let books = format!("{BOOKS}users = \"/none\"\n");
    for (wrong, broken) in [(Wrong::Nothing, &[][..]), (Wrong::SellsTwice, &["one_per_user"])] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let (output, result) =
            check(place.path(), &file(&target, &books), &["--rounds", "1"]).await;
        let result = result.unwrap_or_else(|| panic!("{wrong:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), broken, "{wrong:?}: {result:#}");
        assert_eq!(with(&result, "unknown"), [""; 0], "{wrong:?}: {result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_books_answers_alone_prove_what_they_can_and_the_rest_is_unknown() {
    for (wrong, broken) in [
        (Wrong::Nothing, &[][..]),
        (Wrong::Oversells, &["no_oversell"]),
        (Wrong::SellsTwice, &["one_per_user"]),
    ] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let (output, result) = check(place.path(), &file(&target, ""), &[]).await;
        let result = result.unwrap();
        assert_eq!(with(&result, "broken"), broken, "{wrong:?}");
        assert_eq!(with(&result, "holds"), ["every_attempt_answered"], "{wrong:?}");
        assert!(said(&result, "no_undersell").contains("[books]"), "{result:#}");
        let status = if broken.is_empty() { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_fit_no_rule_are_shown_and_never_taken_for_a_no() {
    for (wrong, code, example) in [
        (Wrong::Redirects, "http_302", ""),
        (Wrong::SaysRubbish, "http_200", "{\"code\": <script>"),
        (Wrong::SaysTooMuch, "http_200", "too long"),
    ] {
        let target = TargetServer::start(wrong, Wire::KeepAlive).await;
        let place = place();
        let html = place.path().join("page.html");
        let arguments = ["--html", html.to_str().unwrap()];
        let (output, result) = check(place.path(), &file(&target, BOOKS), &arguments).await;
        let result = result.unwrap();
        assert_eq!(with(&result, "broken"), [""; 0], "{wrong:?}: {result:#}");
        assert_eq!(with(&result, "unknown"), ["every_attempt_answered"], "{wrong:?}");
        assert!(said(&result, "every_attempt_answered").contains(code), "{result:#}");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let shown = result["examples"][0]["said"].as_str().unwrap();
        assert!(shown.contains(example) && shown.len() <= 200, "{shown}");
        // Neither the terminal nor the page obeys it.
        assert!(!output.stderr.contains(&0x1b), "{output:?}");
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(!page.contains("<script>") && page.contains("default-src 'none'"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_comes_is_waited_for_no_longer_than_was_said() {
    let target = TargetServer::start(Wrong::Hangs, Wire::KeepAlive).await;
    let place = place();
    let arguments = ["--answer-within", "300ms"];
    let (output, result) = check(place.path(), &file(&target, BOOKS), &arguments).await;
    let result = result.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(with(&result, "broken"), ["every_attempt_answered"], "{result:#}");
    assert_eq!(result["examples"][0]["said"], "no answer came in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_an_answer_is_written_it_is_read() {
    for wire in [Wire::Chunked, Wire::Http10] {
        let target = TargetServer::start(Wrong::Nothing, wire).await;
        let place = place();
        let (output, result) = check(place.path(), &file(&target, BOOKS), &[]).await;
        let result = result.unwrap_or_else(|| panic!("{output:?}"));
        assert_eq!((&result["holds"], output.status.code()), (&true.into(), Some(0)), "{output:?}");
        let asked = result["outcomes"]["ordered"].as_u64().unwrap();
        assert_eq!(asked, 20 * (40 + 1) + 2 * (40 + 20), "{result:#}");
    }
}
