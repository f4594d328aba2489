//! Servers to kill, pause, restart empty and cut off: real ones, one process each.
//!
//! - [`RedisNode`] and [`ZooKeeperNode`] are bare servers on a TCP port of 127.0.0.1, each with
//!   a directory of its own. What is done to them is done by signals, as an operator's mistake,
//!   the kernel or a power cut would do it. [`MariaDbNode`] and `PostgresNode` live on a UNIX socket.
//! - [`Proxy`] stands before a server and breaks the network on order ([`Fault`]).
//!
//! Everything ends when it is dropped, and when this process ends in any other way, SIGKILL
//! included. A directory goes with what is dropped; only a process that was killed leaves its
//! directories behind, in the system's place for temporary ones, or in a home that somebody removes.

mod error;
mod mariadb;
mod patience;
#[cfg(feature = "postgres")]
mod postgres;
mod process;
mod proxy;
mod redis_node;
mod zookeeper;

pub use error::FaultError;
pub use mariadb::MariaDbNode;
#[cfg(feature = "postgres")]
pub use postgres::PostgresNode;
pub use process::{FaultyProcess, place_of_servers};
pub use proxy::{Fault, Proxy};
pub use redis_node::RedisNode;
pub use zookeeper::ZooKeeperNode;
