//! A connection to either server, on which statements are sent as text, as a person would type them.

use std::path::Path;
use std::str::FromStr;

use anyhow::anyhow;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgDatabaseError, PgQueryResult};
use sqlx::{
    AssertSqlSafe, ColumnIndex, ConnectOptions, Connection, Database, Decode, Either, Executor,
    Postgres, Row, Type,
};
use sqlx_mysql::{
    MySql, MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlQueryResult,
};

/// What a server says when it shuts down or is made to: no answer to a statement.
const GOODBYES: [&str; 4] = ["57P01", "57P02", "57P03", "1053"];

/// A connection.
#[derive(Debug)]
pub(super) enum SqlConnection {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

/// What a statement was answered with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SqlAnswer {
    /// Each value as text; `None` is null.
    pub(super) rows: Vec<Vec<Option<String>>>,
    /// How many rows it changed or, of an update, found.
    pub(super) affected: u64,
}

impl SqlAnswer {
    /// The first value of the first row.
    pub(super) fn value(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

/// What a server objects to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SqlRefusal {
    /// PostgreSQL's SQLSTATE; MariaDB's number.
    pub(super) code: String,
    /// MariaDB's SQLSTATE, which many of its numbers share.
    pub(super) state: Option<String>,
    pub(super) message: String,
    /// PostgreSQL's DETAIL.
    pub(super) detail: Option<String>,
}

/// Why a statement has no answer.
#[derive(Debug)]
pub(super) enum SqlFailure {
    Refused(SqlRefusal),
    /// The connection is gone: nothing is known.
    Lost(sqlx::Error),
}

impl SqlConnection {
    /// A connection to PostgreSQL, in the schema where one is named.
    pub(super) async fn postgres(url: &str, schema: Option<&str>) -> anyhow::Result<Self> {
        // Statements that wait are what is wanted here, and no news for a log.
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let mut connection = Self::Postgres(PgConnection::connect_with(&options).await?);
        if let Some(schema) = schema {
            connection.must(&format!("set search_path to {schema}")).await?;
        }
        Ok(connection)
    }

    /// A connection to MariaDB, in the database where one is named.
    pub(super) async fn mariadb(socket: &Path, database: Option<&str>) -> anyhow::Result<Self> {
        let options =
            MySqlConnectOptions::new().socket(socket).username("lab").disable_statement_logging();
        let options = match database {
            Some(database) => options.database(database),
            None => options,
        };
        Ok(Self::MariaDb(MySqlConnection::connect_with(&options).await?))
    }

    /// Sends a statement, and waits for what the server says to it.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<SqlAnswer, SqlFailure> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let asked = match self {
            Self::Postgres(connection) => {
                let answers = connection.fetch_many(query);
                collected::<Postgres>(answers, PgQueryResult::rows_affected).await
            }
            Self::MariaDb(connection) => {
                let answers = connection.fetch_many(query);
                collected::<MySql>(answers, MySqlQueryResult::rows_affected).await
            }
        };
        asked.map_err(failure)
    }

    /// Sends a statement of the lab's own, to which no server objects.
    pub(super) async fn must(&mut self, sql: &str) -> anyhow::Result<SqlAnswer> {
        self.ask(sql).await.map_err(|failure| match failure {
            SqlFailure::Refused(SqlRefusal { code, message, .. }) => {
                anyhow!("{sql:?} was refused: {code}: {message}")
            }
            SqlFailure::Lost(error) => anyhow::Error::new(error).context("the connection is gone"),
        })
    }

    /// By what the server calls this connection.
    pub(super) async fn id(&mut self) -> anyhow::Result<i64> {
        let sql = match self {
            Self::Postgres(_) => "select pg_backend_pid()",
            Self::MariaDb(_) => "select connection_id()",
        };
        let answer = self.must(sql).await?;
        Ok(answer.value().unwrap_or_default().parse()?)
    }

    /// Says goodbye. A server that is gone needs none.
    pub(super) async fn close(self) {
        let _ = match self {
            Self::Postgres(connection) => connection.close().await,
            Self::MariaDb(connection) => connection.close().await,
        };
    }
}

async fn collected<D>(
    mut answers: BoxStream<'_, sqlx::Result<Either<D::QueryResult, D::Row>>>,
    affected: fn(&D::QueryResult) -> u64,
) -> sqlx::Result<SqlAnswer>
where
    D: Database,
    String: for<'r> Decode<'r, D> + Type<D>,
    usize: ColumnIndex<D::Row>,
{
    let mut answer = SqlAnswer::default();
    while let Some(part) = answers.try_next().await? {
        match part {
            Either::Left(done) => answer.affected += affected(&done),
            Either::Right(row) => {
                // Answers to plain text are text, whatever their type.
                let values =
                    (0..row.len()).map(|at| row.try_get_unchecked::<Option<String>, usize>(at));
                answer.rows.push(values.collect::<sqlx::Result<_>>()?);
            }
        }
    }
    Ok(answer)
}

fn failure(error: sqlx::Error) -> SqlFailure {
    let sqlx::Error::Database(database) = &error else { return SqlFailure::Lost(error) };
    let message = database.message().to_owned();
    let refusal = if let Some(mariadb) = database.try_downcast_ref::<MySqlDatabaseError>() {
        let state = mariadb.code().map(str::to_owned);
        SqlRefusal { code: mariadb.number().to_string(), state, message, detail: None }
    } else {
        let postgres = database.try_downcast_ref::<PgDatabaseError>();
        let detail = postgres.and_then(PgDatabaseError::detail).map(str::to_owned);
        let code = database.code().unwrap_or_default().into_owned();
        SqlRefusal { code, state: None, message, detail }
    };
    match GOODBYES.contains(&refusal.code.as_str()) {
        true => SqlFailure::Lost(error),
        false => SqlFailure::Refused(refusal),
    }
}
