//! The purchase: each strategy, what it does under faults, and the parts that it is made of.

mod after_idleness;
mod cases;
mod doors;
mod faults;
mod fenced_store;
pub mod group_commit;
pub mod group_commit_faults;
mod many_vouchers;
pub mod order_ids;
mod order_ids_lost;
mod owners;
pub mod place_orders;
mod sale_time;
mod shared_redis;
pub mod strategies;
mod topologies;
