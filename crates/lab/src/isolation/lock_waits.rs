//! Which session waits for which, as the server itself says.

use std::collections::BTreeSet;
use std::time::Duration;

use super::connection::{SqlAnswer, SqlConnection};

/// Locks by `get_lock` are in no table. The server knows the holder of a name, and the name stands in the
/// waiter's statement. A waiter that has been let in keeps its state for a moment: then the holder is the
/// waiter itself, or nobody.
const MARIADB: &str = "
    select waiter.trx_mysql_thread_id, blocker.trx_mysql_thread_id
    from information_schema.innodb_lock_waits w
    join information_schema.innodb_trx waiter on waiter.trx_id = w.requesting_trx_id
    join information_schema.innodb_trx blocker on blocker.trx_id = w.blocking_trx_id
    union
    select id, holder
    from (select id, is_used_lock(substring_index(substring_index(info, \"'\", 2), \"'\", -1)) holder
          from information_schema.processlist where state = 'User lock') user_lock
    where holder <> id";

/// What waits for what at one moment: pairs of a waiter and the one in its way.
#[derive(Debug, Default)]
pub(super) struct LockWaits(Vec<(i64, i64)>);

impl LockWaits {
    /// How long a look comes after the one before. InnoDB shows its tables of transactions from a cache, which
    /// it renews only when nobody has read it for a tenth of a second.
    pub(super) fn pause(connection: &SqlConnection) -> Duration {
        match connection {
            SqlConnection::Postgres(_) => Duration::from_millis(5),
            SqlConnection::MariaDb(_) => Duration::from_millis(110),
        }
    }

    /// Asks the server about the sessions with these ids.
    pub(super) async fn look(connection: &mut SqlConnection, ids: &[i64]) -> anyhow::Result<Self> {
        let answer = match connection {
            // From the table of locks itself: a lock that was given back is in nobody's way, though the
            // process that waited has not woken up yet.
            SqlConnection::Postgres(_) => {
                let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                let sql = format!(
                    "select waiter, blocker from unnest(array[{}]) waiter,
                     unnest(pg_blocking_pids(waiter)) blocker",
                    ids.join(", ")
                );
                connection.must(&sql).await?
            }
            SqlConnection::MariaDb(_) => connection.must(MARIADB).await?,
        };
        pairs(&answer).map(Self)
    }

    /// The sessions that this one waits for, if the wait can end by something that one of them still says. Two
    /// that wait for each other say nothing: the server will end one of them, so they are not seen to wait.
    pub(super) fn blockers(&self, waiter: i64) -> BTreeSet<i64> {
        let direct = |of: i64| self.0.iter().filter(move |(it, _)| *it == of).map(|(_, by)| *by);
        let (mut reached, mut open) = (BTreeSet::new(), vec![waiter]);
        while let Some(next) = open.pop() {
            open.extend(direct(next).filter(|by| reached.insert(*by)));
        }
        match reached.contains(&waiter) {
            true => BTreeSet::new(),
            false => direct(waiter).collect(),
        }
    }
}

fn pairs(answer: &SqlAnswer) -> anyhow::Result<Vec<(i64, i64)>> {
    let number = |value: &Option<String>| value.as_deref().unwrap_or_default().parse::<i64>();
    let rows = answer.rows.iter().filter_map(|row| match &row[..] {
        [waiter, blocker] => Some((waiter, blocker)),
        _ => None,
    });
    rows.map(|(waiter, blocker)| Ok((number(waiter)?, number(blocker)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_wait_for_each_other_are_not_seen_to_wait() {
        let waits = LockWaits(vec![(1, 2), (2, 3)]);
        assert_eq!(waits.blockers(1), BTreeSet::from([2]));
        assert_eq!(waits.blockers(2), BTreeSet::from([3]));
        assert_eq!(waits.blockers(3), BTreeSet::new());
        let circle = LockWaits(vec![(1, 2), (2, 3), (3, 1), (4, 5)]);
        assert_eq!(circle.blockers(1), BTreeSet::new());
        assert_eq!(circle.blockers(4), BTreeSet::from([5]));
    }
}
