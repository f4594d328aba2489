//! The JSON API. [`mod@router`] lists every route; one file a resource; [`problem`] holds the
//! one error type that becomes a response, so handlers return it and nothing else. [`HotPath`]
//! answers what a rush consists of without the router.

pub mod address;
pub mod auth;
pub mod bench;
pub mod body;
mod entrance;
pub mod hot_path;
mod language;
pub mod openapi;
pub mod operations;
pub mod orders;
pub mod problem;
pub mod router;
pub mod server;
pub mod sessions;
pub mod sms;
pub mod state;
pub mod vouchers;

pub use hot_path::HotPath;
pub use problem::ApiError;
pub use router::router;
pub use state::{App, AppParts};
