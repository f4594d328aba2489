//! A Redis that is not the server's alone: with a prefix, and with no more rights than the manual says.

use std::path::Path;

use redis::Value;
use testkit::processes;
use testkit::program::Program;
use testkit::redis_nodes::{Cluster, Node};
use testkit::shop::api_client::{Api, another_code};
use testkit::shop::world::World;

const PHONE: &str = "13800138000";

/// The words of the line `ACL SETUSER …` that a manual has for the server.
fn manuals_user(page: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let page = std::fs::read_to_string(page).unwrap();
    let (_, after) = page.split_once("```text\nACL SETUSER seckill").unwrap();
    let (rules, _) = after.split_once("```").unwrap();
    rules.replace(">PASSWORD", ">p").split_whitespace().map(str::to_owned).collect()
}

async fn make_user(node: &Node, rules: &[String], more: &[&str]) {
    let mut words = vec!["ACL", "SETUSER", "seckill"];
    words.extend(rules.iter().map(String::as_str).chain(more.iter().copied()));
    node.command::<()>(&words).await;
}

/// A real server sells and lets somebody in.
async fn sells_and_lets_in(program: &Program, world: World, code: impl AsyncFnOnce() -> String) {
    world.users(3).await;
    world.at_present().await;
    let (voucher, server) = (world.voucher(3).await.id, processes::Node::serve(program, &[]).await);
    let api = Api::at(world, server.address);
    api.get("/readyz").await.is(200);
    for user in 1..=3 {
        api.buy(user, voucher).await.is(201);
    }
    api.buy(1, voucher).await.problem(409, "already_bought");
    api.ask_code(PHONE).await.is(202);
    let code = code().await;
    api.try_code(PHONE, &another_code(&code)).await.problem(401, "unauthenticated");
    api.try_code(PHONE, &code).await.is(201);
    server.stop().await;
}

fn on(world: &World, node: &Node) -> Program {
    let url = node.url().replace("://", "://seckill:p@");
    // The manual's user has no prefix.
    Program::on(world)
        .with("REDIS_URL", &url)
        .with("SECKILL_KEY_PREFIX", "")
        .with("SECKILL_SMS", "log")
}

async fn kept_code(node: &Node, prefix: &str) -> String {
    node.command(&["HGET", &code_key(prefix), "code"]).await
}

fn code_key(prefix: &str) -> String {
    format!("{prefix}login:code:{{{PHONE}}}")
}

async fn refused(node: &Node) -> Vec<Value> {
    node.command(&["ACL", "LOG"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_all_it_does_with_the_rights_that_the_manual_names() {
    let rules = manuals_user("docs/reference.md");
    assert_eq!(rules, manuals_user("docs/reference.zh-CN.md"));
    let node = Node::start(&[]).await;
    make_user(&node, &rules, &[]).await;
    for strategy in ["group-commit", "locked"] {
        let world = World::new().await;
        let program = on(&world, &node).with("SECKILL_STRATEGY", strategy);
        sells_and_lets_in(&program, world, async || kept_code(&node, "").await).await;
        let refused = refused(&node).await;
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// Where a proxy, or the owner of the Redis, lets nobody load scripts.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_load_scripts_sends_them_whole_and_who_may_not_do_that_is_told_so_at_the_start()
{
    let rules = manuals_user("docs/reference.md");
    let node = Node::start(&[]).await;
    make_user(&node, &rules, &["-script|load", "+eval"]).await;
    let world = World::new().await;
    let program = on(&world, &node);
    sells_and_lets_in(&program, world, async || kept_code(&node, "").await).await;
    make_user(&node, &rules, &["-script|load", "-eval"]).await;
    let world = World::new().await;
    let log = processes::Node::serve(&on(&world, &node), &[]).await.stop().await;
    assert!(log.contains("Redis refuses this server") && log.contains("NOPERM"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_on_a_cluster_with_a_prefix() {
    let cluster = Cluster::start(3).await;
    let mut rules = manuals_user("docs/reference.md");
    rules.retain(|rule| !rule.starts_with('~') && !rule.starts_with('&'));
    let more =
        ["~shop1:*", "&redisson_lock__channel:{shop1:*", "+cluster|slots", "+asking", "+spublish"];
    for node in &cluster.nodes {
        make_user(node, &rules, &more).await;
    }
    let world = World::new().await;
    let url = cluster.url().replace("://", "://seckill:p@");
    let program = Program::on(&world)
        .with("REDIS_URL", &url)
        .with("SECKILL_SMS", "log")
        .with("SECKILL_KEY_PREFIX", "shop1:");
    let node = cluster.node_of(&code_key("shop1:")).await;
    sells_and_lets_in(&program, world, async || kept_code(node, "shop1:").await).await;
    for node in &cluster.nodes {
        let refused = refused(node).await;
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// A lock of the one keeps nobody of the other out, and each key tells whose it is.
#[tokio::test(flavor = "multi_thread")]
async fn two_installations_share_a_redis() {
    let node = Node::start(&[]).await;
    let mut servers = Vec::new();
    for prefix in ["one:", "{two}:"] {
        let world = World::new().await;
        world.users(1).await;
        world.at_present().await;
        let voucher = world.voucher(1).await.id;
        let program = Program::on(&world)
            .with("REDIS_URL", &node.url())
            .with("SECKILL_KEY_PREFIX", prefix)
            .with("PATH", "/usr/bin:/bin");
        let server = processes::Node::serve(&program, &[]).await;
        let api = Api::at(world, server.address);
        servers.push((program, server, api, voucher));
    }
    let [(one, first, of_one, voucher), (_, second, of_two, other)] =
        servers.try_into().unwrap_or_else(|_| panic!("there are two"));
    let run = ["lock", "run", "lock:order:1", "--wait", "0s", "--", "sleep", "60"];
    let mut held = one.command(&run).spawn().unwrap();
    testkit::wait::eventually("it holds", async || {
        node.command::<i64>(&["EXISTS", "one:lock:order:1"]).await == 1
    })
    .await;
    of_one.buy(1, voucher).await.problem(409, "order_in_progress");
    of_two.buy(1, other).await.is(201);
    held.kill().await.unwrap();
    one.says(&["lock", "force-release", "lock:order:1", "--yes"]).await;
    of_one.buy(1, voucher).await.is(201);
    let keys: Vec<String> = node.command(&["KEYS", "*"]).await;
    assert!(!keys.is_empty());
    for key in keys {
        assert!(key.starts_with("one:") || key.starts_with("{two}:"), "{key}");
    }
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_and_a_doctor_need_no_right_to_look_at_the_server() {
    let node = Node::start(&[]).await;
    make_user(&node, &manuals_user("docs/reference.md"), &[]).await;
    let world = World::new().await;
    world.at_present().await;
    let arguments = ["demo", "--stock", "5", "--users", "10", "--attempts", "2", "--nodes", "1"];
    let ran = on(&world, &node).run(&arguments).await;
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("Redis of unknown version"), "{ran:?}");
    let said = on(&world, &node).run(&["doctor"]).await.stdout;
    assert!(said.contains("INFO is not allowed"), "{said}");
    let rights = said.lines().find(|line| line.contains("Redis rights"));
    assert!(rights.is_some_and(|line| line.contains("all that serve needs")), "{said}");
}

#[tokio::test]
async fn settings_of_redis_that_are_of_no_use_are_told_before_anything_starts() {
    let world = World::new().await;
    for (name, value, words) in [
        ("SECKILL_REDIS_CA", "/no/such/file", "begins with rediss"),
        ("SECKILL_KEY_PREFIX", "shop", "with a : at its end"),
        ("SECKILL_KEY_PREFIX", "*:", "with a : at its end"),
        ("REDIS_URL", "redis://a:1,b:2", "it names several hosts"),
        ("REDIS_URL", "rediss://h/?ca=/no/such/file", "no certificate in /no/such/file"),
        ("REDIS_URL", "rediss+cluster://h:1/?cert=/x", "a client's certificate needs its key"),
    ] {
        let program = Program::on(&world).with(name, value);
        program.run(&["serve", "--listen", "127.0.0.1:0"]).await.refused(2, words);
    }
    let alone = Program::alone().with("SECKILL_REDIS_CA", "/no/such/file");
    alone.run(&["serve"]).await.refused(2, "REDIS_URL is not set");
}
