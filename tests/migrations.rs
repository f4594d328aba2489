//! Migrations: they wait for nobody for long, and servers of neighbouring releases share a schema.

use std::path::Path;

use seckill::store::Database;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

use crate::eventually::{eventually, must};
use crate::world::{World, user};

/// The migrations of the release before this one.
const BEFORE: i64 = 4;

/// A later release has added what this one does not know.
pub const LATER_RELEASE: &str = "alter table orders add column channel text;
    create index orders_by_time on orders (created_at);
    insert into _sqlx_migrations (version, description, success, checksum, execution_time)
    values (9999, 'a later release', true, '\\x00', 0)";

/// A world whose database has nothing but the migrations up to `last`.
async fn world_at(last: i64) -> World {
    let world = World::new().await;
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    let empty = "drop schema public cascade; create schema public";
    sqlx::raw_sql(empty).execute(&mut connection).await.unwrap();
    let all =
        Migrator::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations")).await.unwrap();
    let earlier = all.iter().filter(|migration| migration.version <= last).cloned();
    Migrator::with_migrations(earlier.collect()).run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    // Its connections know the old tables.
    World { database: Database::new(&world.database_url).unwrap(), ..world }
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
    let applied: Vec<(i64, String, Vec<u8>)> =
        sqlx::query_as("select version, description, checksum from _sqlx_migrations order by 1")
            .fetch_all(world.database.pool())
            .await
            .unwrap();
    let all =
        Migrator::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations")).await.unwrap();
    let expected: Vec<(i64, String, Vec<u8>)> = all
        .iter()
        .map(|one| (one.version, one.description.to_string(), one.checksum.to_vec()))
        .collect();
    assert_eq!(applied, expected);
}

#[tokio::test]
async fn the_schema_of_the_release_before_is_migrated_and_sells() {
    let world = world_at(BEFORE).await;
    world.database.migrate().await.unwrap();
    sells(&world).await;
}

#[tokio::test]
async fn an_old_node_starts_and_sells_beside_a_newer_schema() {
    let world = World::new().await;
    sqlx::raw_sql(LATER_RELEASE).execute(world.database.pool()).await.unwrap();
    world.database.migrate().await.unwrap();
    sells(&world).await;
}

/// A session holds what a migration needs. The migration gives way to all who queue behind it, and
/// tries again.
#[tokio::test]
async fn a_migration_that_has_to_wait_gives_way_and_tries_again() {
    let world = world_at(BEFORE).await;
    let mut holder = PgConnection::connect(&world.database_url).await.unwrap();
    let held = "begin; lock table orders in row exclusive mode";
    sqlx::raw_sql(held).execute(&mut holder).await.unwrap();
    let waits = async || {
        let waiting: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'",
        )
        .fetch_one(world.database.pool())
        .await
        .unwrap();
        waiting > 0
    };
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
