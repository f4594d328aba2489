//! The servers that the lab kills, pauses, restarts and cuts off.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod mariadb;
mod proxy;
mod redis_node;
mod zookeeper;
