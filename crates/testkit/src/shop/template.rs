//! The databases of worlds: clones of one that is migrated once for the run.

use seckill::store::Database;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::sync::OnceCell;

use crate::{servers, variables};

const TEMPLATE: &str = "seckill_template";

/// In a test's database sales go by the time that the test sets.
const TEST_TIME: &str = "create table test_time (now timestamptz not null);
    insert into test_time values ('2026-11-11T00:00:00Z');
    create or replace function sale_time() returns timestamptz
    language sql volatile as 'select now from test_time';
    alter table orders alter column created_at set default sale_time()";

/// A function of the database that tests/mutants/run.py has changed.
fn mutant() -> Option<String> {
    let file = variables::text("TEST_FUNCTIONS")?;
    Some(std::fs::read_to_string(file).unwrap())
}

/// Migrates the template. Once for the run.
async fn migrated() -> (String, String) {
    static MIGRATED: OnceCell<()> = OnceCell::const_new();
    let (url, redis_url) = servers::urls().await;
    let migrated = MIGRATED.get_or_init(async || {
        run_sql(&url, &format!("create database {TEMPLATE}")).await;
        let template = Database::new(&with_database(&url, TEMPLATE)).unwrap();
        template.migrate().await.unwrap();
        sqlx::raw_sql(TEST_TIME).execute(template.pool()).await.unwrap();
        if let Some(mutant) = mutant() {
            let mutant = sqlx::raw_sql(AssertSqlSafe(mutant)).execute(template.pool());
            mutant.await.expect("the mutant is SQL");
        }
        template.close().await;
    });
    migrated.await;
    (url, redis_url)
}

pub async fn run_sql(url: &str, statement: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute(AssertSqlSafe(statement)).await.unwrap();
    connection.close().await.unwrap();
}

pub fn with_database(url: &str, name: &str) -> String {
    let mut url = url::Url::parse(url).unwrap();
    url.set_path(name);
    url.into()
}

/// The name and the URL of another clone, and the URL of Redis.
pub(super) async fn cloned() -> (String, String, String) {
    let (postgres, redis_url) = migrated().await;
    let name = format!("t_{}", uuid::Uuid::new_v4().simple());
    run_sql(&postgres, &format!("create database {name} template {TEMPLATE}")).await;
    let url = with_database(&postgres, &name);
    (name, url, redis_url)
}
