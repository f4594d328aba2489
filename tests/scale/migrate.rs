//! `seckill migrate --distribute`.

use std::collections::BTreeSet;

use super::citus::{Citus, Server, is_installed};
use testkit::program::Program;
use testkit::shop::world::World;

/// What lies where.
const DISTRIBUTED: [(&str, &str); 12] = [
    ("entries", "distributed"),
    ("messages", "distributed"),
    ("order_steps", "distributed"),
    ("orders", "distributed"),
    ("payments", "distributed"),
    ("refunds", "distributed"),
    ("returns", "distributed"),
    ("seckill_vouchers", "distributed"),
    ("unmatched_payments", "reference"),
    ("users", "reference"),
    ("voucher_steps", "distributed"),
    ("vouchers", "distributed"),
];

/// Also where Citus is not installed.
#[tokio::test]
async fn a_database_without_citus_is_told_from_one_that_has_it() {
    let world = World::new().await;
    let ran = Program::on(&world).run(&["migrate", "--distribute"]).await;
    assert_eq!((ran.status, &*ran.stdout), (1, "the database is up to date\n"), "{ran:?}");
    assert!(ran.stderr.starts_with("seckill: the data cannot be distributed: "), "{ran:?}");
    assert_eq!(ran.stderr.matches('\n').count(), 1, "{ran:?}");
    // And nothing has changed.
    world.users(1).await;
    let voucher = world.voucher(1).await;
    assert_eq!(Program::on(&world).says(&["migrate"]).await, "the database is up to date\n");
    assert_eq!(world.audit().await.voucher_id, voucher.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_a_database_in_use_is_distributed_once_when_there_is_a_worker() {
    if !is_installed() {
        return;
    }
    let mut cluster = Citus { coordinator: Server::start().await, workers: Vec::new() };
    let program = cluster.program();
    let voucher = program.says(&["voucher", "add", "--title", "100 for 80", "--stock", "2"]).await;
    let voucher = voucher.trim();
    cluster
        .coordinator
        .run(&format!(
            "insert into users (phone, nickname, created_at) values ('+8613900000001', 'one', now());
             select * from sell({voucher}, array[11], array[1], array[now()])"
        ))
        .await;
    let distribute = ["migrate", "--distribute"];
    let ran = program.run(&distribute).await;
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stderr.contains("there is no active worker"), "{ran:?}");

    cluster.set_host().await;
    cluster.add_worker().await;
    let done = "the database is up to date\nthe data is distributed, workers: 1\n";
    assert_eq!(program.says(&distribute).await, done);
    let again = "the database is up to date\nthe data was already distributed\n";
    assert_eq!(program.says(&distribute).await, again);
    // A worker is told from the coordinator.
    let on_worker = Program::alone().with("DATABASE_URL", &cluster.workers[0].url());
    let refused = on_worker.run(&distribute).await;
    assert!(refused.stderr.contains("this server is a worker"), "{refused:?}");
    // But it can be any node's coordinator.
    let from_worker = on_worker.says(&["audit"]).await;
    assert!(from_worker.contains("holds"), "{from_worker}");
    let bought = format!(
        "insert into users (id, phone, nickname, created_at) values (2, '+8613900000002', 'two', now());
         select * from sell({voucher}, array[12], array[2], array[now()])"
    );
    cluster.workers[0].run(&bought).await;

    users_of_both_servers_get_on(&cluster).await;

    let mut connection = cluster.coordinator.connect().await;
    let tables: Vec<(String, String, i32)> = sqlx::query_as(
        "select table_name::text, citus_table_type, colocation_id from citus_tables
         where citus_table_type <> 'local' order by 1",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let kinds: Vec<_> =
        tables.iter().map(|(name, kind, _)| (name.as_str(), kind.as_str())).collect();
    assert_eq!(kinds, DISTRIBUTED);
    let together: BTreeSet<i32> =
        tables.iter().filter(|(_, kind, _)| kind == "distributed").map(|(.., id)| *id).collect();
    assert_eq!(together.len(), 1, "{tables:?}");
    // What was there before is there, and is found on the worker.
    assert!(program.says(&["audit"]).await.contains("holds"));
    let orders: i64 = sqlx::query_scalar("select count(*) from orders where voucher_id = $1")
        .bind(voucher.parse::<i64>().unwrap())
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(orders, 2);
}

/// A user who was made through a worker has an id of that worker's range. The coordinator's own ids go on
/// as before.
async fn users_of_both_servers_get_on(cluster: &Citus) {
    let through_worker =
        "insert into users (phone, nickname, created_at) values ('+8613900000003', 'three', now())";
    cluster.workers[0].run(through_worker).await;
    let program = cluster.program().with("SECKILL_SECRET", "a secret of the tests");
    let file = program.file("tokens.csv");
    program.says(&["tokens", "--users", "2", "--out", file.to_str().unwrap()]).await;
    let ids: Vec<i64> = sqlx::query_scalar("select id from users order by id")
        .fetch_all(&mut cluster.coordinator.connect().await)
        .await
        .unwrap();
    assert!(
        matches!(ids[..], [1, 2, 3, 4, through_worker] if through_worker >= 1 << 48),
        "{ids:?}"
    );
}
