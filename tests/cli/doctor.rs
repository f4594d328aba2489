//! `seckill doctor`: what is wrong with the surroundings is told before a sale tells it.

use faults::RedisNode;
use sqlx::{AssertSqlSafe, Executor};
use url::Url;

use testkit::processes::Node;
use testkit::program::{Program, Ran};
use testkit::shop::api_client::Api;
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
    grant select, insert, update on all tables in schema public to ROLE;
    grant select, usage on all sequences in schema public to ROLE;";

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
    says(&ran, "danger", "SMS gateway", "set SECKILL_SMS=http");
    says(&ran, "danger", "payment gateway", "set SECKILL_PAYMENTS=http");
    says(&ran, "note", "balancer", "SECKILL_TRUSTED_PROXIES=127.0.0.1");
    for (about, words) in [
        ("open files", "at most"),
        ("PostgreSQL ", ""),
        ("PostgreSQL TLS", "on this machine"),
        ("PostgreSQL role", "no superuser"),
        ("PostgreSQL rights", "all that serve needs"),
        ("PostgreSQL sequences", "ahead of all ids"),
        ("PostgreSQL connections", "takes 16"),
        ("PostgreSQL connection ", "a round trip takes"),
        ("clock", "give or take"),
        ("Redis ", ""),
        ("Redis memory", ""),
        ("Redis connection", "a round trip takes"),
        ("Redis rights", "all that serve needs"),
        ("login codes", "are sent"),
    ] {
        says(&ran, "ok", about, words);
    }
    let locks: Vec<String> = world
        .redis
        .query(redis::cmd("KEYS").arg(format!("{}*", world.keys.prefix())))
        .await
        .unwrap();
    // The counter of a day that is long over ends by itself.
    assert!(locks.iter().all(|key| key.ends_with("icr:order:1970:01:01")), "{locks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn money_of_nobodys_is_counted_until_it_is_back_or_resolved() {
    let world = World::new().await;
    let doctor = healthy(&world, &role(&world, SERVES).await);
    let ran = doctor.run(&["doctor"]).await;
    assert!(!ran.stdout.contains("unmatched payments"), "{ran:?}");
    let kept = "insert into unmatched_payments (transaction_id, payment_id, amount, received_at, returned_at, resolved_at)
        values ('t1', 'p', 1, now(), null, null), ('t2', 'p', 1, now(), now(), null), ('t3', 'p', 1, now(), null, now()),
        ('t4', 'p', 1, null, now(), null), ('t5', 'p', 1, null, now(), now())";
    run_sql(&world.database_url, kept).await;
    let ran = doctor.run(&["doctor"]).await;
    says(&ran, "note", "unmatched payments", "2 wait for somebody");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_went_on_while_the_databases_clock_was_ahead_is_told() {
    let world = World::new().await;
    world.voucher_with_line(1).await;
    let voucher = world.voucher_with_line(1).await.id;
    let doctor = healthy(&world, &role(&world, SERVES).await);
    let goes_on_at = async |time: &str| {
        let sql = format!("update vouchers set line_time = now() + interval '{time}'");
        run_sql(&world.database_url, &format!("{sql} - (id <> {voucher})::int * interval '1 s'"))
            .await;
    };
    goes_on_at("30 s").await;
    assert!(!doctor.run(&["doctor"]).await.stdout.contains("draws and lines"));
    goes_on_at("1 day").await;
    let ran = doctor.run(&["doctor"]).await;
    says(&ran, "danger", "draws and lines", "2 are ahead of the database's clock");
    says(&ran, "danger", "draws and lines", &format!("that of voucher {voucher} until 20"));
    says(&ran, "danger", "draws and lines", "make it anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_free_disk_has_a_line_for_a_role_that_may_see_it() {
    let world = World::new().await;
    let ran = healthy(&world, &world.database_url).run(&["doctor"]).await;
    says(&ran, "", "PostgreSQL disk", "GiB are free of ");
    let url = role(&world, SERVES).await;
    let ran = healthy(&world, &url).run(&["doctor"]).await;
    assert!(!ran.stdout.contains("PostgreSQL disk"), "{ran:?}");
}

/// The tables are those of the database, which has none that `doctor` does not know.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_told_of_every_table() {
    let world = World::new().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "select tablename::text from pg_tables
         where schemaname = 'public' and tablename not in ('_sqlx_migrations', 'test_time')",
    )
    .fetch_all(world.database.pool())
    .await
    .unwrap();
    assert!(tables.iter().any(|table| table == "entries"), "{tables:?}");
    let url = role(&world, "grant select on all tables in schema public to ROLE;").await;
    let ran = healthy(&world, &url).run(&["doctor"]).await;
    says(&ran, "note", "PostgreSQL sequences", "this role may not read the sequences");
    assert_eq!(ran.status, 2, "{ran:?}");
    for table in tables {
        for right in ["insert", "update"] {
            says(&ran, "broken", "PostgreSQL rights", &format!(" {table} ({right})"));
        }
    }
    says(&ran, "broken", "PostgreSQL rights", " event_seq (usage, select)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_superuser_and_a_role_that_may_make_no_tables_are_told() {
    let world = World::new().await;
    let ran = Program::on(&world).run(&["doctor"]).await;
    assert_eq!(ran.status, 1, "{ran:?}");
    says(&ran, "danger", "PostgreSQL role", "is a superuser");

    // Nothing is migrated, and the role may not do it.
    let url = role(&world, SERVES).await;
    let empty = World { database_url: with_database(&world.database_url, "postgres"), ..world };
    let name = format!("doctor_{}", uuid::Uuid::new_v4().simple());
    run_sql(&empty.database_url, &format!("create database {name}")).await;
    let mut url = Url::parse(&url).unwrap();
    url.set_path(&name);
    let ran = healthy(&empty, url.as_str()).run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "PostgreSQL rights", "run seckill migrate as their owner");
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
    no_secret.run(&["doctor"]).await.refused(2, "SECKILL_SECRET is required with DATABASE_URL");
}

#[tokio::test]
async fn without_named_stores_there_is_nothing_to_look_at_and_nothing_is_made() {
    let program = Program::alone();
    let ran = program.run(&["doctor"]).await;
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    says(&ran, "note", "stores", "there is nothing to look at");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert!(!program.file("data").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_or_forbids_is_told() {
    let world = World::new().await;
    let node = RedisNode::start(&[]).await.unwrap();
    let set = async |line: &str| {
        node.command::<String>(&line.split(' ').collect::<Vec<_>>()).await.unwrap()
    };
    set("CONFIG SET maxmemory 50mb maxmemory-policy allkeys-lru").await;
    let program = Program::on(&world).with("REDIS_URL", &node.url());
    let ran = program.run(&["doctor"]).await;
    says(&ran, "danger", "Redis memory", "set maxmemory-policy noeviction");
    // Who may not ask is told less.
    for user_and_less in ["modest -@dangerous", "whole -script", "mute -@scripting"] {
        let (user, less) = user_and_less.split_once(' ').unwrap();
        set(&format!("ACL SETUSER {user} on >p ~* &* +@all {less}")).await;
    }
    let url = |user: &str| node.url().replacen("://", &format!("://{user}:p@"), 1);
    let ran = program.with("REDIS_URL", &url("modest")).run(&["doctor"]).await;
    says(&ran, "note", "Redis", "INFO is not allowed");
    says(&ran, "ok", "Redis rights", "");
    let ran = Program::on(&world).with("REDIS_URL", &url("whole")).run(&["doctor"]).await;
    says(&ran, "ok", "Redis rights", "");
    let ran = Program::on(&world).with("REDIS_URL", &url("mute")).run(&["doctor"]).await;
    assert_eq!(ran.status, 2, "{ran:?}");
    says(&ran, "broken", "Redis rights", "NOPERM");
    let ran = Program::on(&world).with("REDIS_URL", &url("nobody")).run(&["doctor"]).await;
    says(&ran, "broken", "Redis", &format!("{} says \"WRONGPASS\"", node.address()));
}

/// Strangers may have used it up, on purpose: then the operator is told before the buyers tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_closed_for_all_is_told_by_the_doctor_and_in_the_log_once() {
    let world = World::new().await;
    world.users(1).await;
    let phone = "select phone from users where id = 1";
    let known: String = sqlx::query_scalar(phone).fetch_one(world.database.pool()).await.unwrap();
    let program = Program::on(&world)
        .with("SECKILL_SMS", "log")
        .with("SECKILL_LOGIN_LIMITS", "codes-in-all=2/24h,codes-for-newcomers=1/24h");
    let server = Node::serve(&program, &[]).await;
    let api = Api::at(world, server.address);
    says(&program.run(&["doctor"]).await, "ok", "login codes", "are sent");
    api.ask_code("13800138001").await.is(202);
    for _ in 0..2 {
        api.ask_code("13800138002").await.problem(429, "too_many_requests");
    }
    let ran = program.run(&["doctor"]).await;
    says(&ran, "danger", "login codes", "codes-for-newcomers is used up");
    says(&ran, "danger", "login codes", "to people who have not logged in before");
    api.ask_code(&known).await.is(202);
    api.ask_code(&known).await.problem(429, "too_many_requests");
    says(&program.run(&["doctor"]).await, "danger", "login codes", "codes-in-all is used up");
    let log = server.stop().await;
    for limit in ["codes-for-newcomers", "codes-in-all"] {
        let said = log
            .lines()
            .filter(|line| line.contains("a limit that all share") && line.contains(limit));
        assert_eq!(said.count(), 1, "{limit}: {log}");
    }
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
