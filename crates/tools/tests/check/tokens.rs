//! Where tokens come from.

use std::collections::BTreeSet;

use testkit::processes::place;

use super::shop::{Design, Shop};
use super::{QUIET, check_in, replaced};

/// The file with the token in place of the user.
fn with_tokens(shop: &Shop, tokens: &str) -> String {
    let text = shop.file("first_user = 100", &format!("{QUIET}{tokens}"));
    replaced(&text, "user = \"{user}\"", "user = \"{token}\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_come_with_the_tokens_of_a_file_or_of_a_login() {
    let csv = "name,secret\n".to_owned()
        + &(1..=50).map(|user| format!("u{user},t{user}\n")).collect::<String>();
    let lines: String = (1..=50).map(|user| format!("t{user}\n\n")).collect();
    for (tokens, first) in [
        ("[tokens]\ncsv = \"tokens.csv\"\nuser_column = \"name\"\ntoken_column = \"secret\"\n", 1),
        ("[tokens]\nlines = \"tokens.txt\"\n", 1),
        (
            "[tokens.login]\nrequest = { path = \"/login\", body = '{\"user\": {user}}' }\n\
             token = \"/data/token\"\n",
            100,
        ),
    ] {
        let shop = Shop::start(Design::Right).await;
        let place = place();
        std::fs::write(place.path().join("tokens.csv"), &csv).unwrap();
        std::fs::write(place.path().join("tokens.txt"), &lines).unwrap();
        check_in(place.path(), &with_tokens(&shop, tokens), &[]).await.is_judged(&[], &[]);
        let buyers = shop.buyers();
        let users: BTreeSet<&String> = buyers.iter().flatten().collect();
        let has_all = buyers.iter().any(|buyers| buyers.len() == 40);
        assert_eq!((users.len(), has_all), (40, true), "{tokens}: {users:?}");
        assert!(users.contains(&format!("t{first}")), "{tokens}: {users:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_tokens_than_buyers_are_said_and_a_login_that_fails_ends_the_check() {
    let shop = Shop::start(Design::Right).await;
    let place = place();
    std::fs::write(place.path().join("tokens.txt"), "a\nb\nc\n").unwrap();
    let text = with_tokens(&shop, "[tokens]\nlines = \"tokens.txt\"\n");
    let checked = check_in(place.path(), &text, &[]).await;
    let notes = checked["notes"].to_string();
    assert!(notes.contains("tokens for 3 buyers, fewer than the 40"), "{notes}");
    for (login, why) in [
        (
            "request = { path = \"/login\", body = '{\"user\": {user}}' }\ntoken = \"/token\"\n",
            "the login of user 100 has no token at /token: status 200, keys data",
        ),
        (
            "request = { path = \"/login/{user}\" }\ntoken = \"/data/token\"\n",
            "the login of user 100 has",
        ),
    ] {
        let text = with_tokens(&shop, &format!("[tokens.login]\n{login}"));
        let checked = check_in(place.path(), &text, &[]).await;
        checked.is_refused(why);
        assert!(!checked.ran.stderr.contains("t100"), "{checked:#?}");
    }
}
