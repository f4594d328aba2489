//! The PostgreSQL handle: commits that wait for the disk together, and a server that is gone.

use std::sync::Arc;

use nix::sys::signal::Signal;
use seckill::embedded::{Home, Plan, Server, Servers};
use seckill::model::{OrderId, VoucherId};
use seckill::store::orders::{self, Placed, Purchase};
use seckill::store::{Commit, Database, StoreError};
use sqlx::{Connection, Executor, PgConnection};
use tokio::task::JoinSet;

use crate::eventually::{eventually, must};
use crate::processes::{send, send_with_children};
use crate::world::{World, exe, midnight, user};

const TASKS: i64 = 8;
const ROUNDS: i64 = 50;

/// A world whose PostgreSQL writes its log to disk when somebody waits for that, and hardly
/// otherwise. It has users for all tasks and rounds.
async fn lazy_world() -> (Servers, World) {
    let plan = Plan { home: Home::Throwaway, postgres: true, redis: false, durable: true };
    let servers = tokio::task::spawn_blocking(move || Servers::start(exe(), &plan));
    let servers = servers.await.unwrap().unwrap();
    let database_url = servers.database_url().unwrap().to_owned();
    let mut connection = PgConnection::connect(&database_url).await.unwrap();
    connection.execute("alter system set wal_writer_delay = '10s'").await.unwrap();
    connection.execute("select pg_reload_conf()").await.unwrap();
    connection.close().await.unwrap();
    let database = Database::new(&database_url).unwrap();
    database.migrate().await.unwrap();
    let world = World { database_url, database, ..World::new().await };
    world.users((TASKS * ROUNDS).try_into().unwrap()).await;
    (servers, world)
}

async fn end_all(servers: Servers, world: World) {
    world.database.close().await;
    tokio::task::spawn_blocking(|| servers.stop()).await.unwrap().unwrap();
}

/// How long the log is, and how much of it is on disk, in bytes.
async fn log(connection: &mut PgConnection) -> (i64, i64) {
    let log = sqlx::query_as(
        "select (pg_current_wal_insert_lsn() - '0/0')::bigint,
                (pg_current_wal_flush_lsn() - '0/0')::bigint",
    );
    log.fetch_one(connection).await.unwrap()
}

async fn order(
    connection: &mut PgConnection,
    voucher_id: VoucherId,
    number: i64,
    commit: Commit,
) -> OrderId {
    let order_id = OrderId::new(number).unwrap();
    let purchase = Purchase { order_id, user_id: user(number), voucher_id, at: midnight() };
    let placed = orders::place(connection, &purchase, commit).await.unwrap();
    assert!(matches!(placed, Placed::Ordered(_)), "{placed:?}");
    order_id
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_before_a_flush_is_on_disk_after_it() {
    let (servers, world) = lazy_world().await;
    let (world, stock) = (Arc::new(world), TASKS * ROUNDS);
    let voucher = world.voucher(stock.try_into().unwrap()).await.id;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let world = Arc::clone(&world);
        tasks.spawn(async move {
            let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
            let mut were_ahead = 0;
            for round in 1..=ROUNDS {
                let number = task * ROUNDS + round;
                let id = order(&mut connection, voucher, number, Commit::Asynchronous).await;
                let (length, on_disk) = log(&mut connection).await;
                were_ahead += usize::from(on_disk < length);
                world.database.flush(id).await.unwrap();
                let (_, on_disk) = log(&mut connection).await;
                assert!(on_disk >= length, "{on_disk} of {length} bytes are on disk");
            }
            were_ahead
        });
    }
    let were_ahead: usize = tasks.join_all().await.into_iter().sum();
    assert!(were_ahead > 0, "every asynchronous commit waited for the disk");
    let audit = world.audit().await;
    assert!(audit.holds && audit.stock == 0 && audit.orders == stock, "{audit:?}");
    end_all(servers, Arc::into_inner(world).unwrap()).await;
}

#[tokio::test]
async fn only_a_commit_that_is_asked_for_does_not_wait() {
    let (servers, world) = lazy_world().await;
    let voucher = world.voucher(10).await.id;
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    order(&mut connection, voucher, 1, Commit::Asynchronous).await;
    // The session is as it was, and so are the commits to come.
    let setting = "show synchronous_commit";
    let setting: String = sqlx::query_scalar(setting).fetch_one(&mut connection).await.unwrap();
    assert_eq!(setting, "on");
    for number in 2..=10 {
        let (before, _) = log(&mut connection).await;
        order(&mut connection, voucher, number, Commit::Synchronous).await;
        let (_, on_disk) = log(&mut connection).await;
        assert!(on_disk > before, "{on_disk} is before the commit, which is after {before}");
    }
    connection.close().await.unwrap();
    end_all(servers, world).await;
}

#[tokio::test]
async fn an_order_that_a_restarted_server_has_forgotten_is_not_on_disk() {
    let (servers, world) = lazy_world().await;
    let voucher = world.voucher(100).await.id;
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    let mut other = PgConnection::connect(&world.database_url).await.unwrap();
    let pids = "select pid from pg_stat_activity
                where pid = pg_backend_pid() or backend_type = 'walwriter' order by backend_type";
    let pids: Vec<i32> = sqlx::query_scalar(pids).fetch_all(&mut other).await.unwrap();
    let [session, writer] = *pids else { panic!("{pids:?}") };
    // It would write of its own accord.
    send(writer.cast_unsigned(), Signal::SIGSTOP);
    let mut ids = Vec::new();
    for number in 1..=20 {
        ids.push(order(&mut connection, voucher, number, Commit::Asynchronous).await);
    }
    // One session that dies takes all the others along, and what is in the server's memory.
    send(session.cast_unsigned(), Signal::SIGKILL);
    eventually("the server has told all to end", async || connection.ping().await.is_err()).await;
    send(writer.cast_unsigned(), Signal::SIGCONT);
    let mut told_of = Vec::new();
    for id in ids {
        let mut told = None;
        eventually("the server is back", async || {
            told = Some(world.database.flush(id).await);
            !matches!(told, Some(Err(StoreError::Unknown { .. })))
        })
        .await;
        match told.unwrap() {
            Ok(()) => told_of.push(id.get()),
            Err(StoreError::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    let there = sqlx::query_scalar("select id from orders order by id");
    let there: Vec<i64> = there.fetch_all(&mut connection).await.unwrap();
    assert_eq!(told_of, there);
    assert!(there.len() < 20, "the crash took nothing");
    end_all(servers, world).await;
}

#[tokio::test]
async fn sessions_that_were_ended_cost_no_flush() {
    let (servers, world) = lazy_world().await;
    let voucher = world.voucher(100).await.id;
    let mut connection = PgConnection::connect(&world.database_url).await.unwrap();
    let id = order(&mut connection, voucher, 1, Commit::Asynchronous).await;
    world.database.flush(id).await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
               where application_name = 'seckill'";
    let ended = connection.execute(end).await.unwrap().rows_affected();
    assert!(ended > 0);
    world.database.flush(id).await.unwrap();
    connection.close().await.unwrap();
    end_all(servers, world).await;
}

#[tokio::test]
async fn of_a_flush_by_a_server_that_is_gone_nobody_knows() {
    let (servers, world) = lazy_world().await;
    let id = OrderId::new(1).unwrap();
    let error = world.database.flush(id).await.unwrap_err();
    assert!(!error.outcome_unknown(), "there is no such order: {error}");
    send_with_children(servers.pid(Server::Postgres).unwrap(), Signal::SIGKILL);
    for _ in 0..3 {
        // Neither the one that lost the connection knows what became of it nor who got none.
        let error = world.database.flush(id).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
    }
    end_all(servers, world).await;
}

#[tokio::test]
async fn a_connection_that_does_not_come_back_keeps_nobody_from_closing() {
    let world = World::new().await;
    // As one of the pool's own attempts to reach a server that is gone, which go on for minutes.
    let held = world.database.acquire().await.unwrap();
    must("the handle is closed", world.database.close()).await;
    drop(held);
}
