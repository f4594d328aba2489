//! Every limit on requests within one server: how many may be under way at once, or how often somebody may ask, and how
//! a request beyond it is answered. `auth.rs` says who asks.
//!
//! Elsewhere are the limits of purchases (`purchase/options.rs`) with the rate of a buyer, which the requests here share;
//! of steps that wait for one voucher (`store/step_turns.rs`); of login codes and tries, which all servers count
//! together (`store/login_limits.rs`); of connections (`server.rs`); and of a body (`body.rs`).

use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Router;
use quick_cache::sync::Cache;

use super::address::ClientAddress;
use super::auth::{Anybody, Session, Who};
use super::problem::Code;
use super::{ApiError, App};
use crate::config::ServerArgs;
use crate::model::{BucketRate, Full, Limit, Limiter, Permit, TokenBuckets, UserId, VoucherId};
use crate::purchase::sales::Sale;
use crate::store::step_turns::{BUYERS_STEPS_OF_A_VOUCHER, STEPS_OF_A_VOUCHER};
use crate::telemetry::{self, name};

// Under way at once, of all clients together. One more gets 503 `unavailable` with `Retry-After: 1`.

/// Requests of buyers that ask the database, beside purchases and what follows.
const READS: usize = 64;
/// Cancellations of buyers, each of which may wait for the row of a sale.
const CANCELLATIONS: usize = 64;
/// Payments that buyers begin, each of which may wait seconds for the gateway.
const PAYMENTS: usize = 64;
/// Buyers who enter a draw or a line, or leave it: they wait for a batch, and all those of a voucher for one connection.
const ENTERING: usize = 4_096;
/// Requests of administrators on the routes of buyers.
const ADMINISTRATION: usize = 32;
/// Notifications of the payment gateway.
const NOTIFICATIONS: usize = 32;
/// Logins.
const LOGINS: usize = 64;
/// Login codes on their way to the SMS gateway, each of which may take seconds.
const LOGIN_CODES: usize = 256;
/// Audits. One more gets 429 `too_many_requests`, as below.
const AUDITS: usize = 1;

// Of one buyer, or one address. One more gets 429 `too_many_requests` with `Retry-After`.

/// Requests of one buyer under way at once, beside purchases. A page of ours has fewer.
const REQUESTS_OF_A_BUYER: usize = 8;
/// So many networks, each an IPv4 address or an IPv6 /48, can have all logins, or all login codes, and so many of IPv6 all
/// connections or streams. People who share one are
/// slower than that; if there are too many of them, the rate of an address (`SECKILL_ADDRESS_RATE`) is off.
pub(super) const NETWORKS_TO_FILL_IT: usize = 4;
/// One IPv6 /48 asks no more often than so many of its addresses: it has 65,536.
const ADDRESSES_OF_A_NETWORK: NonZeroU32 = NonZeroU32::MIN.saturating_add(15);

/// Somebody may have looked up as many phones in so many times the time in which an address may ask as often: the answers tell
/// whether a phone has a user.
const LOOKUPS_SLOWER: u32 = 60;

/// Administrators who are remembered, so that a buyer's limits do not concern them.
const MAX_ADMINISTRATORS: usize = 1_000;

/// The row of one voucher, however many wait for it, leaves as many permits to the others.
const _: () = {
    assert!(2 * BUYERS_STEPS_OF_A_VOUCHER <= CANCELLATIONS);
    assert!(2 * BUYERS_STEPS_OF_A_VOUCHER <= PAYMENTS);
    assert!(2 * STEPS_OF_A_VOUCHER <= NOTIFICATIONS);
    assert!(2 * STEPS_OF_A_VOUCHER <= ADMINISTRATION);
};

/// What counts against each limit.
#[derive(Debug)]
#[allow(missing_docs)] // the numbers say it
pub struct Limits {
    pub reads: Limiter<IpAddr>,
    pub cancellations: Limiter<IpAddr>,
    pub payments: Limiter<IpAddr>,
    pub entering: Limiter<IpAddr>,
    pub administration: Limiter<IpAddr>,
    pub notifications: Limiter<IpAddr>,
    pub logins: Limiter<IpAddr>,
    pub login_codes: Limiter<IpAddr>,
    pub audits: Limiter<IpAddr>,
    /// Streams of events: a part of all connections (`cli/serve.rs`), and of one address `SECKILL_STREAMS_PER_ADDRESS`.
    /// One more gets 503 with `Retry-After: 30`.
    streams: Limiter<IpAddr>,
    /// Those of the networks.
    network_streams: Limiter<IpAddr>,
    buyers: Limiter<UserId>,
    addresses: TokenBuckets<IpAddr>,
    networks: TokenBuckets<IpAddr>,
    lookups: TokenBuckets<IpAddr>,
    network_lookups: TokenBuckets<IpAddr>,
    /// Users who are administrators by the configuration of this process.
    pub(super) administrators: Cache<UserId, ()>,
}

/// A stream of events, from its beginning to its end.
#[derive(Debug)]
pub struct StreamPermit(#[expect(dead_code, reason = "held")] [Permit<IpAddr>; 2]);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        metrics::gauge!(name::EVENT_STREAMS).decrement(1);
    }
}

impl Limits {
    /// `streams`: those of all clients together.
    pub(super) fn new(settings: &ServerArgs, streams: usize) -> Self {
        let address_rate = settings.address_rate;
        let lookup_rate = address_rate.slower(LOOKUPS_SLOWER);
        let at_once = |count| Limiter::new(Limit { together: Some(count), ..Limit::NONE });
        // If no rate of an address counts, no share does: one address may have them all.
        let of_strangers = |count| {
            let share = (address_rate != BucketRate::Off).then_some(count / NETWORKS_TO_FILL_IT);
            Limiter::new(Limit { together: Some(count), share })
        };
        let of_an_address = settings.streams_per_address as usize;
        let of_a_network = of_an_address.max(streams / NETWORKS_TO_FILL_IT);
        Self {
            reads: at_once(READS),
            cancellations: at_once(CANCELLATIONS),
            payments: at_once(PAYMENTS),
            entering: at_once(ENTERING),
            administration: at_once(ADMINISTRATION),
            notifications: at_once(NOTIFICATIONS),
            logins: of_strangers(LOGINS),
            login_codes: of_strangers(LOGIN_CODES),
            audits: at_once(AUDITS),
            streams: Limiter::new(Limit { together: Some(streams), share: Some(of_an_address) }),
            network_streams: Limiter::new(Limit { share: Some(of_a_network), ..Limit::NONE }),
            buyers: Limiter::new(Limit { share: Some(REQUESTS_OF_A_BUYER), ..Limit::NONE }),
            addresses: TokenBuckets::new(address_rate),
            networks: TokenBuckets::new(address_rate.times(ADDRESSES_OF_A_NETWORK)),
            lookups: TokenBuckets::new(lookup_rate),
            network_lookups: TokenBuckets::new(lookup_rate.times(ADDRESSES_OF_A_NETWORK)),
            administrators: Cache::new(MAX_ADMINISTRATORS),
        }
    }

    /// A request without a good token asks.
    pub(super) fn admit_stranger(&self, address: ClientAddress) -> Result<(), ApiError> {
        let token = self.take_token(address);
        token.map_err(|wait| refusal(Full::Key(wait), "address", address.customer()))
    }

    /// Somebody is answered by whether a phone has a user.
    pub(super) fn admit_lookup(&self, address: ClientAddress) -> Result<(), ApiError> {
        let token = take_tokens(&self.lookups, &self.network_lookups, address);
        token.map_err(|wait| refusal(Full::Key(wait), "address", address.customer()))
    }

    /// Somebody who has no token yet asks for one of `limiter`.
    fn admit_login(
        &self,
        limiter: &Limiter<IpAddr>,
        address: ClientAddress,
    ) -> Result<Permit<IpAddr>, ApiError> {
        let network = (!is_exempt(address)).then(|| address.network());
        let permit = limiter.take_at_rate(network, || self.take_token(address));
        permit.map_err(|full| refusal(full, "address", address.customer()))
    }

    /// By the rate of the address and that of its network.
    fn take_token(&self, address: ClientAddress) -> Result<(), Duration> {
        take_tokens(&self.addresses, &self.networks, address)
    }

    /// Room for one more stream of `client`, whatever it is about; `None`: there are as many as there may be.
    pub fn admit_stream(&self, client: ClientAddress) -> Option<StreamPermit> {
        let of_network = self.network_streams.take(Some(client.network())).ok()?;
        let permit = self.streams.take(Some(client.customer())).ok()?;
        metrics::gauge!(name::EVENT_STREAMS).increment(1);
        Some(StreamPermit([permit, of_network]))
    }
}

impl App {
    /// Lets `user` ask the database once. `None`: an administrator, whom the limits of buyers do not concern.
    fn admit_user(&self, user: UserId) -> Result<Option<Permit<UserId>>, ApiError> {
        let limits = &self.memory().limits;
        if limits.administrators.get(&user).is_some() {
            return Ok(None);
        }
        let permit = limits.buyers.take(Some(user)).map_err(|full| refusal(full, "share", user))?;
        // The limiter itself counts and logs this refusal.
        self.purchases.admit(user).map_err(ApiError::too_many_requests)?;
        Ok(Some(permit))
    }

    /// Lets somebody who needs no token ask the database once: a buyer by the buyer's rate, a stranger by that of the
    /// address.
    pub(super) fn admit_anybody(&self, from: &Anybody) -> Result<(), ApiError> {
        match self.session_of(from.token.as_ref()) {
            Ok(session) => self.admit_user(session.user).map(drop),
            Err(_) => self.memory().limits.admit_stranger(from.address),
        }
    }

    /// The sale of a voucher. A request for one that memory does not have, and that may be made up, asks the database.
    pub(super) async fn sale_for(
        &self,
        from: &Anybody,
        voucher: VoucherId,
    ) -> Result<Arc<Sale>, ApiError> {
        if !self.purchases.remembers(voucher) {
            self.admit_anybody(from)?;
        }
        let sale = self.purchases.sale(voucher).await?;
        sale.ok_or(ApiError::new(Code::VoucherNotFound))
    }
}

/// One of the [`Limits`].
pub(super) type Which = fn(&Limits) -> &Limiter<IpAddr>;

/// `routes`, of which one more request than the limit allows is refused.
pub fn limited<S: Clone + Send + Sync + 'static>(
    app: &App,
    which: Which,
    who: Who,
    routes: Router<S>,
) -> Router<S> {
    routes.route_layer(from_fn_with_state((app.clone(), which, who), pass))
}

/// Load shedding: beyond the limit a request is refused at once, so that it does not queue for the few
/// connections of these routes.
async fn pass(
    State((app, which, who)): State<(App, Which, Who)>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let held = match admit_request(&app, which, who, &mut parts).await {
        Ok(held) => held,
        Err(error) => return error.into_response(),
    };
    let answer = async move {
        let _held = held;
        next.run(Request::from_parts(parts, body)).await
    };
    if who == Who::ConnectedStranger {
        return answer.await;
    }
    // All others run to their ends, also if their clients leave: a connection on which a statement was broken off would
    // be lost to the pool for a while.
    let answer = tokio::spawn(answer).await;
    answer.unwrap_or_else(|_panic| ApiError::new(Code::Internal).into_response())
}

/// What the request has until it ends.
async fn admit_request(
    app: &App,
    which: Which,
    who: Who,
    parts: &mut Parts,
) -> Result<(Permit<IpAddr>, Option<Permit<UserId>>), ApiError> {
    let limits = &app.memory().limits;
    match who {
        Who::Anybody | Who::Gateway | Who::Operator => Ok((which(limits).take(None)?, None)),
        Who::Buyer | Who::Administrator => {
            let session = Session::from_request_parts(parts, app).await?;
            let of_buyer = app.admit_user(session.user)?;
            // For the handler.
            parts.extensions.insert(session);
            let limiter = if of_buyer.is_some() { which(limits) } else { &limits.administration };
            Ok((limiter.take(None)?, of_buyer))
        }
        Who::Stranger | Who::ConnectedStranger => {
            Ok((limits.admit_login(which(limits), app.address_of(parts))?, None))
        }
    }
}

fn take_tokens(
    addresses: &TokenBuckets<IpAddr>,
    networks: &TokenBuckets<IpAddr>,
    address: ClientAddress,
) -> Result<(), Duration> {
    if is_exempt(address) {
        return Ok(());
    }
    addresses.take(address.customer())?;
    networks.take(address.network())
}

/// Loopback addresses are a balancer's, a load generator's, or a test's.
pub(super) fn is_exempt(address: ClientAddress) -> bool {
    address.0.is_loopback()
}

/// What `whom` is told. Counts it, if the limit is that of `whom` alone, as refused `by` this kind of limit.
fn refusal(full: Full, by: &'static str, whom: impl Display) -> ApiError {
    if matches!(full, Full::Key(_)) {
        telemetry::rate_limited(by, &whom);
    }
    full.into()
}

impl From<Full> for ApiError {
    fn from(full: Full) -> Self {
        match full {
            Full::Together => Self::unavailable(),
            Full::Key(wait) => Self::too_many_requests(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_asks_no_more_often_than_sixteen_of_its_addresses() {
        let Ok(address_rate) = "2/1h".parse() else { unreachable!() };
        let limits = Limits::new(&ServerArgs { address_rate, ..ServerArgs::default() }, 1);
        let admitted = |network: u16, count: u16| {
            let asks = (0..count).filter(|customer| {
                let address = IpAddr::from([0x2001, 0xdb8, network, *customer, 0, 0, 0, 1]);
                limits.admit_stranger(ClientAddress(address)).is_ok()
            });
            asks.count()
        };
        assert_eq!([admitted(1, 31), admitted(1, 1), admitted(1, 9)], [31, 1, 0]);
        assert_eq!(admitted(2, 1), 1);
    }

    #[test]
    fn an_address_and_a_network_have_so_many_streams() {
        let settings = ServerArgs { streams_per_address: 2, ..ServerArgs::default() };
        let limits = Limits::new(&settings, 16);
        let mut held = Vec::new();
        let mut admitted = |address: [u16; 8]| {
            let permits = (0..3).map_while(|_| limits.admit_stream(ClientAddress(address.into())));
            held.extend(permits);
            held.len()
        };
        // Two of the first /64, of the second and of no third one of the /48; and two of the next /48.
        let totals = [[1, 1], [1, 2], [1, 3], [2, 1]]
            .map(|[network, customer]| admitted([0x2001, 0xdb8, network, customer, 0, 0, 0, 1]));
        assert_eq!(totals, [2, 4, 4, 6]);
        held.clear();
        assert!(
            limits.admit_stream(ClientAddress([0x2001, 0xdb8, 1, 3, 0, 0, 0, 1].into())).is_some()
        );
    }
}
