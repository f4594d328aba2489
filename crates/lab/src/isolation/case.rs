//! What a case is made of, and what is claimed of it: `cases.toml`. Claims are tried both ways: one that is not what
//! is seen fails the run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::server::{DatabaseKind, IsolationLevel};
use crate::Outcome;

/// What is at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IsolationPromise {
    /// No more orders than there were vouchers.
    NoOversell,
    /// No user holds two orders.
    OnePerUser,
    /// Nobody is sent away while there is something left.
    NoUndersell,
    /// Of each voucher, orders and what is left are what there was.
    BooksAddUp,
    /// No transaction is ended because two wait for each other.
    NoDeadlock,
    /// A loop that tries again comes to an end.
    LoopEnds,
}

/// A claim about one cell: "holds 40001".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolationClaim {
    /// Whether the promise is kept.
    pub outcome: Outcome,
    /// The errors that the sessions hear, in the order in which they are heard first: PostgreSQL's SQLSTATE,
    /// MariaDB's number.
    pub errors: &'static str,
}

impl<'de> Deserialize<'de> for IsolationClaim {
    fn deserialize<D: Deserializer<'de>>(claim: D) -> Result<Self, D::Error> {
        // The cases are read once, and kept.
        let claim: &'static str = String::deserialize(claim)?.leak();
        let (outcome, errors) = claim.split_once(' ').unwrap_or((claim, ""));
        match outcome {
            "holds" => Ok(Self { outcome: Outcome::Holds, errors }),
            "breaks" => Ok(Self { outcome: Outcome::Breaks, errors }),
            _ => Err(D::Error::custom(format!("{claim:?} is no claim"))),
        }
    }
}

/// A short, deterministic story of two or three sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolationCase {
    /// Its name on the command line.
    pub name: String,
    /// What happens, in half a sentence.
    pub story: String,
    /// What is at stake.
    pub promise: IsolationPromise,
    /// How many there are of each voucher; there are two.
    #[serde(default = "ten")]
    pub(super) stock: i64,
    /// Whether `orders` has the unique index of the production tables.
    #[serde(default)]
    pub(super) unique: bool,
    /// What MariaDB's sessions set before they begin: an assignment.
    pub(super) mariadb_setting: Option<String>,
    /// Whether what the server says of a deadlock is shown whole.
    #[serde(default)]
    pub(super) report_deadlock: bool,
    /// T1, T2, T3.
    pub(super) sessions: Vec<SqlScript>,
    /// The order in which they speak: a digit is a session that sends its next statement. A session that waits misses its
    /// turn. After the last turn they speak in rotation until all have ended.
    #[serde(default)]
    pub(super) turns: String,
    /// What is claimed at read committed, repeatable read, serializable.
    pub(super) postgres: Option<[IsolationClaim; 3]>,
    pub(super) mariadb: Option<[IsolationClaim; 3]>,
}

const fn ten() -> i64 {
    10
}

impl IsolationCase {
    /// What is claimed of a cell; `None` where it makes no sense.
    pub fn claim(&self, server: DatabaseKind, level: IsolationLevel) -> Option<IsolationClaim> {
        let claims = match server {
            DatabaseKind::Postgres => self.postgres,
            DatabaseKind::MariaDb => self.mariadb,
        };
        claims.map(|claims| claims[level as usize])
    }
}

/// What one session says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlScript {
    /// The buyer.
    pub(super) user: i64,
    /// What is bought.
    pub(super) voucher: i64,
    script: String,
    #[serde(skip)]
    pub(super) statements: Vec<Statement>,
    /// Whether a transaction that the server has ended to keep others apart is begun again, as a whole.
    #[serde(default)]
    pub(super) begins_again: bool,
}

/// A statement, and what the program makes of its answer. Any other answer, and an error, is rolled back and
/// ends the session's story.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    /// Where both servers have the same words.
    sql: Option<String>,
    #[serde(default)]
    postgres: String,
    #[serde(default)]
    mariadb: String,
    #[serde(default)]
    pub(super) goes_on: GoesOn,
    /// Whether it is bound to be answered without another session's doing: by a time-out.
    #[serde(default)]
    pub(super) times_out: bool,
}

/// When a program goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GoesOn {
    /// When there is no error.
    #[default]
    Always,
    /// When the value is more than zero. It is kept: `{read}`.
    IfSome,
    /// When the value is zero, or there is no row.
    IfNone,
    /// When a row was changed.
    IfChanged,
    /// When a row was changed; else it goes back by so many statements, and tries again.
    OrTriesAgain(usize),
    /// After any answer, an error included.
    Regardless,
    /// Spoken after a rollback, too.
    AtLast,
}

impl Statement {
    /// The text, with names in braces where values go; nothing is said where it is empty.
    pub(super) fn text(&self, server: DatabaseKind) -> &str {
        match (&self.sql, server) {
            (Some(sql), _) => sql,
            (None, DatabaseKind::Postgres) => &self.postgres,
            (None, DatabaseKind::MariaDb) => &self.mariadb,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    statements: BTreeMap<String, Statement>,
    /// Names of statements, one after the other.
    scripts: BTreeMap<String, String>,
    cases: Vec<IsolationCase>,
}

/// Every case.
pub static CASES: LazyLock<Vec<IsolationCase>> = LazyLock::new(|| {
    let file = toml::from_str(include_str!("cases.toml"));
    let CaseFile { statements, scripts, mut cases } =
        file.unwrap_or_else(|error| unreachable!("cases.toml: {error}"));
    for script in cases.iter_mut().flat_map(|case| &mut case.sessions) {
        let words = scripts[&script.script].split_whitespace();
        script.statements = words.map(|word| statements[word].clone()).collect();
    }
    cases
});

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Without the names of values, and with one space between words.
    fn plain(sql: &str) -> String {
        let parts = sql.split(['{', '$']);
        let rest = |part: &str| {
            part.trim_start_matches(|c: char| c.is_alphanumeric() || c == '}').to_owned()
        };
        let mut parts = parts.map(str::to_owned);
        let first = parts.next().unwrap();
        let text = parts.fold(first, |text, part| text + "_" + &rest(&part));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_a_design_says_is_what_its_rung_says() {
        let mut count = 0;
        for case in CASES.iter().filter(|case| case.name.ends_with("_last_one")) {
            let id = match case.name.split('_').next().unwrap() {
                "r05" => "r05a",
                "advisory" => "r05b",
                "r18" => "r18a",
                id => id,
            };
            let rung = ladder::find(id).unwrap();
            let source = plain(rung.source);
            for statement in &case.sessions[0].statements {
                let sql = plain(statement.text(DatabaseKind::Postgres));
                let is_plain = ["begin", "commit"].contains(&sql.as_str());
                assert!(is_plain || source.contains(&sql), "{}: {sql}", rung.id);
                count += usize::from(!is_plain);
            }
        }
        assert!(count >= 20, "only {count} statements");
    }
}
