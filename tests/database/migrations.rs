//! Migrations: they wait for nobody for long, servers of neighbouring releases share a schema, and a
//! database that other migrations made is refused.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use seckill::store::{Database, MigrationError, orders};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use testkit::program::Program;
use testkit::shop::held_rows::waiting;
use testkit::shop::world::{World, user};
use testkit::wait::{eventually, must};

/// A later release has added what this one does not know.
pub const LATER_RELEASE: &str = "alter table orders add column channel text;
    create index orders_by_time on orders (created_at);
    insert into _sqlx_migrations (version, description, success, checksum, execution_time)
    values (9999, 'a later release', true, '\\x00', 0)";

/// What another build left: its tables by other migrations.
const OF_ANOTHER_BUILD: &str = "update _sqlx_migrations set checksum = '\\x00';
    insert into _sqlx_migrations (version, description, success, checksum, execution_time)
    select version, 'another build', true, '\\x00', 0 from generate_series(3, 7) version
    on conflict do nothing";

/// A migration as the database lists it.
type Applied = (i64, String, Vec<u8>, DateTime<Utc>);

/// A world whose database has nothing in it.
async fn empty_world() -> World {
    let world = World::new().await;
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    let empty = "drop schema public cascade; create schema public";
    sqlx::raw_sql(empty).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    world
}

async fn applied(world: &World) -> Vec<Applied> {
    sqlx::query_as(
        "select version, description, checksum, installed_on from _sqlx_migrations order by 1",
    )
    .fetch_all(world.database.pool())
    .await
    .unwrap()
}

async fn sells(world: &World) {
    world.at_present().await;
    world.users(1).await;
    let voucher = world.voucher(1).await.id;
    let shop = world.shop().await;
    assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), "ordered");
    assert!(world.audit().await.holds);
}

#[tokio::test]
async fn the_program_has_the_migrations_of_the_directory() {
    let world = World::new().await;
    let applied = applied(&world).await;
    let applied: Vec<_> = applied
        .iter()
        .map(|(version, description, checksum, _)| (*version, description.as_str(), &checksum[..]))
        .collect();
    let all =
        Migrator::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations")).await.unwrap();
    let expected: Vec<_> =
        all.iter().map(|one| (one.version, &*one.description, &*one.checksum)).collect();
    assert_eq!(applied, expected);
}

#[tokio::test]
async fn an_empty_database_is_migrated_once_by_two_servers_and_a_command_at_the_same_time() {
    let world = empty_world().await;
    let other = Database::new(&world.database_url).unwrap();
    let program = Program::on(&world);
    let command = program.says(&["migrate"]);
    let (one, two, said) = tokio::join!(world.database.migrate(), other.migrate(), command);
    one.unwrap();
    two.unwrap();
    let first = applied(&world).await;
    for said in [said, program.says(&["migrate"]).await] {
        assert_eq!(said, "the database is up to date\n");
    }
    world.database.migrate().await.unwrap();
    assert_eq!(applied(&world).await, first);
    sells(&world).await;
}

#[tokio::test]
async fn an_old_node_starts_and_sells_beside_a_newer_schema() {
    let world = World::new().await;
    sqlx::raw_sql(LATER_RELEASE).execute(world.database.pool()).await.unwrap();
    world.database.migrate().await.unwrap();
    sells(&world).await;
}

#[tokio::test]
async fn a_database_of_another_build_is_refused_in_one_sentence_and_left_alone() {
    let world = World::new().await;
    sqlx::raw_sql(OF_ANOTHER_BUILD).execute(world.database.pool()).await.unwrap();
    let before = applied(&world).await;
    let refused = world.database.migrate().await;
    assert!(matches!(refused, Err(MigrationError::MadeByAnotherBuild)), "{refused:?}");
    for arguments in [
        &["migrate"][..],
        &["migrate", "--distribute"],
        &["voucher", "list"],
        &["audit"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let program = Program::on(&world).with("RUST_LOG", "error");
        let ran = program.run(arguments).await;
        ran.refused(2, "the database was made by another build of seckill");
    }
    assert_eq!(applied(&world).await, before);
}

/// Another session is about to create a table of the same name. The migration gives way to all who
/// queue behind it, and tries again.
#[tokio::test]
async fn a_migration_that_has_to_wait_gives_way_and_tries_again() {
    let world = empty_world().await;
    let holder = world.begin("create table orders ()").await;
    let waits = async || waiting(world.database.pool()).await > 0;
    let held_up = async {
        eventually("the migration waits", waits).await;
        eventually("the migration gives way", async || !waits().await).await;
        eventually("the migration tries again", waits).await;
        holder.close().await.unwrap();
    };
    let migrating = must("the migration ends", world.database.migrate());
    let (migrated, ()) = tokio::join!(migrating, held_up);
    migrated.unwrap();
    sells(&world).await;
}

/// A migration that changes what `sell_many` returns, and what finds the orders of buyers.
const REPLACED: &str = "begin;
    alter function sell_many rename to sell_many_before;
    create function sell_many(vouchers bigint[], ids bigint[], users bigint[], times timestamptz[])
    returns table (of_voucher bigint, order_id bigint, reason text, earlier_id bigint, to_pay bigint,
                   until timestamptz, news text)
    language sql as $$ select *, 'news' from sell_many_before(vouchers, ids, users, times) $$;
    alter function orders_of_buyers rename to orders_of_buyers_before;
    create function orders_of_buyers(voucher bigint, buyers bigint[])
    returns table (buyer_id bigint, order_id bigint, news text)
    language sql as $$ select *, 'news' from orders_of_buyers_before(voucher, buyers) $$;
    commit";

/// All eight connections for purchases know both statements, so that whatever comes next meets one of them.
async fn let_all_connections_know(world: &World) {
    // The work below waits for the last of them, no longer than any work waits for a connection.
    assert!(world.database.has_all_connections().await);
    let all_have_one = tokio::sync::Barrier::new(8);
    let nobody: Vec<i64> = Vec::new();
    let learn = || {
        world.database.run(async |session| {
            let sell = sqlx::query("select * from sell_many($1, $2, $3, $4)").bind(&nobody);
            let sell = sell.bind(&nobody).bind(&nobody).bind(Vec::<DateTime<Utc>>::new());
            sell.execute(&mut *session).await?;
            let owners = sqlx::query("select * from orders_of_buyers($1, $2)").bind(0_i64);
            owners.bind(&nobody).execute(session).await?;
            all_have_one.wait().await;
            Ok(())
        })
    };
    futures_util::future::try_join_all((0..8).map(|_| learn())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_are_replaced_while_a_server_sells_cost_nobody_an_order() {
    let world = World::new().await;
    world.at_present().await;
    world.users(60).await;
    let voucher = world.voucher(60).await.id;
    let shop = world.shop().await;
    assert_eq!(shop.buy(user(1), voucher).await.unwrap().code(), "ordered");
    let_all_connections_know(&world).await;
    sqlx::raw_sql(REPLACED).execute(world.database.pool()).await.unwrap();
    let buying = (2..=60).map(|number| shop.buy(user(number), voucher));
    for bought in futures_util::future::join_all(buying).await {
        assert_eq!(bought.unwrap().code(), "ordered");
    }
    assert!(world.audit().await.holds);
}

/// Removed and made anew, with one column more or less, again and again in the rush. What fails then has done
/// nothing, and is not taken for a defect.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_made_anew_again_and_again_is_no_defect() {
    let world = World::new().await;
    world.at_present().await;
    world.users(400).await;
    let voucher = world.voucher(400).await.id;
    let shop = world.shop().await;
    sqlx::raw_sql(REPLACED).execute(world.database.pool()).await.unwrap();
    let is_over = AtomicBool::new(false);
    let replace = async {
        for number in 1.. {
            let (column, value) =
                if number % 2 == 0 { (", news text", ", 'news'") } else { ("", "") };
            let anew = format!(
                "begin; drop function sell_many;
                 create function sell_many(vouchers bigint[], ids bigint[], users bigint[], times timestamptz[])
                 returns table (of_voucher bigint, order_id bigint, reason text, earlier_id bigint,
                                to_pay bigint, until timestamptz{column})
                 language sql as $$
                     select *{value} from sell_many_before(vouchers, ids, users, times) $$;
                 commit"
            );
            sqlx::raw_sql(AssertSqlSafe(anew)).execute(world.database.pool()).await.unwrap();
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    let buy = async {
        let mut refused = Vec::new();
        for number in 1..=400 {
            match shop.buy(user(number), voucher).await {
                Ok(bought) => assert_eq!(bought.code(), "ordered"),
                Err(error) => {
                    assert!(error.retry_may_help(), "{error}");
                    refused.push(user(number));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        refused
    };
    let (refused, ()) = tokio::join!(buy, replace);
    // How many depends on the machine: on a busy one each purchase meets more functions that are made anew.
    assert!(refused.len() < 400, "nobody bought in the rush");
    for buyer in refused {
        eventually("who asks again has an order", async || {
            shop.buy(buyer, voucher)
                .await
                .is_ok_and(|it| ["ordered", "already_bought"].contains(&it.code()))
        })
        .await;
    }
    let audit = world.audit().await;
    assert!(audit.holds && audit.orders == 400, "{audit:?}");
}

/// What only reads is not asked again by the server; whoever asks again is answered.
#[tokio::test]
async fn a_read_that_meets_a_replaced_function_fails_at_most_once() {
    let world = World::new().await;
    let voucher = world.voucher(1).await.id;
    let_all_connections_know(&world).await;
    sqlx::raw_sql(REPLACED).execute(world.database.pool()).await.unwrap();
    let buyers = [user(1)];
    let ask = || orders::find_owned(world.database.purchases(), voucher, &buyers);
    let mut failures = 0;
    for _ in 0..20 {
        if let Err(error) = ask().await {
            assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
            failures += 1;
        }
    }
    // Not once a connection. (None where another test's handle has met one just before.)
    assert!(failures <= 1, "{failures}");
}
