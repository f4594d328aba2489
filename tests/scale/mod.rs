//! A database on several servers: Citus, where it is installed. `citus` starts them; `measure` is `make
//! scale`, with `processor` to count.

mod citus;
mod coordinators;
mod faults;
mod measure;
mod migrate;
mod one_shard;
mod processor;
mod routes;
