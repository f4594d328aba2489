//! The tests of the laboratory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod course;
mod isolation_docs;
mod kept;
mod lab_check;
mod lab_cli;
mod lab_explore;
mod lab_golden;
mod lab_isolation;
mod lab_replays;
mod lab_report;
mod lab_rush;
mod lab_serve;
mod lab_session;
mod lab_standby;
mod lab_world;
mod ladder_docs;
mod ladder_names;
mod ladder_registry;
mod serving;
