//! What happens to an order after it was placed: money, steps, races between two of them.

mod asked;
mod buyer_texts;
mod draw_documents;
mod draw_numbers;
mod event_receivers;
pub mod events;
mod held_orders;
mod held_rows;
mod life;
mod life_model;
mod lines;
mod money;
mod places;
pub mod races;
mod removed_entries;
mod returns;
