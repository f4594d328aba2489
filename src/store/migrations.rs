//! The migrations, oldest first. They only add (CONTRIBUTING.md), so that servers of the release
//! before go on beside a newer schema.
//!
//! Listed here instead of by `sqlx::migrate!`, which makes the compiler build sqlx a second time, for
//! itself. A test holds the list against the directory.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr};

use super::{Service, StoreError};

const MIGRATIONS: [(i64, &str, &str); 4] = [
    (1, "schema", include_str!("../../migrations/0001_schema.sql")),
    (2, "functions", include_str!("../../migrations/0002_functions.sql")),
    (3, "order life", include_str!("../../migrations/0003_order_life.sql")),
    (4, "order life functions", include_str!("../../migrations/0004_order_life_functions.sql")),
];

/// The last migration of 0.1.0. Versions before it had other ones by the same numbers; a migration that
/// was released is never edited.
const LAST_OF_0_1_0: i64 = 2;

/// A migration may take long on a large table. But while it waits for a lock, all who need the table
/// queue behind it: so it waits a moment, gives way, and tries again.
const SETTINGS: &str = "set statement_timeout = 0; set idle_in_transaction_session_timeout = 0;
    set lock_timeout = '2s'";
const LOCK_NOT_AVAILABLE: &str = "55P03";
const ATTEMPTS: usize = 30;
const PAUSE: Duration = Duration::from_millis(500);

/// The database was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A version before 0.1.0 made the database, by migrations that are no longer there.
    #[error(
        "the database was made by a version before 0.1.0 and cannot be migrated: name an empty one \
         (DATABASE_URL), or another data directory (--data-dir); CHANGELOG.md says how to copy the rows"
    )]
    MadeBeforeRelease,
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for MigrationError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Whether all of them were applied. It only reads.
pub(super) async fn are_applied(connection: &mut PgConnection) -> Result<bool, MigrationError> {
    let there = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null");
    if !there.fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    let applied = sqlx::query_as("select version, checksum from _sqlx_migrations where success");
    let applied: Vec<(i64, Vec<u8>)> = applied.fetch_all(connection).await?;
    for migration in migrations() {
        match applied.iter().find(|(version, _)| *version == migration.version) {
            None => return Ok(false),
            Some((version, checksum)) if *checksum != *migration.checksum => {
                return Err(mismatch(*version));
            }
            Some(_) => {}
        }
    }
    Ok(true)
}

fn migrations() -> [Migration; MIGRATIONS.len()] {
    MIGRATIONS.map(|(version, description, sql)| {
        let description = Cow::Borrowed(description);
        Migration::new(version, description, MigrationType::Simple, sql.into_sql_str(), false)
    })
}

/// The database has another migration by this number.
fn mismatch(version: i64) -> MigrationError {
    if version <= LAST_OF_0_1_0 {
        return MigrationError::MadeBeforeRelease;
    }
    let error = MigrateError::VersionMismatch(version);
    StoreError::defect(Service::Postgres, error.to_string()).into()
}

/// Applies the migrations that are missing. Migrations of a later release stay.
pub(super) async fn run(connection: &mut PgConnection) -> Result<(), MigrationError> {
    sqlx::raw_sql(SETTINGS).execute(&mut *connection).await?;
    let mut migrator = Migrator::with_migrations(migrations().into());
    migrator.set_ignore_missing(true);
    let mut attempt = 1;
    loop {
        let error = match migrator.run(&mut *connection).await {
            Ok(()) => return Ok(()),
            Err(MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) => cause,
            Err(MigrateError::VersionMismatch(version)) => return Err(mismatch(version)),
            Err(other) => {
                return Err(StoreError::defect(Service::Postgres, other.to_string()).into());
            }
        };
        let code = error.as_database_error().and_then(|answer| answer.code());
        if code.as_deref() != Some(LOCK_NOT_AVAILABLE) || attempt == ATTEMPTS {
            return Err(error.into());
        }
        tracing::info!(attempt, "another session holds what a migration needs, trying again");
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}
