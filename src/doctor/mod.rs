//! Looks at the configuration and the servers that it names, as `seckill serve` would use them, and says in one line
//! each what is fine, what is not, and what to do. It changes nothing that outlives it.

mod disk;
pub mod finding;
pub mod postgres;
pub mod redis;
pub mod settings;

pub use finding::{Finding, Level};
