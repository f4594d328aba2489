//! Every limit on requests within one server: how many may be under way at once, or how often somebody may ask, and what
//! a request beyond it is told. `admission.rs` has the layers that keep to them.
//!
//! Elsewhere are the limits of purchases (`purchase/options.rs`) with the rate of a buyer, which the requests here share;
//! of steps that wait for one voucher (`store/step_turns.rs`); of login codes and tries, which all servers count
//! together (`store/login_limits.rs`); of connections (`server.rs`); and of a body (`body.rs`).

use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU32;

use quick_cache::sync::Cache;

use super::ApiError;
use super::address::ClientAddress;
use crate::model::{BucketRate, Limit, Limiter, Permit, Refused, UserId};
use crate::store::step_turns::{BUYERS_STEPS_OF_A_VOUCHER, STEPS_OF_A_VOUCHER};
use crate::telemetry::{self, name};

// Under way at once, of all clients together. One more is told 503 `unavailable`, and to come again in a second.

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
/// Audits. One more is told 429 `too_many_requests`, as below.
const AUDITS: usize = 1;

// Of one buyer, or one address. One more is told 429 `too_many_requests`, and when to come again.

/// Requests of one buyer under way at once, beside purchases. A page of ours has fewer.
const REQUESTS_OF_A_BUYER: usize = 8;
/// One IPv4 address, or one IPv6 /48, may have this part of the logins, and of the login codes. People who share one are
/// slower than that; where there are too many of them, the rate of an address (`SECKILL_ADDRESS_RATE`) is off.
const PART_OF_A_NETWORK: usize = 4;
/// One IPv6 /48 asks no more often than so many of its addresses: it has 65,536.
const ADDRESSES_OF_A_NETWORK: NonZeroU32 = NonZeroU32::MIN.saturating_add(15);

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
    /// One more is told 503, and to come again in half a minute.
    streams: Limiter<IpAddr>,
    buyers: Limiter<UserId>,
    addresses: Limiter<IpAddr>,
    networks: Limiter<IpAddr>,
    administrators: Cache<UserId, ()>,
}

/// A stream of events, from its beginning to its end.
#[derive(Debug)]
pub struct StreamPermit(#[expect(dead_code, reason = "held")] Permit<IpAddr>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        metrics::gauge!(name::EVENT_STREAMS).decrement(1);
    }
}

impl Limits {
    pub(super) fn new(address_rate: BucketRate, streams: Limit) -> Self {
        let together = |together| Limiter::new(Limit { together, ..Limit::NONE });
        let rate = |rate| Limiter::new(Limit { rate, ..Limit::NONE });
        // Where no rate of an address counts, one address may have them all.
        let part = if address_rate == BucketRate::Off { 1 } else { PART_OF_A_NETWORK };
        let of_strangers =
            |together| Limiter::new(Limit { together, share: together / part, ..Limit::NONE });
        Self {
            reads: together(READS),
            cancellations: together(CANCELLATIONS),
            payments: together(PAYMENTS),
            entering: together(ENTERING),
            administration: together(ADMINISTRATION),
            notifications: together(NOTIFICATIONS),
            logins: of_strangers(LOGINS),
            login_codes: of_strangers(LOGIN_CODES),
            audits: together(AUDITS),
            streams: Limiter::new(streams),
            buyers: Limiter::new(Limit { share: REQUESTS_OF_A_BUYER, ..Limit::NONE }),
            addresses: rate(address_rate),
            networks: rate(address_rate.times(ADDRESSES_OF_A_NETWORK)),
            administrators: Cache::new(MAX_ADMINISTRATORS),
        }
    }

    /// `user` is an administrator by the configuration of this process.
    pub(super) fn remember_administrator(&self, user: UserId) {
        self.administrators.insert(user, ());
    }

    /// One more request of a buyer. `None`: an administrator, whom the limits of buyers do not concern.
    pub(super) fn admit_buyer(&self, user: UserId) -> Result<Option<Permit<UserId>>, ApiError> {
        if self.administrators.get(&user).is_some() {
            return Ok(None);
        }
        let permit = self.buyers.take(Some(user));
        permit.map(Some).map_err(|refused| counted(refused, "share", user))
    }

    /// A request without a good token asks.
    pub(super) fn admit_stranger(&self, address: ClientAddress) -> Result<(), ApiError> {
        if is_exempt(address) {
            return Ok(());
        }
        let (customer, network) = (address.customer(), address.network());
        for (limiter, whom) in [(&self.addresses, customer), (&self.networks, network)] {
            limiter.take(Some(whom)).map_err(|refused| counted(refused, "address", whom))?;
        }
        Ok(())
    }

    /// Somebody who has no token yet asks for one of `limiter`. The rate and the share of the address come first: so a
    /// loud address takes none from the others.
    pub(super) fn admit_login(
        &self,
        limiter: &Limiter<IpAddr>,
        address: ClientAddress,
    ) -> Result<Permit<IpAddr>, ApiError> {
        self.admit_stranger(address)?;
        let network = address.network();
        let permit = limiter.take((!is_exempt(address)).then_some(network));
        permit.map_err(|refused| counted(refused, "address", network))
    }

    /// Room for one more stream of `client`, whatever it is about; `None`: there are as many as there may be.
    pub fn admit_stream(&self, client: ClientAddress) -> Option<StreamPermit> {
        let permit = self.streams.take(Some(client.customer())).ok()?;
        metrics::gauge!(name::EVENT_STREAMS).increment(1);
        Some(StreamPermit(permit))
    }
}

/// Loopback addresses are a balancer's, a load generator's, or a test's.
fn is_exempt(address: ClientAddress) -> bool {
    address.0.is_loopback()
}

/// What `whom` is told, counted as refused `by` this kind of limit.
fn counted(refused: Refused, by: &'static str, whom: impl Display) -> ApiError {
    if matches!(refused, Refused::Key(_)) {
        telemetry::rate_limited(by, &whom);
    }
    refused.into()
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Together => Self::unavailable(),
            Refused::Key(wait) => Self::too_many_requests(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_asks_no_more_often_than_sixteen_of_its_addresses() {
        let Ok(rate) = "2/1h".parse() else { unreachable!() };
        let limits = Limits::new(rate, Limit::NONE);
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
}
