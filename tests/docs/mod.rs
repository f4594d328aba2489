//! What the repository says of itself: doors, promises, texts, style.

mod doors;
mod observability;
mod reliability;
mod texts;
pub mod tidy;
