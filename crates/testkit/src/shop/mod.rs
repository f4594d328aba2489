//! The shop as a test sees it.

pub mod api_client;
pub mod browser;
pub mod contrast;
pub mod held_rows;
pub mod private_server;
mod shared_browser;
pub mod sms;
pub mod web_driver;
pub mod world;

pub use api_client::Api;
pub use world::World;
