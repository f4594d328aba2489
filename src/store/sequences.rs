//! The sequences behind ids, and behind the numbers of events. A move to another database may copy the rows and not the
//! sequences, which then hand out ids that are taken.

use std::time::Duration;

use super::statements::Work;
use super::{Database, DatabaseSession, Service, StoreError};
use crate::model::UserId;

/// Each table whose ids come from a sequence, their column, and the greatest of them. A new table with such ids needs a row.
const TABLES: [(&str, &str, &str); 4] = [
    ("users", "id", "select max(id) from users where id <= $1"),
    ("vouchers", "id", "select max(id) from vouchers where id <= $1"),
    ("unmatched_payments", "id", "select max(id) from unmatched_payments where id <= $1"),
    // A reader of events is past what was reached: with smaller numbers it would miss them.
    (
        "orders",
        "seq",
        "select max(greatest) from (
           select max(seq) from orders where seq <= $1
           union all select max(seq) from order_steps where seq <= $1
           union all select max(seq) from voucher_steps where seq <= $1
           union all select reached from event_horizon
         ) of_each (greatest)",
    ),
];
/// Above it are user ids that do not come from a sequence, and on Citus those that workers hand out.
const LAST_OF_A_SEQUENCE: i64 = UserId::LAST_OF_A_RANGE;

/// The last id that the sequence of a table handed out; null: this role may not know.
const SEQUENCE: &str = "select case when has_sequence_privilege(seqrelid, 'select,usage')
                then coalesce(pg_sequence_last_value(seqrelid), seqmin - 1) end
    from pg_sequence where seqrelid = pg_get_serial_sequence($1, $2)::regclass";
const FORBIDDEN: &str =
    "this role may not read the sequences of ids: deploy/postgres/roles.sql grants it";

const HELD: &str = "sequences lag behind the ids of their tables, and another session holds one of those tables: end it (pg_stat_activity), and run seckill migrate again";

/// How long the database may take to compare, and to mend.
const WITHIN: Duration = Duration::from_secs(30);

impl Database {
    /// Which sequences lag behind the ids of their tables, each in words, as of one moment: ids that are handed out meanwhile
    /// do not make one lag.
    pub async fn lagging_sequences(&self) -> Result<Vec<String>, StoreError> {
        let look = async |session: &mut DatabaseSession| look(session, false).await;
        Work::snapshot(WITHIN, self.pool()).run_or_refuse(look).await
    }

    /// Sets those that lag to the greatest id. Returns them as they were.
    pub async fn mend_sequences(&self) -> Result<Vec<String>, StoreError> {
        if self.lagging_sequences().await?.is_empty() {
            return Ok(Vec::new());
        }
        let mend = async |session: &mut DatabaseSession| {
            // All who write these tables wait behind a lock that waits. It waits for longer than `deadlock_timeout`, 1 s: only then
            // does PostgreSQL cancel an autovacuum that holds a table, as after a move one may.
            sqlx::query("set local lock_timeout = '2s'").execute(&mut *session).await?;
            // An insert takes its id once it has a lock that waits for this one: no sequence goes back.
            let lock =
                "lock table users, vouchers, unmatched_payments, orders, order_steps, voucher_steps
                        in share row exclusive mode";
            sqlx::query(lock).execute(&mut *session).await?;
            look(session, true).await
        };
        let mended = Work::transaction(WITHIN, self.pool()).run_or_refuse(mend).await;
        mended.map_err(|error| match error {
            held if held.is_row_held() => StoreError::unavailable(Service::Postgres, HELD),
            other => other,
        })
    }
}

async fn look(session: &mut DatabaseSession, mends: bool) -> Result<Vec<String>, StoreError> {
    let mut lagging = Vec::new();
    for (table, column, greatest) in TABLES {
        let last = sqlx::query_scalar::<_, Option<i64>>(SEQUENCE).bind(table).bind(column);
        let last = last.fetch_one(&mut *session).await?;
        let last = last.ok_or_else(|| StoreError::defect(Service::Postgres, FORBIDDEN))?;
        let greatest = sqlx::query_scalar(greatest).bind(LAST_OF_A_SEQUENCE);
        let greatest: Option<i64> = greatest.fetch_one(&mut *session).await?;
        let Some(greatest) = greatest.filter(|greatest| *greatest > last) else { continue };
        lagging.push(format!(
            "the sequence of {table}.{column} is at {last}, and the greatest id is {greatest}"
        ));
        if mends {
            let set = sqlx::query("select setval(pg_get_serial_sequence($1, $3), $2)");
            set.bind(table).bind(greatest).bind(column).execute(&mut *session).await?;
        }
    }
    Ok(lagging)
}
