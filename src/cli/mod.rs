//! cli

pub mod keep_servers;
