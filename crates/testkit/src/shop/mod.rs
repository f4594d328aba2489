//! The shop as a test sees it.

pub mod api_client;
pub mod held_rows;
pub mod kept_payments;
mod page_scripts;
pub mod payment_service;
pub mod private_server;
pub mod readable;
pub mod served;
mod shared_browser;
pub mod sms;
mod template;
pub mod till;
pub mod web_driver;
pub mod world;

pub use api_client::Api;
pub use world::World;
