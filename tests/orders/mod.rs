//! What happens to an order after it was placed: money, steps, races between two of them.

pub mod life;
mod money;
pub mod races;
mod step_races;
