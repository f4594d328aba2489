//! One short session with a server that is perhaps not there yet.

use std::{path::Path, time::Duration};

use sqlx::{
    Connection, Executor, PgConnection,
    postgres::{PgConnectOptions, PgSslMode},
};

/// Connects as `postgres` to `database` and, when given, runs `sql`; all of it takes
/// `patience` at most.
///
/// On a runtime of this thread alone: the supervisor is the servers' parent and must not
/// have threads, whose end the kernel would take for the parent's.
pub(super) fn converse(
    sockets: &Path,
    database: &str,
    sql: Option<&'static str>,
    patience: Duration,
) -> Result<(), sqlx::Error> {
    let options = PgConnectOptions::new_without_pgpass()
        .socket(sockets)
        .port(5432)
        .username("postgres")
        .database(database)
        .ssl_mode(PgSslMode::Disable);
    let session = async {
        let mut connection = PgConnection::connect_with(&options).await?;
        if let Some(sql) = sql {
            connection.execute(sql).await?;
        }
        connection.close().await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(patience, session).await.map_err(std::io::Error::from)?
    })
}

/// The five characters of the server's "no", if it is one: `3D000`, no such database.
pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(std::borrow::Cow::into_owned)
}
