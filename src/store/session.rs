//! A connection while one piece of work has it.
//!
//! Behind a connection pooler (PgBouncer, RDS Proxy) only a transaction is sure to stay on one server
//! session. So every piece of work is a transaction there, which brings its settings with it; and no
//! statement has a name, because names live as long as the session, which other clients get next. A
//! connection of its own needs none of this: its settings came with the start packet, one statement is one
//! transaction, and named statements are parsed once.
//!
//! Some sessions are of no more use, and are not the only ones: they know a statement as it was before a migration changed
//! what it returns, which PostgreSQL refuses for as long as the session lives; or they began while the database took no
//! writes, and take none for as long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{
    PgArguments, PgConnectOptions, PgConnection, PgQueryResult, PgRow, PgStatement, PgTypeInfo,
    Postgres,
};
use sqlx::{AssertSqlSafe, Connection, Either, Execute, Executor, SqlStr};
use tokio::time::Instant;

use super::time_limits::ANSWER_WITHIN;
use super::{StoreError, pooler};
use redis_link::timeout::within;

/// A connection of a pool. It is closed when this is dropped before the work is done: its state is unknown. And it is closed
/// after each failure that is not about this request alone.
#[derive(Debug)]
pub struct DatabaseSession {
    connection: Option<PoolConnection<Postgres>>,
    is_pooled: bool,
    /// Where the connection leads to.
    address: Arc<PgConnectOptions>,
}

impl DatabaseSession {
    pub(super) fn on(connection: PoolConnection<Postgres>, address: Arc<PgConnectOptions>) -> Self {
        let is_pooled = pooler::is_at_end_of(&address);
        Self { connection: Some(connection), is_pooled, address }
    }

    /// Does `work`, as one transaction if `begin` or a pooler asks for it, and gives the connection back.
    /// `Ok` from `work` commits. A statement that failed has taken the whole transaction back. Where the answer says that
    /// the session is of no more use, those that are as old may be no better.
    pub(super) async fn run<T, E: Into<StoreError>>(
        mut self,
        begin: Option<String>,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        let begin = begin.or_else(|| self.is_pooled.then(|| pooler::begin("read committed", "")));
        let is_transaction = begin.is_some();
        let done = self.work(begin, work).await;
        match &done {
            Ok(_) => drop(self.connection.take().map(give_back)),
            Err(error) => {
                learn_of_stale(error, &self.address);
                if error.is_about_this_request() {
                    self.give_back_after_refusal(is_transaction);
                }
            }
        }
        done
    }

    async fn work<T, E: Into<StoreError>>(
        &mut self,
        begin: Option<String>,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        let Some(begin) = begin else { return work(self).await.map_err(Into::into) };
        sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *self).await?;
        let answer = work(self).await.map_err(Into::into)?;
        sqlx::raw_sql("commit").execute(self).await?;
        Ok(answer)
    }

    /// Gives the connection back once the server is done with what it refused. A server of Citus refuses before it has
    /// told its workers, one of which may be silent: then the connection is closed.
    fn give_back_after_refusal(&mut self, is_transaction: bool) {
        let Some(mut connection) = self.connection.take() else { return };
        tokio::spawn(async move {
            let end = async {
                if is_transaction {
                    sqlx::raw_sql("rollback").execute(&mut *connection).await?;
                }
                connection.ping().await
            };
            if matches!(within(ANSWER_WITHIN, end).await, Ok(Ok(()))) {
                give_back(connection);
            } else {
                connection.close_on_drop();
            }
        });
    }

    /// Whether a server answers.
    ///
    /// # Errors
    /// When none does.
    pub async fn ping(&mut self) -> sqlx::Result<()> {
        self.connection().ping().await
    }

    fn connection(&mut self) -> &mut PgConnection {
        self.connection
            .as_mut()
            .unwrap_or_else(|| unreachable!("a connection is there until the work is done"))
    }
}

/// Lets a connection lie in its pool. The pool asks each that comes back whether it lives, and would wait for the answer without
/// a limit: a connection whose answers a firewall drops would never leave its place to another.
pub(super) fn give_back(mut connection: PoolConnection<Postgres>) {
    tokio::spawn(async move { within(ANSWER_WITHIN, connection.return_to_pool()).await });
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.close_on_drop();
        }
    }
}

impl<'c> Executor<'c> for &'c mut DatabaseSession {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let may_be_named = !self.is_pooled;
        self.connection().fetch_many(Statement { query, may_be_named })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let may_be_named = !self.is_pooled;
        self.connection().fetch_optional(Statement { query, may_be_named })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        assert!(
            !self.is_pooled,
            "a prepared statement has a name, which the pooler's next client would meet"
        );
        self.connection().prepare_with(sql, parameters)
    }
}

struct Statement<E> {
    query: E,
    may_be_named: bool,
}

impl<'q, E: Execute<'q, Postgres>> Execute<'q, Postgres> for Statement<E> {
    fn sql(self) -> SqlStr {
        self.query.sql()
    }

    fn statement(&self) -> Option<&PgStatement> {
        self.query.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        self.query.take_arguments()
    }

    fn persistent(&self) -> bool {
        self.may_be_named && self.query.persistent()
    }
}

/// Each new session of a database that takes no writes is refused, too. So long the others, which serve readers, are left
/// alone.
const READ_ONLY_AGAIN: Duration = Duration::from_secs(1);

/// When a session of each database was last found to be of no more use: one that was made later is. Shared by all handles
/// of the process, as what happened concerns all of them; another database is not concerned.
static FOUND_AT: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// The database that `options` lead to.
pub(super) fn database_of(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    // Without a name, PostgreSQL takes that of the user.
    let name = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}:{port}/{name}", socket.display()),
        None => format!("{host}:{port}/{name}"),
    }
}

/// A session of the database that `options` lead to has answered with `error` just now. Sessions as old as it may be no
/// better: they are replaced when they are next asked for.
fn learn_of_stale(error: &StoreError, options: &PgConnectOptions) {
    if error.is_stale_plan() {
        tracing::info!("statements have changed: connections are made anew");
        end_those_before_now(options);
    } else if error.is_read_only() && !may_be_in_session_of(READ_ONLY_AGAIN, &database_of(options))
    {
        end_those_before_now(options);
    }
}

/// No session that was made before now is used again.
pub(super) fn end_those_before_now(options: &PgConnectOptions) {
    let mut found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.insert(database_of(options), Instant::now());
}

/// Whether a session of this age in `database` may be of no more use.
pub(super) fn may_be_in_session_of(age: Duration, database: &str) -> bool {
    let found_at = FOUND_AT.lock().unwrap_or_else(PoisonError::into_inner);
    found_at.get(database).is_some_and(|found_at| found_at.elapsed() < age)
}
