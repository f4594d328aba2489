//! The sequences behind ids. A move to another database may copy the rows and not the sequences, which then hand out ids
//! that are taken.

use std::fmt;
use std::time::Duration;

use super::statements::Work;
use super::{Database, DatabaseSession, StoreError};
use crate::model::UserId;

/// Each table whose ids come from a sequence, and the greatest id that may. A new table with such ids needs a row.
const TABLES: [(&str, &str, i64); 2] = [
    ("users", "select max(id) from users where id between $1 and $2", UserId::LAST_OF_A_RANGE),
    ("vouchers", "select max(id) from vouchers where id between $1 and $2", i64::MAX),
];

/// The sequence of a table, the ids that it may hand out, and the last one that it did. On Citus each server has ids of its
/// own. `may_read`: this role may know the last one.
const SEQUENCE: &str =
    "select seqmin, seqmax, has_sequence_privilege(seqrelid, 'select,usage') as may_read,
           case when has_sequence_privilege(seqrelid, 'select,usage')
                then coalesce(pg_sequence_last_value(seqrelid), seqmin - 1) else seqmax end as last
    from pg_sequence where seqrelid = pg_get_serial_sequence($1, 'id')::regclass";

/// How long the database may take to compare, and to mend.
const WITHIN: Duration = Duration::from_secs(30);

/// A sequence whose next id is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingSequence {
    /// Whose ids it hands out.
    pub table: &'static str,
    /// The last id that it handed out.
    pub last: i64,
    /// The greatest id in the table.
    pub greatest: i64,
}

impl fmt::Display for LaggingSequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, last, greatest } = self;
        write!(
            formatter,
            "the sequence of {table}.id is at {last}, and the greatest id is {greatest}"
        )
    }
}

/// What sequences were found.
#[derive(Debug, Default)]
pub struct Sequences {
    /// Those that hand out ids that are taken.
    pub lagging: Vec<LaggingSequence>,
    /// The tables whose sequences this role may not read.
    pub unknown: Vec<&'static str>,
}

impl Database {
    /// Compares each sequence with the greatest id of its table, as of one moment: ids that are handed out meanwhile do not
    /// make it lag.
    pub async fn sequences(&self) -> Result<Sequences, StoreError> {
        Work::snapshot(WITHIN, self.pool()).run(look).await
    }

    /// Sets those that lag to the greatest id. Returns them as they were.
    pub async fn mend_sequences(&self) -> Result<Vec<LaggingSequence>, StoreError> {
        if self.sequences().await?.lagging.is_empty() {
            return Ok(Vec::new());
        }
        let mend = async |session: &mut DatabaseSession| {
            // An insert takes its id once it has a lock that waits for this one: no sequence goes back.
            let lock = "lock table users, vouchers in share row exclusive mode";
            sqlx::query(lock).execute(&mut *session).await?;
            let Sequences { lagging, .. } = look(session).await?;
            for LaggingSequence { table, greatest, .. } in &lagging {
                let set = sqlx::query("select setval(pg_get_serial_sequence($1, 'id'), $2)");
                set.bind(*table).bind(greatest).execute(&mut *session).await?;
            }
            Ok(lagging)
        };
        Work::transaction(WITHIN, self.pool()).run(mend).await
    }
}

async fn look(session: &mut DatabaseSession) -> sqlx::Result<Sequences> {
    let mut found = Sequences::default();
    for (table, greatest, at_most) in TABLES {
        let sequence = sqlx::query_as(SEQUENCE).bind(table).fetch_optional(&mut *session).await?;
        let Some::<(i64, i64, bool, i64)>((first, end, may_read, last)) = sequence else {
            continue;
        };
        if !may_read {
            found.unknown.push(table);
        }
        let greatest = sqlx::query_scalar(greatest).bind(first).bind(end.min(at_most));
        let greatest: Option<i64> = greatest.fetch_one(&mut *session).await?;
        if let Some(greatest) = greatest.filter(|greatest| *greatest > last) {
            found.lagging.push(LaggingSequence { table, last, greatest });
        }
    }
    Ok(found)
}
