//! The HTTP of hm-dianping (黑马点评), the course application that many flash-sale projects began as, beside the
//! server's own routes: front ends, JMeter plans and token files that were made for it work unchanged.
//!
//! It is a dialect and no second server: users, tokens, vouchers and orders are the same ones, and a purchase is
//! [`orders::purchase`](seckill::http::orders::purchase). The handlers answer a failure as the server does, and
//! [`translation`] writes it as the application would. [`answer`] has the form of an answer, [`login`] the users,
//! [`sales`] the vouchers and orders, [`local_time`] their times.

mod answer;
mod local_time;
mod login;
mod origin;
mod sales;
mod translation;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use seckill::http::{App, limited, limited_login_codes, limited_logins};

use self::sales::ListedVouchers;
use super::login::Demonstration;

/// The front end of the application asks for `/api/user/me`, and its nginx takes `/api` away. Both are served.
const PREFIX: &str = "/api";

/// What the handlers reach.
#[derive(Debug, Clone)]
pub(super) struct HmdpState {
    demonstration: Demonstration,
    vouchers: ListedVouchers,
}

impl FromRef<HmdpState> for App {
    fn from_ref(state: &HmdpState) -> Self {
        state.demonstration.app.clone()
    }
}

/// The routes, with the limits that the server's own have.
pub(super) fn routes(demonstration: Demonstration) -> Router {
    let app = demonstration.app.clone();
    let vouchers = sales::listed(&app.database);
    let reading = Router::new()
        .route("/user/me", get(login::me))
        .route("/user/logout", post(login::log_out))
        .route("/voucher/seckill", post(sales::create));
    let routes = Router::new()
        .route("/voucher/list/{shop}", get(sales::list))
        .route("/voucher-order/seckill/{id}", post(sales::buy))
        .merge(limited(app.clone(), reading))
        .merge(limited_logins(&app, Router::new().route("/user/login", post(login::log_in))))
        .merge(limited_login_codes(&app, Router::new().route("/user/code", post(login::send_code))))
        .route_layer(from_fn_with_state(app, origin::check))
        .with_state(HmdpState { demonstration, vouchers });
    routes.clone().nest(PREFIX, routes)
}

/// The layer around everything that makes the server's answers those of the application, on these routes.
pub(super) fn translated(all: Router) -> Router {
    all.layer(from_fn(translation::translate))
}
