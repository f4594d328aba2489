//! What is judged without the help of all that a file can give, and what is the file's own mistake.

use testkit::processes::place;

use super::shop::{Design, LATER, Shop};
use super::wire::Wire;
use super::{ONE_ROUND, QUIET, TWO_ROUNDS, check, replaced};

#[tokio::test(flavor = "multi_thread")]
async fn without_final_books_answers_alone_prove_what_they_can_and_the_rest_is_unknown() {
    // Books that have to be quiet for longer than they are waited for.
    let unquiet = "quiet = \"10s\"\nwithin = \"300ms\"\n";
    for (design, broken) in [
        (Design::BooksLate, &[][..]),
        (Design::WritesThenRefuses, &[]),
        // Without a word of the books that do not add up.
        (Design::ForgetsDecrement, &["no_oversell"]),
        (Design::Oversells(20), &["no_oversell"]),
        (Design::TenEach, &["one_per_user"]),
    ] {
        let shop = Shop::start(design).await;
        for (text, why) in
            [(shop.file("", unquiet), "a longer within"), (shop.file_without_books(""), "[books]")]
        {
            let checked = check(&(text + LATER), &ONE_ROUND).await;
            assert_eq!(checked.with("broken"), broken, "{design:?}: {checked:#?}");
            let holds = checked.with("holds");
            assert_eq!(holds, ["every_attempt_answered"], "{design:?}: {checked:#?}");
            assert!(checked.said("books_add_up").contains(why), "{checked:#?}");
            let status = if broken.is_empty() { 2 } else { 1 };
            assert_eq!(checked.ran.status, status, "{checked:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_file_says_wrongly_is_not_taken_for_a_wrong_backend() {
    let (shared, other) =
        ("every yes names the order 5: let `order`", "and the counts agree: let `order` point");
    let unavailable = "[[later.answer]]\nis = \"unavailable\"\nstatus = 503\n";
    // Nobody is known to have bought, let alone twice.
    let (queued, unfit) = (&["one_per_user", "every_attempt_answered"], "fit no [[later.answer]]");
    for (design, from, to, unknown, why) in [
        (Design::Right, "order = \"/id\"", "order = \"/shop\"", &["no_lost_order"][..], shared),
        (Design::Right, "order = \"/id\"", "order = \"/request\"", &["no_lost_order"], other),
        (Design::Queues, "/mine/", "/main/", queued, unfit),
        (Design::Queues, "/mine/{voucher}", "/mine/{voucher}?wait=503", &[], ""),
        (Design::Right, "/books/{voucher}", "/books/{voucher}?title=member-", &[], ""),
    ] {
        let shop = Shop::start(design).await;
        let later = replaced(LATER, "5s", if to == "/main/" { "100ms" } else { "5s" });
        let mut text = replaced(&shop.file("", &[QUIET, &later, unavailable].concat()), from, to);
        let has_titles = to.ends_with("member-");
        if has_titles {
            text = replaced(&text, "order = \"/id\"\n", "");
        }
        let checked = check(&text, &TWO_ROUNDS).await;
        checked.is_judged(&[], unknown);
        let said = unknown.last().map(|promise| checked.said(promise)).unwrap_or_default();
        assert!(said.contains(why), "{to}: {checked:#?}");
        let notes = checked["notes"].to_string();
        assert_eq!(notes.contains("names users otherwise"), has_titles, "{to}: {notes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_tells_the_users_where_the_books_do_not_count_them() {
    for (design, broken) in [(Design::Right, &[][..]), (Design::TenEach, &["one_per_user"])] {
        let shop = Shop::start(design).await;
        let text = shop.file("", &format!("{QUIET}users = \"/none\"\n"));
        check(&text, &ONE_ROUND).await.is_judged(broken, &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_fits_no_rule_or_never_comes_is_shown_and_never_taken_for_a_no() {
    let (rubbish, patience) = ("{\"code\": <script>\u{1b}[2J", ["--answer-within", "300ms"]);
    for (design, wire, arguments, outcome, example) in [
        (Design::Says(302, "", 1), None, &TWO_ROUNDS, "http_302", ""),
        (Design::Says(200, rubbish, 1), None, &TWO_ROUNDS, "http_200", "{\"code\": <script>"),
        (Design::Says(200, "x", 1024 * 1024), None, &TWO_ROUNDS, "http_200", "too long"),
        (Design::Hangs, None, &patience, "no_answer", "no answer came in time"),
        (Design::Right, Some(Wire::Closes), &TWO_ROUNDS, "no_answer", ""),
    ] {
        let shop = Shop::start(design).await.behind(wire).await;
        let place = place();
        let html = place.path().join("page.html");
        let arguments = [&arguments[..], &["--html", html.to_str().unwrap()]].concat();
        let checked = check(&shop.file("", QUIET), &arguments).await;
        match outcome {
            "no_answer" => checked.is_judged(&["every_attempt_answered"], &[]),
            _ => checked.is_judged(&[], &["every_attempt_answered"]),
        }
        assert!(checked.said("every_attempt_answered").contains(outcome), "{checked:#?}");
        let shown = checked["examples"][0]["said"].as_str().unwrap_or_default();
        assert!(shown.contains(example) && shown.len() <= 200, "{shown}");
        // Neither the terminal nor the page obeys it.
        assert!(!checked.ran.stderr.contains('\u{1b}'), "{checked:#?}");
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(!page.contains("<script>") && page.contains("default-src 'none'"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_an_answer_is_written_it_is_read() {
    for wire in [Wire::Chunked, Wire::Http10] {
        let shop = Shop::start(Design::Right).await.behind(Some(wire)).await;
        let checked = check(&shop.file("", QUIET), &[]).await;
        checked.is_judged(&[], &[]);
        let asked = checked["outcomes"]["ordered"].as_u64().unwrap();
        assert_eq!(asked, 20 * (40 + 1) + 2 * (40 + 20), "{checked:#?}");
    }
}
