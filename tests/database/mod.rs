//! The handle of PostgreSQL: addresses, roles, migrations, rows that are read.

mod addresses;
mod handle;
pub mod migrations;
pub mod pooler;
mod roles;
mod rows_read;
mod sequences;
