//! Every interleaving of a rung's pause points, on the real servers: `seckill lab explore`.
//!
//! In reading order: `walk`, the depth-first walk over all schedules; `exploration`, one
//! schedule of a game, and all of them; `report`, what that says of the registry, and what a program reads of it.

mod exploration;
mod report;
mod walk;

pub use exploration::{Exploration, ExploreLimits, Leaf, explore, play_schedule};
pub use report::{ExploreReport, not_expressible, objections, place};
