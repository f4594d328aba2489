//! PostgreSQL and Redis: handles, key names, scripts, queries, the order-id worker.

mod columns;
mod database_clock;
mod distribution;
mod durability;
pub mod error;
pub mod keys;
pub mod login_codes;
pub mod login_limits;
mod migrations;
mod node_name;
pub mod nodes;
pub mod order_ids;
pub mod order_writer;
pub mod orders;
mod outage;
pub mod postgres;
pub mod read_cache;
mod redis;
pub mod revocations;
pub mod time_limits;
pub mod users;
pub mod vouchers;

pub use database_clock::DatabaseClock;
pub use distribution::{Distribution, DistributionError};
pub use durability::DatabaseDurability;
pub use error::{Service, StoreError};
pub use keys::Keys;
pub use login_limits::LoginLimits;
pub use migrations::MigrationError;
pub use node_name::{MAX_INSTANCE, NodeName};
pub use order_ids::{OrderIdError, OrderIds};
pub use order_writer::{NewOrder, OrderWriter, Placement};
pub use postgres::Database;
pub use read_cache::ReadCache;
pub use redis::{Redis, redis};
pub use time_limits::FRESH_FOR;
