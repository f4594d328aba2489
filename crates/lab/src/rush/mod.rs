//! The rush: the same crowd on every rung, judged from the database and from what every
//! client was told. What a replay proves, this shows at scale.
//!
//! Always two processes sell. For most rungs that is how they are run; for those with a mutex
//! it is what breaks them, because each process has mutexes of its own. The crowd comes from
//! a third process, all at once, in an order drawn from the seed.

mod later;
mod run;
mod verdict;

pub use run::{RungSale, rush};
pub use verdict::{RushOptions, RushReport};
