//! One session: where it stands in its script, and the statement that is under way.

use anyhow::anyhow;
use tokio::task::JoinHandle;

use super::case::{GoesOn, SqlScript, Statement};
use super::connection::{SqlAnswer, SqlConnection, SqlFailure, SqlRefusal};
use super::server::DatabaseKind;

/// So often a compare-and-set is tried before it is called endless, and a transaction before it is given up.
const ROUNDS: usize = 3;

/// Errors after which a server expects the whole transaction again: serialization failures and deadlocks.
const TRY_AGAIN: [&str; 4] = ["40001", "40P01", "1213", "1020"];

type Asked = (SqlConnection, Result<SqlAnswer, SqlFailure>);

/// One session.
pub(super) struct SqlSession {
    /// T1, T2.
    pub(super) name: String,
    /// By what the server calls its connection.
    pub(super) id: i64,
    script: &'static SqlScript,
    server: DatabaseKind,
    connection: Option<SqlConnection>,
    asked: Option<JoinHandle<Asked>>,
    /// What was sent last.
    pub(super) sent: String,
    /// Whether the timeline says that it waits.
    pub(super) told_waiting: bool,
    position: usize,
    /// What comes after the rollback that is due.
    rolling_back: Option<AfterRollback>,
    /// It has rolled back: only what is said at last is said.
    gave_up: bool,
    read: String,
    rounds: usize,
    attempts: usize,
    /// It would go round for ever.
    pub(super) endless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterRollback {
    End,
    Again,
}

impl SqlSession {
    pub(super) fn new(
        nth: usize,
        script: &'static SqlScript,
        server: DatabaseKind,
        id: i64,
        connection: SqlConnection,
    ) -> Self {
        Self {
            name: format!("T{}", nth + 1),
            id,
            script,
            server,
            connection: Some(connection),
            asked: None,
            sent: String::new(),
            told_waiting: false,
            position: 0,
            rolling_back: None,
            gave_up: false,
            read: String::new(),
            rounds: 0,
            attempts: 0,
            endless: false,
        }
    }

    /// Whether a statement is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.asked.is_some()
    }

    /// The statement that comes next, past those that this server has no words for.
    fn current(&mut self) -> Option<&'static Statement> {
        loop {
            let statement = self.script.statements.get(self.position)?;
            let is_due = !self.gave_up || statement.goes_on == GoesOn::AtLast;
            if is_due && !statement.text(self.server).is_empty() {
                return Some(statement);
            }
            self.position += 1;
        }
    }

    /// Whether nothing is left to be said.
    pub(super) fn is_done(&mut self) -> bool {
        !self.is_busy() && self.rolling_back.is_none() && self.current().is_none()
    }

    /// Whether what is under way ends by a time-out, whoever else does what.
    pub(super) fn times_out(&mut self) -> bool {
        self.current().is_some_and(|statement| statement.times_out)
    }

    /// Sends the next statement, if there is one.
    pub(super) fn send(&mut self) {
        let sql = match (self.rolling_back, self.current()) {
            (Some(_), _) => "rollback",
            (None, Some(statement)) => statement.text(self.server),
            (None, None) => return,
        };
        self.sent = sql
            .replace("{user}", &self.script.user.to_string())
            .replace("{voucher}", &self.script.voucher.to_string())
            .replace("{read}", &self.read);
        self.told_waiting = false;
        let (sql, connection) = (self.sent.clone(), self.connection.take());
        let Some(mut connection) = connection else { unreachable!("a session that is not busy") };
        self.asked = Some(tokio::spawn(async move {
            let asked = connection.ask(&sql).await;
            (connection, asked)
        }));
    }

    /// Waits for the answer. Cancellation-safe.
    pub(super) async fn answer(&mut self) -> anyhow::Result<Result<SqlAnswer, SqlRefusal>> {
        let Some(asked) = &mut self.asked else { unreachable!("a session that is busy") };
        let (connection, asked) = asked.await?;
        (self.asked, self.connection) = (None, Some(connection));
        match asked {
            Ok(answer) => Ok(Ok(answer)),
            Err(SqlFailure::Refused(refusal)) => Ok(Err(refusal)),
            Err(SqlFailure::Lost(error)) => {
                let what = format!("{} lost its connection to {}", self.name, self.server.title());
                Err(anyhow!(error).context(what))
            }
        }
    }

    /// Goes on in the script by what was answered.
    pub(super) fn proceed(&mut self, answered: &Result<SqlAnswer, SqlRefusal>) {
        if let Some(after) = self.rolling_back.take() {
            return self.after_rollback(after);
        }
        let Some(statement) = self.current() else { return };
        match (answered, statement.goes_on) {
            (Ok(answer), GoesOn::OrTriesAgain(back)) if answer.affected == 0 => {
                self.rounds += 1;
                self.endless = self.rounds == ROUNDS;
                match self.endless {
                    true => self.roll_back(AfterRollback::End),
                    false => self.position -= back,
                }
            }
            (Ok(answer), goes_on) => {
                let value: i64 = answer.value().and_then(|value| value.parse().ok()).unwrap_or(0);
                let goes_on = match goes_on {
                    GoesOn::IfSome => value > 0,
                    GoesOn::IfNone => value == 0,
                    GoesOn::IfChanged => answer.affected > 0,
                    _ => true,
                };
                if statement.goes_on == GoesOn::IfSome {
                    self.read = value.to_string();
                }
                match goes_on {
                    true => self.position += 1,
                    false => self.roll_back(AfterRollback::End),
                }
            }
            (Err(_), GoesOn::Regardless | GoesOn::AtLast) => self.position += 1,
            (Err(refusal), _) => {
                self.attempts += 1;
                let again = self.script.begins_again
                    && self.attempts < ROUNDS
                    && TRY_AGAIN.contains(&refusal.code.as_str());
                self.roll_back(if again { AfterRollback::Again } else { AfterRollback::End });
            }
        }
    }

    fn roll_back(&mut self, after: AfterRollback) {
        // A commit that failed has ended the transaction.
        match self.sent == "commit" {
            true => self.after_rollback(after),
            false => self.rolling_back = Some(after),
        }
    }

    fn after_rollback(&mut self, after: AfterRollback) {
        match after {
            AfterRollback::End => self.gave_up = true,
            AfterRollback::Again => self.position = 0,
        }
    }

    /// Ends the connection.
    pub(super) async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }
}

impl Drop for SqlSession {
    /// What waits for an answer that nobody wants any more would keep its transaction open.
    fn drop(&mut self) {
        if let Some(asked) = &self.asked {
            asked.abort();
        }
    }
}
