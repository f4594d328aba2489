//! Every interleaving of a rung's pause points, on the real servers: `seckill lab explore`.
//!
//! In reading order: `walk`, the depth-first walk over all schedules; `exploration`, one
//! schedule of a game, and all of them; `report`, what that says of the registry, and what a program reads of it.
//! The same walk over the lock itself: `lock`, with `lock_clients`, one schedule of its clients, and
//! `lock_books`, what must be true of it.

mod exploration;
mod lock;
mod lock_books;
mod lock_clients;
mod report;
mod walk;

pub use exploration::{Exploration, ExploreLimits, Leaf, explore, play_schedule};
pub use lock::{LockBreak, LockExploration, explore_lock};
pub use lock_books::{BrokenByClients, LockInvariant};
pub use lock_clients::LockPart;
pub use report::{ExploreReport, not_expressible, objections, place};
