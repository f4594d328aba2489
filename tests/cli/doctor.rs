//! `seckill doctor`: what is wrong with the surroundings is told before a sale tells it.

use faults::RedisNode;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use url::Url;

use crate::database::pooler::pgbouncer::{PgBouncer, is_installed};
use testkit::program::{Program, Ran};
use testkit::shop::world::{World, run_sql, with_database};

/// What the doctor says of what.
fn line<'a>(ran: &'a Ran, about: &str) -> &'a str {
    let found = ran.stdout.lines().find(|line| line[8..].starts_with(about));
    found.unwrap_or_else(|| panic!("nothing about {about}: {ran:?}"))
}

#[track_caller]
fn says(ran: &Ran, level: &str, about: &str, words: &str) {
    let line = line(ran, about);
    assert!(line.starts_with(level) && line.contains(words), "{line}");
}

/// A role that is no superuser, and what it may.
async fn role(world: &World, grants: &str) -> String {
    let mut url = Url::parse(&world.database_url).unwrap();
    let role = format!("d_{}", &url.path()[1..]);
    let sql = format!("create role {role} login; {}", grants.replace("ROLE", &role));
    world.database.pool().execute(AssertSqlSafe(sql)).await.unwrap();
    url.set_username(&role).unwrap();
    url.into()
}

const SERVES: &str = "grant usage on schema public to ROLE;
    grant select, insert, update on all tables in schema public to ROLE;";

fn healthy(world: &World, database_url: &str) -> Program {
    Program::on(world)
        .with("DATABASE_URL", database_url)
        .with("SECKILL_ADMIN_PHONES", "13800138000")
        .with("SECKILL_PAYMENTS", "sandbox")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fine_and_what_is_in_danger_has_a_line_each() {
    let world = World::new().await;
    let url = role(&world, SERVES).await;
    let ran = healthy(&world, &url).with("SECKILL_SMS", "log").run(&["doctor"]).await;
    assert_eq!((ran.status, ran.stderr.as_str()), (1, ""), "{ran:?}");
    // The servers of the tests may lose the last moments.
    says(&ran, "danger", "PostgreSQL durability", "fsync");
    says(&ran, "danger", "SMS gateway", "set SECKILL_SMS=http");
    says(&ran, "danger", "payment gateway", "set SECKILL_PAYMENTS=http");
    for (about, words) in [
        ("strategy", "group-commit"),
        ("secret", "bytes"),
        ("PostgreSQL ", ""),
        ("PostgreSQL topology", "one primary"),
        ("PostgreSQL role", "no superuser"),
        ("PostgreSQL isolation", "read committed"),
        ("PostgreSQL connections", "takes 16"),
        ("PostgreSQL connection ", "a round trip takes"),
        ("PostgreSQL rights", "all that serve needs"),
        ("oldest transaction", ""),
        ("migrations", "all applied"),
        ("clock", "give or take"),
        ("Redis ", ""),
        ("Redis memory", ""),
        ("Redis connection", "a round trip takes"),
        ("Redis scripts", "can be loaded"),
        ("Redis locks", "taken and released"),
        ("Redis order ids", "can be drawn"),
        ("Redis login limits", "can be counted"),
    ] {
        says(&ran, "ok", about, words);
    }
    says(&ran, "ok", "PostgreSQL TLS", "on this machine");
    let locks: Vec<String> = world
        .redis
        .query(redis::cmd("KEYS").arg(format!("{}*", world.keys.prefix())))
        .await
        .unwrap();
    // The counter of a day that is long over ends by itself.
    assert!(locks.iter().all(|key| key.ends_with("icr:order:1970:01:01")), "{locks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_transaction_and_the_free_disk_have_a_line() {
    let world = World::new().await;
    let mut holder = PgConnection::connect(&world.database_url).await.unwrap();
    holder.execute("begin; select from seckill_vouchers").await.unwrap();
    let pid: i32 =
        sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut holder).await.unwrap();
    let ran = healthy(&world, &world.database_url).run(&["doctor"]).await;
    says(&ran, "ok", "oldest transaction", &format!("(process {pid})"));
    says(&ran, "", "PostgreSQL disk", "GiB are free of ");
    // A role that may see neither.
    let url = role(&world, SERVES).await;
    let ran = healthy(&world, &url).run(&["doctor"]).await;
    says(&ran, "ok", "oldest transaction", "that this role may see");
    assert!(!ran.stdout.contains("PostgreSQL disk"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_do_too_little_or_too_much_is_told() {
    let world = World::new().await;
    let url = role(&world, "grant select on all tables in schema public to ROLE;").await;
    let ran = healthy(&world, &url).run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "PostgreSQL rights", "orders (insert)");
    let ran = Program::on(&world).run(&["doctor"]).await;
    says(&ran, "danger", "PostgreSQL role", "is a superuser");
    says(&ran, "danger", "SMS gateway", "nobody can log in");

    // Nothing is migrated, and the role may not do it.
    let empty = World { database_url: with_database(&world.database_url, "postgres"), ..world };
    let name = format!("doctor_{}", uuid::Uuid::new_v4().simple());
    run_sql(&empty.database_url, &format!("create database {name}")).await;
    let mut url = Url::parse(&url).unwrap();
    url.set_path(&name);
    let ran = healthy(&empty, url.as_str()).run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "migrations", "run seckill migrate as their owner");
    run_sql(&empty.database_url, &format!("drop database {name}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_are_away_and_settings_that_serve_refuses_are_broken() {
    let world = World::new().await;
    let away =
        healthy(&world, "postgres://u@127.0.0.1:9/d").with("REDIS_URL", "redis://127.0.0.1:9");
    let ran = away.run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "PostgreSQL", "connection refused by 127.0.0.1:9");
    says(&ran, "broken", "Redis", "refused");
    // What serve refuses before anything starts, the doctor refuses in the same words.
    healthy(&world, "mysql://u@h/d")
        .run(&["doctor"])
        .await
        .refused(2, "it must begin with postgres://");
    let no_secret = Program::alone()
        .with("DATABASE_URL", &world.database_url)
        .with("REDIS_URL", &world.redis_url);
    let ran = no_secret.run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "secret", "SECKILL_SECRET is required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_or_forbids_is_told() {
    let world = World::new().await;
    let node = RedisNode::start(&[]).await.unwrap();
    let set = async |line: &str| {
        node.command::<String>(&line.split(' ').collect::<Vec<_>>()).await.unwrap()
    };
    set("CONFIG SET maxmemory 50mb maxmemory-policy allkeys-lru timeout 300").await;
    let program = Program::on(&world).with("REDIS_URL", &node.url());
    let ran = program.run(&["doctor"]).await;
    says(&ran, "danger", "Redis memory", "set maxmemory-policy noeviction");
    says(&ran, "note", "Redis idle time", "after 300 s");
    // Who may not ask is told less.
    for user_and_less in ["modest -@dangerous", "whole -script", "mute -@scripting"] {
        let (user, less) = user_and_less.split_once(' ').unwrap();
        set(&format!("ACL SETUSER {user} on >p ~* &* +@all {less}")).await;
    }
    let url = |user: &str| node.url().replacen("://", &format!("://{user}:p@"), 1);
    let ran = program.with("REDIS_URL", &url("modest")).run(&["doctor"]).await;
    says(&ran, "note", "Redis", "INFO is not allowed");
    says(&ran, "ok", "Redis locks", "");
    let ran = Program::on(&world).with("REDIS_URL", &url("whole")).run(&["doctor"]).await;
    says(&ran, "ok", "Redis scripts", "");
    says(&ran, "ok", "Redis locks", "");
    let ran = Program::on(&world).with("REDIS_URL", &url("mute")).run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "Redis scripts", "NOPERM");
    says(&ran, "broken", "Redis locks", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_are_reached_and_nothing_is_sent() {
    let world = World::new().await;
    let gateway = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/send", gateway.local_addr().unwrap());
    let secret = "a secret of the gateway";
    let program = Program::on(&world)
        .with("SECKILL_SMS", "http")
        .with("SECKILL_SMS_URL", &url)
        .with("SECKILL_SMS_SECRET", secret)
        .with("SECKILL_PAYMENTS", "http")
        .with("SECKILL_PAYMENTS_URL", "http://127.0.0.1:9/pay")
        .with("SECKILL_PAYMENTS_SECRET", secret);
    let ran = program.run(&["doctor"]).await;
    says(&ran, "ok", "SMS gateway", "takes connections");
    says(&ran, "danger", "payment gateway", "127.0.0.1:9 cannot be reached");
    let (mut sent, _) = gateway.accept().await.unwrap();
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut sent, &mut bytes).await.unwrap();
    assert!(bytes.is_empty(), "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_is_seen_and_one_with_too_few_sessions_is_broken() {
    if !is_installed() {
        return;
    }
    let world = World::new().await;
    for (mode, sessions, level) in [("transaction", 3, "ok"), ("session", 5, "broken")] {
        let pooler = PgBouncer::start(&world, mode, sessions, "").await;
        let program = Program::on(&world).with("DATABASE_URL", &pooler.url(&world));
        let ran = program.run(&["doctor"]).await;
        says(&ran, level, "PostgreSQL pooler", "");
    }
}
