//! The JSON API. [`mod@router`] lists every route; one file a resource; [`problem`] holds the
//! one error type that becomes a response, so handlers return it and nothing else.

mod accepted;
pub mod address;
pub mod audits;
pub mod auth;
mod below;
pub mod body;
pub mod buyer_texts;
mod docs_page;
pub mod draw_documents;
pub mod entries;
pub mod event_hub;
pub mod event_log;
pub mod events;
pub mod health;
mod language;
mod limits;
pub mod openapi;
pub mod operations;
pub mod orders;
pub mod payments;
pub mod problem;
pub mod query;
pub mod request_id;
pub mod revocations;
pub mod router;
mod security_headers;
pub mod server;
pub mod sessions;
pub mod sms;
pub mod state;
pub mod static_file;
mod texts;
pub mod tokens;
pub mod unready;
pub mod voucher_orders;
pub mod voucher_pages;
pub mod vouchers;
pub mod webhook;

pub(crate) use accepted::{accepted, accepts};
pub use auth::Who;
pub use language::Language;
pub use limits::limited;
pub use problem::ApiError;
pub use router::{ROUTES, Route, api, router, served, with_common_layers};
pub use state::{App, AppParts};
pub use texts::{TextFile, Texts};

use crate::model::schemas;
