//! Isolation levels: what each design of the database keeps at read committed, repeatable read and
//! serializable, on PostgreSQL and on MariaDB.
//!
//! A case is a script for two or three sessions and the order in which they speak, as data (`case`,
//! `designs`, `lessons`). `player` sends one statement at a time and goes on when it is answered or seen to
//! wait for another session (`lock_waits`); nothing sleeps and hopes. `claims` is the registry: what each
//! case is claimed to come to on each server at each level. A cell that comes out otherwise, either way,
//! fails the run.
//!
//! The idea is that of hermitage by Martin Kleppmann.

mod books;
mod case;
mod cell;
mod claims;
mod connection;
mod deadlock_report;
mod designs;
mod lessons;
mod lock_waits;
mod matrix;
mod player;
mod retry_lessons;
mod server;
mod sql_session;

pub use case::{IsolationCase, IsolationPromise};
pub use cell::{IsolationCell, play_cell, skipped_cell};
pub use claims::{CASES, ClaimedCase, IsolationClaim};
pub use matrix::isolation_matrix;
pub use server::{DatabaseKind, IsolationLevel, IsolationServer};
