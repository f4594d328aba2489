//! A database on several servers: Citus, where it is installed. `citus` starts them.

mod citus;
mod faults;
mod migrate;
mod one_shard;
mod routes;
