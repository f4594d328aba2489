#![doc = include_str!("../README.md")]

// In reading order: `handle`, which all callers use; `node`, the connections to one server (`dedicated`: those
// that are not shared); `link`, how one is made, over a `stream`, perhaps with `tls`; `request`, what is sent;
// `url`, the forms of a Redis URL; `renewal`, which reads one again; `sentinels`, how the master is found; `slots`
// and `cluster`, which server is asked among many; `subscriber`, what is heard; `scan`, which goes through the
// keys of all masters; `outage`, which tells once that Redis does not answer; `timeout`, how long an answer is
// waited for.

mod address;
mod cluster;
mod dedicated;
mod error;
mod foreign;
mod handle;
mod link;
mod node;
mod outage;
mod renewal;
mod request;
mod scan;
mod sentinels;
mod slots;
mod stream;
mod subscriber;
#[doc(hidden)]
pub mod timeout;
mod tls;
mod url;

pub use deadpool_redis::Status as PoolStatus;
pub use error::LinkError;
pub use foreign::{AnyConnection, LentConnection, PooledBy, SharedBy};
pub use handle::{Redis, Shard};
pub use outage::{OutageEvent, OutageListener};
pub use request::{LuaScript, ScriptCall};
pub use scan::{SCAN_STEP, ScanCursor};
pub use subscriber::{Subscriber, SubscriberSink, SubscriberStream};
pub use tls::TlsFiles;
pub use url::{MalformedUrl, RedisUrl};
/// The crates whose types stand in signatures of this one.
pub use {deadpool_redis, redis};
