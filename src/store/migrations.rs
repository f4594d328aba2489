//! The migrations, oldest first. Until 0.1.0 is published they are edited in place, and a database that was made by
//! other ones is refused; from then on they only add (CONTRIBUTING.md), so that servers of the release before go on
//! beside a newer schema.
//!
//! Listed here instead of by `sqlx::migrate!`, which makes the compiler build sqlx a second time, for
//! itself. A test holds the list against the directory.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType};
use sqlx::postgres::PgPool;
use tokio::time::Instant;

use super::statements::Work;
use super::{Database, DatabaseSession, StoreError};

const MIGRATIONS: [(i64, &str, &str); 2] = [
    (1, "schema", include_str!("../../migrations/0001_schema.sql")),
    (2, "functions", include_str!("../../migrations/0002_functions.sql")),
];

/// A migration may take long on a large table. But while it waits for a lock, all who need the table
/// queue behind it: so it waits a moment, gives way, and tries again.
const SETTINGS: &str = "set local idle_in_transaction_session_timeout = 0;
    set local lock_timeout = '2s'";
/// Held by one transaction, not by a session: a pooler gives that to others. One that waits for it gives way,
/// too, and tries again.
const ONE_AT_A_TIME: &str = "select pg_advisory_xact_lock(hashtext('seckill migrate'))";
/// As sqlx makes it, whose command line can read it.
const LIST: &str = "create table if not exists _sqlx_migrations (
    version bigint primary key,
    description text not null,
    installed_on timestamptz not null default now(),
    success boolean not null,
    checksum bytea not null,
    execution_time bigint not null
)";
const ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(500);
/// How long one may take to apply.
const APPLIED_WITHIN: Duration = Duration::from_secs(24 * 3600);
/// How long it may take to read which were applied.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// The database was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// Another build of seckill made the database, by other migrations: until the first release they are edited in place.
    #[error(
        "the database was made by another build of seckill, with other migrations, and cannot be migrated; nothing \
         was changed. That build exports its orders (`seckill orders export`), and pg_dump all of it. Then name an \
         empty database (DATABASE_URL) or another data directory (--data-dir)"
    )]
    MadeByAnotherBuild,
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for MigrationError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The names of each `what`, such as a table, that the migrations make.
pub fn names_of(what: &str) -> Vec<&'static str> {
    let what = format!("create {what} ");
    let lines = MIGRATIONS.iter().flat_map(|(_, _, sql)| sql.lines());
    lines.filter_map(|line| line.strip_prefix(&what)?.split([' ', '(', ';']).next()).collect()
}

impl Database {
    /// Applies the migrations that are missing; where none is, it only reads. Safe from several processes
    /// at once: an advisory lock lets one in.
    ///
    /// # Errors
    /// `MadeByAnotherBuild` when other migrations made the database. `Unavailable` also when another session keeps a
    /// lock that a migration needs. `Defect` when a migration fails.
    pub async fn migrate(&self) -> Result<(), MigrationError> {
        if self.is_migrated().await? {
            return Ok(());
        }
        run(self.pool()).await
    }

    /// Whether every migration of this version was applied. It only reads.
    ///
    /// # Errors
    /// `MadeByAnotherBuild` when other migrations made the database.
    pub async fn is_migrated(&self) -> Result<bool, MigrationError> {
        self.find_pooler().await?;
        let missing = Work::snapshot(READ_WITHIN, self.pool()).run(first_missing).await??;
        Ok(missing.is_none())
    }
}

/// The oldest migration that was not applied.
async fn first_missing(
    session: &mut DatabaseSession,
) -> sqlx::Result<Result<Option<Migration>, MigrationError>> {
    let there = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null");
    let mut applied: Vec<(i64, Vec<u8>)> = Vec::new();
    if there.fetch_one(&mut *session).await? {
        let list = sqlx::query_as("select version, checksum from _sqlx_migrations where success");
        applied = list.fetch_all(session).await?;
    }
    for migration in migrations() {
        match applied.iter().find(|(version, _)| *version == migration.version) {
            None => return Ok(Ok(Some(migration))),
            Some((_, checksum)) if *checksum != *migration.checksum => {
                return Ok(Err(MigrationError::MadeByAnotherBuild));
            }
            Some(_) => {}
        }
    }
    Ok(Ok(None))
}

fn migrations() -> [Migration; MIGRATIONS.len()] {
    MIGRATIONS.map(|(version, description, sql)| {
        let description = Cow::Borrowed(description);
        Migration::new(version, description, MigrationType::Simple, sql.into_sql_str(), false)
    })
}

/// Applies the migrations that are missing, each in a transaction of its own. Migrations of a later release
/// stay.
async fn run(pool: &PgPool) -> Result<(), MigrationError> {
    let mut attempt = 1;
    loop {
        let error = match apply_one(pool).await {
            Ok(true) => continue,
            Ok(false) => return Ok(()),
            Err(MigrationError::Store(error)) if error.is_turned_away() => error,
            Err(error) => return Err(error),
        };
        if attempt == ATTEMPTS {
            return Err(error.into());
        }
        tracing::info!(attempt, "another session holds what a migration needs, trying again");
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies the first that is missing. Whether there was one.
async fn apply_one(pool: &PgPool) -> Result<bool, MigrationError> {
    let apply = async |session: &mut DatabaseSession| {
        sqlx::raw_sql(SETTINGS).execute(&mut *session).await?;
        sqlx::query(ONE_AT_A_TIME).execute(&mut *session).await?;
        sqlx::query(LIST).execute(&mut *session).await?;
        let migration = match first_missing(session).await? {
            Ok(Some(migration)) => migration,
            Ok(None) => return Ok(Ok(false)),
            Err(error) => return Ok(Err(error)),
        };
        let started = Instant::now();
        sqlx::raw_sql(migration.sql.clone()).execute(&mut *session).await?;
        sqlx::query(
            "insert into _sqlx_migrations
               (version, description, success, checksum, execution_time)
             values ($1, $2, true, $3, $4)",
        )
        .bind(migration.version)
        .bind(&*migration.description)
        .bind(&*migration.checksum)
        .bind(i64::try_from(started.elapsed().as_nanos()).unwrap_or(i64::MAX))
        .execute(session)
        .await?;
        Ok(Ok(true))
    };
    Work::transaction(APPLIED_WITHIN, pool).run(apply).await?
}
