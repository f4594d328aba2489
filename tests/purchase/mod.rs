//! The purchase: each strategy, what it does under faults, and the parts that it is made of.

mod after_idleness;
mod cases;
mod doors;
mod faults;
mod group_commit;
mod group_commit_faults;
mod many_vouchers;
mod order_ids;
mod order_ids_model;
mod owners;
mod place_orders;
mod placing;
mod sale_time;
mod shared_redis;
mod shops;
mod strategies;
mod topologies;
