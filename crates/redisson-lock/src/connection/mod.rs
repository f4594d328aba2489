//! The Redis handle: one server, the master that sentinels watch, or a cluster.
//!
//! Commands of all tasks travel together on one *shared*, multiplexed connection to each
//! server, in the order they were sent; the order is what lets a clean-up follow the
//! command it cleans up after. A connection is made anew when it is lost. One per command
//! would cost a round trip each time.
//!
//! What was sent is never sent again: it may have been done. (Where it surely was not, it is: a script that the
//! server lacked, a request that a node of a cluster refused, one of which no byte was written before the
//! connection ended.) The `redis` crate's own cluster connection does
//! send again after a lost connection, and cannot tell a silent node from others that answer. So a cluster is
//! here what one server is, many times, with a table of which serves which slot.
//!
//! In reading order: `handle`, which all callers use; `node`, the connections to one server (`dedicated`: those
//! that are not shared); `link`, how one is made, over a `stream`, perhaps with `tls`; `request`, what is sent; `url`, the forms of `REDIS_URL`; `sentinels`, how the master
//! is found; `slots` and `cluster`, which server is asked among many; `subscriber`, what is heard; `scan`, which
//! goes through the keys of all masters; `outage`, which tells once that Redis does not answer.

mod cluster;
mod dedicated;
mod error;
mod handle;
mod link;
mod node;
mod outage;
mod request;
mod scan;
mod sentinels;
mod slots;
mod stream;
mod subscriber;
mod tls;
mod url;

pub use error::RedisError;
pub use handle::{Redis, Shard};
pub use outage::{OutageEvent, OutageListener};
pub use request::ScriptCall;
pub use scan::{SCAN_STEP, ScanCursor};
pub use subscriber::{Subscriber, SubscriberSink, SubscriberStream};
pub use tls::TlsFiles;
pub use url::{MalformedUrl, RedisUrl};
