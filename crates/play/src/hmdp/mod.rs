//! The HTTP of hm-dianping (黑马点评), the course application that many flash-sale projects began as, beside the
//! server's own routes, as far as one logs in, looks and buys. The pages that its front end shows besides (`/shop`,
//! `/shop-type`, `/blog`) are not served.
//!
//! It is a dialect and no second server: users, tokens, vouchers and orders are the same ones, and a purchase is
//! [`orders::buy_counted`](seckill::http::orders::buy_counted). The handlers answer a failure as the server does, and
//! [`translation`] writes it as the application would. [`answer`] has the form of an answer, [`login`] the users,
//! [`sales`] the vouchers and orders, [`local_time`] their times.

mod answer;
mod lists;
mod local_time;
mod login;
mod sales;
mod state;
mod translation;

use axum::Router;
use axum::routing::{get, post};
use seckill::http::{Who, limited};

use self::state::HmdpState;
pub(super) use self::translation::translate;
use super::login::Demonstration;

/// The front end of the application asks for `/api/user/me`, and its nginx takes `/api` away. Both are served.
const PREFIX: &str = "/api";

/// The routes, with the limits that the server's own have.
pub(super) fn routes(demonstration: Demonstration) -> Router {
    let app = demonstration.app.clone();
    let lists = lists::list_answers(&app.database);
    let asking_database = Router::new()
        .route("/user/me", get(login::me))
        .route("/user/logout", post(login::log_out))
        .route("/voucher/seckill", post(sales::create));
    let logging_in = Router::new().route("/user/login", post(login::log_in));
    let asking_for_code = Router::new().route("/user/code", post(login::send_code));
    let routes = Router::new()
        .route("/voucher/list/{shop}", get(sales::list))
        .route("/voucher-order/seckill/{id}", post(sales::buy))
        .merge(limited(&app, |limits| &limits.reads, Who::Anybody, asking_database))
        .merge(limited(&app, |limits| &limits.logins, Who::Stranger, logging_in))
        .merge(limited(&app, |limits| &limits.login_codes, Who::ConnectedStranger, asking_for_code))
        .with_state(HmdpState { demonstration, lists });
    routes.clone().nest(PREFIX, routes)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use seckill::http::server::ServerLimits;
    use testkit::shop::api_client::Api;
    use testkit::shop::served::Served;
    use testkit::shop::world::World;

    use crate::play::demonstrated;

    #[tokio::test]
    #[allow(clippy::unwrap_used)]
    async fn without_the_permits_of_the_servers_own_routes_these_refuse() {
        let world = World::new().await;
        let app = world.app().await;
        let routes = demonstrated(app.clone(), None, Router::new());
        let api = Api::at(world, Served::new(routes, ServerLimits::of(100)).address);
        let limits = &app.memory().limits;
        let rows = [
            (&limits.reads, "GET", "/user/me", 401),
            (&limits.reads, "POST", "/user/logout", 401),
            (&limits.reads, "POST", "/voucher/seckill", 401),
            (&limits.logins, "POST", "/user/login", 200),
            (&limits.login_codes, "POST", "/user/code", 200),
        ];
        for (permits, method, path, status) in rows {
            let ask = || api.request(method, path).header("content-type", "application/json");
            let held: Vec<_> = std::iter::from_fn(|| permits.take(None).ok()).collect();
            let refused = api.send(ask()).await;
            assert_eq!(refused.is(503).header("retry-after"), Some("1"), "{path}");
            assert_eq!(refused.body["success"], false, "{path}");
            assert_eq!(refused.body["errorMsg"], "服务暂不可用，请稍后再试", "{path}");
            drop(held);
            api.send(ask()).await.is(status);
        }
    }
}
