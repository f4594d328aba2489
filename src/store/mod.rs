//! PostgreSQL and Redis: handles, key names, scripts, queries, the order-id worker.

pub mod error;
pub mod flush;
pub mod keys;
pub mod login_codes;
pub mod order_batch;
pub mod order_ids;
pub mod orders;
pub mod patience;
pub mod postgres;
pub mod redis;
pub mod users;
pub mod vouchers;

pub use error::{Service, StoreError};
pub use flush::Commit;
pub use keys::Keys;
pub use order_ids::{OrderIdError, OrderIds};
pub use postgres::Database;
pub use redis::{Redis, RedisUrl};
