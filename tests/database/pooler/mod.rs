//! Behind a connection pooler: PgBouncer gives its few server sessions to whoever asks next.

pub mod pgbouncer;

use futures_util::future::join_all;
use seckill::model::{Clock, SystemClock, UserId};
use seckill::store::Database;
use sqlx::{Connection, Executor, PgConnection};

use crate::api::nodes::node;
use pgbouncer::{PgBouncer, is_installed, knows_prepared_statements};
use testkit::program::Program;
use testkit::shop::world::{World, user};

/// What another client of the pooler sees of a session that was ours before.
const SETTINGS: &str = "select string_agg(name || '=' || setting, ' ' order by name)
    from pg_settings
    where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'jit', 'lock_timeout',
        'default_transaction_isolation', 'default_transaction_read_only', 'synchronous_commit',
        'enable_seqscan', 'search_path')
       or name like 'seckill.%'";
const LEFT: &str = "select (select count(*) from pg_prepared_statements)
    + (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())";

/// A program whose database is behind a pooler.
fn behind(pooler: &PgBouncer, world: &World) -> Program {
    Program::on(world).with("DATABASE_URL", &pooler.url(world))
}

/// A world in which demos sell, whose database has these settings. Its users are of this world alone: the
/// keys of locks in the shared Redis have no prefix here.
pub async fn world_of_demos(settings: &[(&str, &str)]) -> World {
    let world = World::new().await;
    world.at_present().await;
    let name = url::Url::parse(&world.database_url).unwrap().path()[1..].to_owned();
    for (setting, value) in settings {
        let alter = format!("alter database {name} set {setting} = {value}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(alter)).execute(world.database.pool()).await.unwrap();
    }
    let first = 1 + i64::from(uuid::Uuid::new_v4().as_fields().0);
    let first = UserId::new(first).unwrap();
    world.users_from(first, 1, SystemClock.now()).await;
    world
}

/// Settings of the database that are neither ours nor PostgreSQL's own.
const OTHER_SETTINGS: [(&str, &str); 3] = [
    ("jit", "on"),
    ("statement_timeout", "'1min'"),
    ("default_transaction_isolation", "serializable"),
];

/// Sells by nodes behind the pooler, free vouchers and paid ones, and runs every command there.
async fn sells_through(pooler: &PgBouncer, world: &World) {
    let program = behind(pooler, world);
    for demo in [
        "--stock 60 --users 200 --attempts 3 --nodes 2 --vouchers 3",
        "--stock 20 --users 60 --attempts 2 --nodes 2 --pay 0.7",
    ] {
        let verdict = program.demo(demo).await;
        assert_eq!(verdict["holds"], true, "{demo}: {verdict}");
    }
    for command in [&["migrate"][..], &["voucher", "list"], &["audit"]] {
        program.says(command).await;
    }
}

/// Nothing that we set, named or locked meets another client of the pooler in any of its sessions.
async fn sessions_are_as_new(pooler: &PgBouncer, world: &World) {
    let mut direct = PgConnection::connect(&world.database_url).await.unwrap();
    let fresh: String = sqlx::query_scalar(SETTINGS).fetch_one(&mut direct).await.unwrap();
    let options = pooler.options(world);
    let mut held = Vec::new();
    for _ in 0..pooler.sessions() {
        let mut client = PgConnection::connect_with(&options).await.unwrap();
        // Keeps the session to itself.
        client.execute("begin").await.unwrap();
        let left = sqlx::query_scalar(LEFT).persistent(false);
        let left: i64 = left.fetch_one(&mut client).await.unwrap();
        assert_eq!(left, 0);
        let settings = sqlx::query_scalar(SETTINGS).persistent(false);
        let settings: String = settings.fetch_one(&mut client).await.unwrap();
        assert_eq!(settings, fresh);
        held.push(client);
    }
}

/// One that lends them has three for the 32 connections of two nodes. The pooler refuses our settings, or drops them.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_sell_through_a_pooler_that_keeps_sessions_or_lends_them_for_a_transaction() {
    if !is_installed() {
        return;
    }
    let dropped = "ignore_startup_parameters = options,extra_float_digits";
    let mut poolers =
        vec![("session", 40, ""), ("transaction", 3, ""), ("transaction", 3, dropped)];
    if knows_prepared_statements() {
        let settings = ["max_prepared_statements = 0", "max_prepared_statements = 100"];
        poolers.extend(settings.map(|settings| ("transaction", 3, settings)));
    }
    for (mode, sessions, settings) in poolers {
        let world = world_of_demos(&OTHER_SETTINGS).await;
        let pooler = PgBouncer::start(&world, mode, sessions, settings).await;
        sells_through(&pooler, &world).await;
        sessions_are_as_new(&pooler, &world).await;
    }
}

/// One that keeps sessions needs one for each of the 16 connections of a server; with fewer, the last
/// connections would wait for ever, and buyers be told 503.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_that_keeps_too_few_sessions_is_refused() {
    if !is_installed() {
        return;
    }
    let world = World::new().await;
    world.at_present().await;
    let pooler = PgBouncer::start(&world, "session", 15, "").await;
    let program = behind(&pooler, &world).with("RUST_LOG", "error");
    let refused = program.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    refused.refused(2, "give it 16 sessions for each server process");
    let pooler = PgBouncer::start(&world, "session", 16, "").await;
    let enough = World { database_url: pooler.url(&world), ..world };
    drop(node(&enough, &[]).await);
}

/// What a client that knows nothing of poolers leaves in their sessions: a statement by the name that sqlx
/// gives its first one.
async fn leave_names(pooler: &PgBouncer, world: &World) {
    let mut held = Vec::new();
    for _ in 0..pooler.sessions() {
        let mut client = PgConnection::connect_with(&pooler.options(world)).await.unwrap();
        client.execute("begin").await.unwrap();
        sqlx::query("select 'another'").execute(&mut client).await.unwrap();
        held.push(client);
    }
    for mut client in held {
        client.execute("commit").await.unwrap();
    }
}

/// Sessions that have names of others, and that end in the middle of a sale: what buyers were told is so.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_end_behind_a_pooler_cost_buyers_a_503_and_no_order() {
    if !is_installed() {
        return;
    }
    let world = World::new().await;
    world.at_present().await;
    world.users(300).await;
    let voucher = world.voucher(300).await.id;
    let pooler = PgBouncer::start(&world, "transaction", 3, "").await;
    leave_names(&pooler, &world).await;
    let direct_url = world.database_url.clone();
    let mut direct = PgConnection::connect(&direct_url).await.unwrap();
    let database = Database::new(&pooler.url(&world)).unwrap();
    database.migrate().await.unwrap();
    let ours = database.run(async |session| {
        let settings = "select current_setting('statement_timeout') || ' ' ||
            current_setting('transaction_isolation') || ' ' || current_setting('jit')";
        Ok(sqlx::query_scalar::<_, String>(settings).fetch_one(session).await?)
    });
    assert_eq!(ours.await.unwrap(), "5s read committed off");
    let world = World { database, ..world };
    let shop = world.shop().await;
    let mut end_sessions = async || {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()";
        sqlx::raw_sql(end).execute(&mut direct).await.unwrap();
    };
    let mut ordered = Vec::new();
    for (wave, first) in (1..=300).step_by(10).enumerate() {
        let buying = join_all((first..first + 10).map(|number| shop.buy(user(number), voucher)));
        let ending = async {
            if wave % 3 == 1 {
                end_sessions().await
            }
        };
        let (bought, ()) = tokio::join!(buying, ending);
        for bought in bought {
            match bought {
                Ok(bought) => ordered.push(bought),
                Err(error) => assert!(error.retry_may_help(), "{error}"),
            }
        }
    }
    let told = ordered.iter().filter(|bought| bought.code() == "ordered").count();
    let direct = Database::new(&direct_url).unwrap();
    let audit = seckill::purchase::audit::run(direct.pool(), Some(voucher)).await.unwrap();
    assert!(audit[0].holds && audit[0].orders >= i64::try_from(told).unwrap(), "{told}: {audit:?}");
    // Those of the first wave.
    assert!(told >= 10, "{told}");
}
