//! Isolation levels: what each design of the database keeps at read committed, repeatable read and
//! serializable, on PostgreSQL and on MariaDB.
//!
//! A case is a script for two or three sessions, the order in which they speak, and what it is claimed to come to on
//! each server at each level: data, in `cases.toml` (`case`). `player` sends one statement at a time and goes on when
//! it is answered or seen to wait for another session (`lock_waits`); nothing sleeps and hopes. A cell that comes out
//! otherwise, either way, fails the run.
//!
//! The idea is that of hermitage by Martin Kleppmann.

mod books;
mod case;
mod cell;
mod connection;
mod deadlock_report;
mod lock_waits;
mod matrix;
mod player;
mod server;
mod sql_session;

pub use case::{CASES, IsolationCase, IsolationClaim, IsolationPromise};
pub use cell::{IsolationCell, IsolationPlace, play_cell, unplayed_cell};
pub use matrix::isolation_matrix;
pub use server::{DatabaseKind, IsolationLevel, IsolationServer};
