//! What a server says of a deadlock, without what differs from run to run.

use super::connection::{SqlConnection, SqlRefusal};

/// The report, a line each. `sessions` are ids and names.
pub(super) async fn deadlock_report(
    connection: &mut SqlConnection,
    refusal: &SqlRefusal,
    sessions: &[(i64, String)],
) -> anyhow::Result<Vec<String>> {
    if let SqlConnection::Postgres(_) = connection {
        let detail = refusal.detail.as_deref().unwrap_or_default();
        return Ok(detail.lines().map(|line| postgres_line(line, sessions)).collect());
    }
    let answer = connection.must("show engine innodb status").await?;
    let status = answer.rows.first().and_then(|row| row.last()?.clone()).unwrap_or_default();
    Ok(mariadb_lines(&status, sessions))
}

fn name_of(id: &str, sessions: &[(i64, String)]) -> Option<String> {
    let id: i64 = id.parse().ok()?;
    sessions.iter().find(|(known, _)| *known == id).map(|(_, name)| name.clone())
}

/// "Process 17 waits for ShareLock on transaction 745; blocked by process 18."
fn postgres_line(line: &str, sessions: &[(i64, String)]) -> String {
    let words = line.split(' ').map(|word| {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        if digits.is_empty() {
            return word.to_owned();
        }
        word.replace(digits, name_of(digits, sessions).as_deref().unwrap_or("N"))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The section on the latest deadlock, a line each: whose transaction and which statement, the lock that it
/// waits for, the lock in its way, the transaction that was ended.
fn mariadb_lines(status: &str, sessions: &[(i64, String)]) -> Vec<String> {
    let Some((_, section)) = status.split_once("LATEST DETECTED DEADLOCK") else {
        return Vec::new();
    };
    // Until the line under the next heading.
    let section = section.split("\nTRANSACTIONS\n").next().unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for line in section.lines().map(str::trim_end) {
        if line.starts_with("*** ") {
            lines.push(line.to_owned());
            continue;
        }
        let more = if let Some(rest) = line.strip_prefix("MariaDB thread id ") {
            name_of(rest.split(',').next().unwrap_or_default(), sessions)
        } else if let Some((_, lock)) = line.split_once(" index ").filter(|_| is_lock(line)) {
            Some(format!("index {}", without_id(lock)))
        } else {
            line.starts_with("update ").then(|| line.to_owned())
        };
        if let (Some(last), Some(more)) = (lines.last_mut(), more) {
            last.push(' ');
            last.push_str(&more);
        }
    }
    lines
}

fn is_lock(line: &str) -> bool {
    line.starts_with("RECORD LOCKS ")
}

/// "PRIMARY of table `isolation_3`.`orders` trx id 17 lock_mode X" without the database and the number.
fn without_id(lock: &str) -> String {
    let Some((before, after)) = lock.split_once(" trx id ") else { return lock.to_owned() };
    let table = before.rsplit('.').next().unwrap_or_default();
    let index = before.split(' ').next().unwrap_or_default();
    let mode = after.split_once(' ').map(|(_, mode)| mode).unwrap_or_default();
    format!("{index} of table {table} {mode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_sessions_and_nothing_that_differs_from_run_to_run() {
        let sessions = [(17, "T1".to_owned()), (18, "T2".to_owned())];
        let line = "Process 17 waits for ShareLock on transaction 745; blocked by process 18.";
        let told = "Process T1 waits for ShareLock on transaction N; blocked by process T2.";
        assert_eq!(postgres_line(line, &sessions), told);
        let status = "LATEST DETECTED DEADLOCK\n-----\n*** (1) TRANSACTION:\n\
            MariaDB thread id 18, OS thread handle 5, query id 9 lab updating\n\
            update t set a = 1\n*** WAITING FOR THIS LOCK TO BE GRANTED:\n\
            RECORD LOCKS space id 7 page no 3 n bits 8 index PRIMARY of table `x_1`.`t` trx id 30 lock_mode X\n\
            Record lock, heap no 2\n*** WE ROLL BACK TRANSACTION (1)\n\
            ------------\nTRANSACTIONS\n------------\nMariaDB thread id 17, and so on\n";
        assert_eq!(
            mariadb_lines(status, &sessions),
            [
                "*** (1) TRANSACTION: T2 update t set a = 1",
                "*** WAITING FOR THIS LOCK TO BE GRANTED: index PRIMARY of table `t` lock_mode X",
                "*** WE ROLL BACK TRANSACTION (1)",
            ]
        );
        assert_eq!(mariadb_lines("no deadlock yet", &sessions), Vec::<String>::new());
    }
}
