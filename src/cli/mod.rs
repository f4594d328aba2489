//! placeholder
pub mod crowd;
pub mod keep_servers;
