//! The HTTP API, route by route, and the pages as they are served.

mod audits;
pub mod base_path;
mod bodies;
mod buying;
pub mod connections;
mod docs_page;
mod document;
mod events;
mod fairness;
mod login;
mod login_fairness;
mod login_limits;
pub mod nodes;
mod operations;
mod orders;
mod overload;
mod pages;
mod pay_urls;
mod reads;
mod revocation;
mod routes;
mod sms;
mod tokens;
mod vouchers;
