//! Where tokens come from.

use testkit::processes::place;

use super::target_server::{TargetServer, Wire, Wrong};
use super::{BOOKS, check, file};

/// The same file with the token in place of the user.
fn with_tokens(target: &TargetServer, tokens: &str) -> String {
    let text = file(target, &format!("first_user = 100\n{BOOKS}{tokens}"));
    text.replace("user = \"{user}\"", "user = \"{token}\"")
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
        let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
        let place = place();
        std::fs::write(place.path().join("tokens.csv"), &csv).unwrap();
        std::fs::write(place.path().join("tokens.txt"), &lines).unwrap();
        let (output, result) = check(place.path(), &with_tokens(&target, tokens), &[]).await;
        let result = result.unwrap_or_else(|| panic!("{tokens}: {output:?}"));
        assert_eq!(result["holds"], true, "{tokens}: {result:#}");
        let sales = target.sales.lock().unwrap();
        let enough = sales.sales.values().find(|sale| sale.orders.len() == 40);
        let mut users: Vec<&str> =
            sales.sales.values().flat_map(|sale| &sale.orders).map(|(_, user)| &**user).collect();
        users.sort_unstable();
        users.dedup();
        assert_eq!((users.len(), enough.is_some()), (40, true), "{tokens}");
        assert!(users.contains(&&*format!("t{first}")), "{tokens}: {users:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_tokens_than_buyers_are_said_and_a_login_that_fails_ends_the_check() {
    let target = TargetServer::start(Wrong::Nothing, Wire::KeepAlive).await;
    let place = place();
    std::fs::write(place.path().join("tokens.txt"), "a\nb\nc\n").unwrap();
    let text = with_tokens(&target, "[tokens]\nlines = \"tokens.txt\"\n");
    let (_, result) = check(place.path(), &text, &[]).await;
    let notes = result.unwrap()["notes"].to_string();
    assert!(notes.contains("tokens for 3 buyers, fewer than the 40"), "{notes}");
    let wrong = "[tokens.login]\nrequest = { path = \"/login\", body = '{\"user\": {user}}' }\n\
                 token = \"/token\"\n";
    let (output, _) = check(place.path(), &with_tokens(&target, wrong), &[]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("has no token at /token: status 200, keys data"), "{said}");
    assert!(!said.contains("t100"), "{said}");
    let login = "[tokens.login]\nrequest = { path = \"/login/{user}\" }\ntoken = \"/data/token\"\n";
    let (output, _) = check(place.path(), &with_tokens(&target, login), &[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the login of user 100 has"), "{said}");
}
