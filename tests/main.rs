//! The integration tests: one binary, one file an area, against real PostgreSQL and real
//! Redis that the project starts itself.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod api_bodies;
mod api_buying;
mod api_client;
mod api_connections;
mod api_document;
mod api_login;
mod api_operations;
mod api_orders;
mod api_tokens;
mod api_vouchers;
mod cli;
mod cli_audit;
mod cli_refusals;
mod cli_serving;
mod demo;
mod docs_page;
mod embedded;
mod eventually;
mod faults;
mod load_generator;
mod load_servers;
mod lock;
mod lock_cancelled;
mod lock_cancelled_waiting;
mod lock_faults;
mod lock_model;
mod lock_waiting;
mod lock_wire;
mod order_ids;
mod order_ids_lost;
mod processes;
mod program;
mod proxy;
mod purchase;
mod purchase_faults;
mod raw_http;
mod smoke;
mod still_clock;
mod tidy;
mod world;
