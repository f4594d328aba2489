//! What happens to an order after it was placed: money, steps, races between two of them.

mod held_orders;
mod held_rows;
pub mod life;
pub mod lines;
mod money;
pub mod races;
mod step_races;
