//! Another session that holds rows, and those who wait for it.

use std::ops::RangeInclusive;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

use super::world::{World, user};
use crate::flood::flood;
use crate::wait::eventually;

/// See [`World::wait_long_for_rows`].
pub const WAIT_LONG_FOR_ROWS: &str = "alter function sell set lock_timeout = '10s'; alter function sell_many set lock_timeout = '10s'";

/// Statements in this database that wait for a row, or a table.
pub async fn waiting(pool: &PgPool) -> i64 {
    let waiting = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'",
    );
    waiting.fetch_one(pool).await.unwrap()
}

/// Ends the sessions of those statements: they write nothing.
pub async fn end_those_who_wait(pool: &PgPool) {
    let end = sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'",
    );
    end.execute(pool).await.unwrap();
}

/// From now on the functions whose settings contain `which` have this `lock_timeout`.
pub async fn set_lock_timeouts(pool: &PgPool, which: &str, timeout: &str) {
    let settings = format!(
        "do $$
        declare it regprocedure;
        begin
            for it in select oid from pg_proc
                      where pronamespace = 'public'::regnamespace and proconfig::text like '%{which}%'
            loop
                execute format('alter function %s set lock_timeout = ''{timeout}''', it);
            end loop;
        end $$"
    );
    sqlx::raw_sql(AssertSqlSafe(settings)).execute(pool).await.unwrap();
}

/// From now on a step that has locked a sale waits for so long.
pub async fn set_wait_behind_sales(pool: &PgPool, timeout: &str) {
    let function = format!(
        "do $$ begin
            execute replace(pg_get_functiondef('lock_sale'::regproc), '50ms', '{timeout}');
        end $$"
    );
    sqlx::raw_sql(AssertSqlSafe(function)).execute(pool).await.unwrap();
}

impl World {
    /// From now on an order waits for its voucher's row for as long as its buyers wait, and not for
    /// less: on a busy machine a test may hold the row for longer than it means to.
    pub async fn wait_long_for_rows(&self) {
        sqlx::raw_sql(WAIT_LONG_FOR_ROWS).execute(self.database.pool()).await.unwrap();
    }

    /// How many of these users hold the lock of purchases.
    pub async fn locks_held(&self, users: RangeInclusive<i64>) -> i64 {
        let names: Vec<_> = users.map(|number| self.keys.order_lock(user(number))).collect();
        self.redis.query(redis::cmd("EXISTS").arg(names)).await.unwrap()
    }

    /// Locks the vouchers' rows: their orders wait in the database until the connection is closed.
    pub async fn hold_the_row(&self) -> PgConnection {
        self.begin("select from seckill_vouchers for update").await
    }

    /// Runs `statement`, and leaves its transaction open.
    pub async fn begin(&self, statement: &str) -> PgConnection {
        let mut connection = PgConnection::connect(&self.database_url).await.unwrap();
        let statement = AssertSqlSafe(format!("begin; {statement}"));
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        connection
    }

    /// Until a statement waits for what another session holds.
    pub async fn until_one_waits(&self) {
        // Not on the holder's connection: a transaction sees this view as it first saw it.
        eventually("a statement waits", async || waiting(self.database.pool()).await > 0).await;
    }

    /// Until a statement sleeps, as the database was made to.
    pub async fn until_one_sleeps(&self) {
        let sleeping = "select count(*) from pg_stat_activity
                        where datname = current_database() and wait_event = 'PgSleep'";
        eventually("a statement sleeps", async || {
            let count = sqlx::query_scalar::<_, i64>(sleeping);
            count.fetch_one(self.database.pool()).await.unwrap() == 1
        })
        .await;
    }

    /// `first` is done and not committed until `second` waits for it; then what `second` came to.
    pub async fn behind<T>(&self, first: &str, second: impl Future<Output = T>) -> T {
        committed_behind(self, 1, first, second).await
    }

    /// `statement` holds a row until `first` waits for it, and then `second`; what both came to. Those who wait for a row get it
    /// in the order in which they came.
    pub async fn both_behind<T, U>(
        &self,
        statement: &str,
        first: impl Future<Output = T>,
        second: impl Future<Output = U>,
    ) -> (T, U) {
        let second = async {
            self.until_one_waits().await;
            second.await
        };
        let both = async { tokio::join!(first, second) };
        committed_behind(self, 2, statement, both).await
    }
}

/// `held` is done and not committed until so many statements wait for it; then what `work` came to.
async fn committed_behind<T>(
    world: &World,
    count: i64,
    held: &str,
    work: impl Future<Output = T>,
) -> T {
    let mut holder = world.begin(held).await;
    let commit = async {
        let so_many = async || waiting(world.database.pool()).await >= count;
        eventually("as many statements wait", so_many).await;
        sqlx::raw_sql("commit").execute(&mut holder).await.unwrap();
    };
    tokio::join!(work, commit).0
}

/// Others go on while a flood waits for what `held` locks. They begin when the first one waits.
pub async fn flood_behind(
    world: &World,
    held: &str,
    at_once: usize,
    ask: impl AsyncFn(usize),
    others: impl Future<Output = ()>,
) {
    let mut holder = world.begin(held).await;
    let others = async {
        world.until_one_waits().await;
        others.await;
    };
    flood(at_once, ask, others).await;
    // Closed, it would let go a moment later.
    sqlx::raw_sql("rollback").execute(&mut holder).await.unwrap();
}
