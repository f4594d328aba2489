//! What a case is made of: the sessions' scripts and the order in which they speak.

use std::fmt;

use serde::Serialize;

use super::server::DatabaseKind;

/// What is at stake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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

impl IsolationPromise {
    /// As the report has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoOversell => "no_oversell",
            Self::OnePerUser => "one_per_user",
            Self::NoUndersell => "no_undersell",
            Self::BooksAddUp => "books_add_up",
            Self::NoDeadlock => "no_deadlock",
            Self::LoopEnds => "loop_ends",
        }
    }
}

impl fmt::Display for IsolationPromise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A short, deterministic story of two or three sessions.
#[derive(Debug)]
pub struct IsolationCase {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens, in half a sentence.
    pub story: &'static str,
    /// What is at stake.
    pub promise: IsolationPromise,
    /// How many there are of each voucher; there are two.
    pub(super) stock: i64,
    /// Whether `orders` has the unique index of the production tables.
    pub(super) unique: bool,
    /// What MariaDB's sessions set before they begin: an assignment.
    pub(super) mariadb_setting: Option<&'static str>,
    /// Whether what the server says of a deadlock is shown whole.
    pub(super) report_deadlock: bool,
    /// T1, T2, T3.
    pub(super) sessions: &'static [SqlScript],
    /// The order in which they speak: a digit is a session that sends its next statement. A session that waits misses its
    /// turn. After the last turn they speak in rotation until all have ended.
    pub(super) turns: &'static str,
}

impl IsolationCase {
    /// What most cases have in common.
    pub(super) const PLAIN: Self = Self {
        name: "",
        story: "",
        promise: IsolationPromise::NoOversell,
        stock: 10,
        unique: false,
        mariadb_setting: None,
        report_deadlock: false,
        sessions: &[],
        turns: "",
    };
}

/// What one session says.
#[derive(Debug, Clone, Copy)]
pub(super) struct SqlScript {
    /// The buyer.
    pub(super) user: i64,
    /// What is bought.
    pub(super) voucher: i64,
    pub(super) statements: &'static [Statement],
    /// Whether a transaction that the server has ended to keep others apart is begun again, as a whole.
    pub(super) begins_again: bool,
}

impl SqlScript {
    pub(super) const fn new(user: i64, voucher: i64, statements: &'static [Statement]) -> Self {
        Self { user, voucher, statements, begins_again: false }
    }

    pub(super) const fn beginning_again(self) -> Self {
        Self { begins_again: true, ..self }
    }
}

/// A statement, and what the program makes of its answer. Any other answer, and an error, is rolled back and
/// ends the session's story.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement {
    postgres: &'static str,
    mariadb: &'static str,
    pub(super) goes_on: GoesOn,
    /// Whether it is bound to be answered without another session's doing: by a time-out.
    pub(super) times_out: bool,
}

/// When a program goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoesOn {
    /// When there is no error.
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
    pub(super) const fn new(sql: &'static str) -> Self {
        Self { postgres: sql, mariadb: sql, goes_on: GoesOn::Always, times_out: false }
    }

    /// In each server's own words; nothing is said where they are empty.
    pub(super) const fn each(postgres: &'static str, mariadb: &'static str) -> Self {
        Self { postgres, mariadb, ..Self::new("") }
    }

    pub(super) const fn when(self, goes_on: GoesOn) -> Self {
        Self { goes_on, ..self }
    }

    pub(super) const fn timing_out(self) -> Self {
        Self { times_out: true, ..self }
    }

    /// The text, with names in braces where values go.
    pub(super) const fn text(&self, server: DatabaseKind) -> &'static str {
        match server {
            DatabaseKind::Postgres => self.postgres,
            DatabaseKind::MariaDb => self.mariadb,
        }
    }
}
