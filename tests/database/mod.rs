//! The handle of PostgreSQL: addresses, roles, migrations.

mod addresses;
mod handle;
pub mod migrations;
pub mod pooler;
mod roles;
