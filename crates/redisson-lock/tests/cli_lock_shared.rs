//! `seckill lock` on a Redis that is shared: with a prefix, and as a user who may do no more than the manual says.

use std::path::Path;

use redis::Value;
use testkit::program::Program;
use testkit::redis_nodes::Node;
use testkit::wait::eventually;

use crate::world::seckill;

/// The words of the line `ACL SETUSER …` that the manual has for locks.
fn manuals_user() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/locks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, after) = page.split_once("```text\nACL SETUSER locks").unwrap();
    let (rules, _) = after.split_once("```").unwrap();
    assert!(include_str!("../FAILURES.md").contains(rules), "the package says something else");
    let words = rules.replace(">PASSWORD", ">p");
    let words = words.split_whitespace().map(str::to_owned);
    ["ACL", "SETUSER", "locks"].map(str::to_owned).into_iter().chain(words).collect()
}

fn program(node: &Node, login: &str) -> Program {
    let url = node.url().replace("://", &format!("://{login}"));
    seckill(&url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_of_the_manual_may_do_all_that_the_commands_do() {
    let node = Node::start(&[]).await;
    let words = manuals_user();
    node.command::<()>(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let program = program(&node, "locks:p@");
    for more in [&[][..], &["--fence"], &["--fair"], &["--fair", "--fence"]] {
        let name = format!("n{}", more.concat());
        let start = |command: &[&str]| {
            let run = &["lock", "run", &name, "--wait", "60s", "--lease", "1s"][..];
            program.command(&[run, more, &["--"], command].concat()).spawn().unwrap()
        };
        // Long enough for a renewal, and for the other one to wait.
        let mut first = start(&["sleep", "1"]);
        eventually("it holds", async || node.command::<i64>(&["EXISTS", &name]).await == 1).await;
        let mut second = start(&["true"]);
        assert!(first.wait().await.unwrap().success() && second.wait().await.unwrap().success());
    }
    program.says(&["lock", "inspect", "n"]).await;
    node.command::<()>(&["SET", "no-lock", "7"]).await;
    program
        .run(&["lock", "run", "no-lock", "--", "true"])
        .await
        .refused(69, "it looks like a number");
    let mut held = program.command(&["lock", "run", "h", "--", "sleep", "60"]).spawn().unwrap();
    eventually("it holds", async || node.command::<i64>(&["EXISTS", "h"]).await == 1).await;
    assert!(program.says(&["lock", "list"]).await.starts_with("h: held once"));
    program.says(&["lock", "force-release", "h", "--yes"]).await;
    program.says(&["lock", "tokens", "--remove-idle", "0s", "--yes"]).await;
    held.kill().await.unwrap();
    let refused: Vec<Value> = node.command(&["ACL", "LOG"]).await;
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_keeps_installations_apart_and_is_not_shown() {
    let node = Node::start(&[]).await;
    let (one, two) = (program(&node, ""), program(&node, "").with("SECKILL_KEY_PREFIX", "two:"));
    let one = one.with("SECKILL_KEY_PREFIX", "{one}:");
    let run = ["lock", "run", "n", "--fence", "--wait", "0s", "--", "sh", "-c"];
    let show = [&run[..], &["echo $SECKILL_LOCK_NAME"]].concat();
    let mut held = one.command(&[&run[..], &["sleep 60"]].concat()).spawn().unwrap();
    eventually("it holds", async || node.command::<i64>(&["EXISTS", "{one}:n"]).await == 1).await;
    one.run(&show).await.refused(75, "somebody else holds the lock \"n\"");
    assert_eq!(two.says(&show).await, "n\n");
    assert!(one.says(&["lock", "list"]).await.starts_with("n: held once"));
    assert_eq!(two.says(&["lock", "list"]).await, "");
    assert!(one.says(&["lock", "inspect", "n"]).await.starts_with("n: held once"));
    assert_eq!(two.says(&["lock", "inspect", "n"]).await, "n: free\n");
    for program in [&one, &two] {
        assert!(program.says(&["lock", "tokens"]).await.starts_with("n: unused for"));
    }
    assert_eq!(two.says(&["lock", "force-release", "n", "--yes"]).await, "n: free\n");
    one.says(&["lock", "force-release", "n", "--yes"]).await;
    assert_eq!(node.command::<i64>(&["EXISTS", "{one}:n"]).await, 0);
    held.kill().await.unwrap();
}
