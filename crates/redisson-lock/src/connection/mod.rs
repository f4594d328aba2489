//! The Redis handle: one server, the master that sentinels watch, or a cluster.
//!
//! Commands of all tasks travel together on one *shared*, multiplexed connection to each
//! server, in the order they were sent; the order is what lets a clean-up follow the
//! command it cleans up after. A connection is made anew when it is lost. One per command
//! would cost a round trip each time.
//!
//! What was sent is never sent again: it may have been done. The `redis` crate's own
//! cluster connection does send again after a lost connection, and cannot tell a node that
//! went silent from others that answer; so a cluster is here what one server is, many
//! times, with a table of who serves which slot.
//!
//! In reading order: `url`, the forms of `REDIS_URL`; `node`, the connections to one server (`dedicated`: those
//! that are not shared);
//! `sentinels`, how that one is found; `slots` and `cluster`, who is asked among many;
//! `request`, what is sent; `subscriber`, what is heard; `handle` joins them; `scan` goes through the keys
//! of all.

mod cluster;
mod dedicated;
mod error;
mod handle;
mod node;
mod outage;
mod request;
mod scan;
mod sentinels;
mod slots;
mod subscriber;
mod url;

pub use error::RedisError;
pub use handle::{Redis, Shard};
pub use outage::{OutageEvent, OutageListener};
pub use request::ScriptCall;
pub use scan::{SCAN_STEP, ScanCursor};
pub use subscriber::{Subscriber, SubscriberSink, SubscriberStream};
pub use url::{MalformedUrl, RedisUrl};
