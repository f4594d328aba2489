//! What each buyer, each address and each network may have: so nobody takes from the others by being loud.
//!
//! All of it counts within one process. Purchases have limits of their own
//! ([`Purchases::buy`](crate::purchase::Purchases::buy)), because memory refuses most of them; they share a buyer's rate.

use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ApiError;
use super::address::ClientAddress;
use super::shares::{counted_as, network_of};
use crate::model::{BucketRate, Share, Shares, TokenBuckets, UserId};
use crate::telemetry;

/// Requests of one buyer that may be under way at once, beside purchases. A page of ours has fewer.
const REQUESTS_OF_A_BUYER: usize = 8;
/// One IPv4 address, or one IPv6 /48, may have this part of the permits for logins, and for login codes. People who share
/// one are slower than that; where there are too many of them, the rate of an address is off.
const PART_OF_A_NETWORK: usize = 4;
/// When to ask again after as many are under way.
const RETRY_SHARE: Duration = Duration::from_secs(1);
/// One IPv6 /48 asks no more often than so many of its addresses: it has 65,536.
const ADDRESSES_OF_A_NETWORK: NonZeroU32 = NonZeroU32::MIN.saturating_add(15);
/// Administrators who are remembered, so that a buyer's limits do not concern them.
const MAX_ADMINISTRATORS: usize = 1_000;

/// What each buyer and each address has used.
#[derive(Debug)]
pub struct Admission {
    buyers: Shares<UserId>,
    administrators: Cache<UserId, ()>,
    addresses: TokenBuckets<IpAddr>,
    networks: TokenBuckets<IpAddr>,
}

/// Permits of a route that strangers use, and the share of them that each network has.
#[derive(Debug)]
pub struct StrangersPermits {
    /// Those of all addresses together.
    pub all: Arc<Semaphore>,
    networks: Shares<IpAddr>,
    of_a_network: usize,
}

/// What a stranger's request has until it ends.
type StrangersPermit = (OwnedSemaphorePermit, Option<Share<IpAddr>>);

impl Admission {
    pub(super) fn new(address_rate: BucketRate) -> Self {
        Self {
            buyers: Shares::default(),
            administrators: Cache::new(MAX_ADMINISTRATORS),
            addresses: TokenBuckets::new(address_rate),
            networks: TokenBuckets::new(address_rate.times(ADDRESSES_OF_A_NETWORK)),
        }
    }

    /// `user` is an administrator by the configuration of this process.
    pub(super) fn remember_administrator(&self, user: UserId) {
        self.administrators.insert(user, ());
    }

    /// A request without a good token asks. Loopback addresses are not limited: they are a balancer's, a load
    /// generator's, or a test's.
    pub(super) fn admit_stranger(&self, address: ClientAddress) -> Result<(), ApiError> {
        if address.0.is_loopback() {
            return Ok(());
        }
        let customer = counted_as(address.0);
        self.addresses.take(customer).map_err(|wait| refused_by("address", &customer, wait))?;
        let network = network_of(address.0);
        self.networks.take(network).map_err(|wait| refused_by("address", &network, wait))
    }

    /// What a buyer has under way, if there may be one more. `None`: it is an administrator.
    pub(super) fn share_of(&self, user: UserId) -> Result<Option<Share<UserId>>, ApiError> {
        if self.administrators.get(&user).is_some() {
            return Ok(None);
        }
        let share = self.buyers.take(user, REQUESTS_OF_A_BUYER);
        share.map(Some).ok_or_else(|| refused_by("share", &user, RETRY_SHARE))
    }
}

impl StrangersPermits {
    /// `count` permits. Where no rate of an address counts, one address may have them all.
    pub(super) fn new(count: usize, address_rate: BucketRate) -> Self {
        let of_a_network =
            if address_rate == BucketRate::Off { usize::MAX } else { count / PART_OF_A_NETWORK };
        Self { all: Arc::new(Semaphore::new(count)), networks: Shares::default(), of_a_network }
    }

    /// Lets a request in: by its address's share, its address's rate, and then a permit, so that a loud address
    /// takes none from the others. A token of the request does not count.
    pub(super) fn admit(
        &self,
        address: ClientAddress,
        admission: &Admission,
    ) -> Result<StrangersPermit, ApiError> {
        let share = self.share_of(address)?;
        admission.admit_stranger(address)?;
        let permit = Arc::clone(&self.all).try_acquire_owned();
        Ok((permit.map_err(|_| ApiError::unavailable())?, share))
    }

    /// Loopback addresses are not limited, as in [`Admission::admit_stranger`].
    fn share_of(&self, address: ClientAddress) -> Result<Option<Share<IpAddr>>, ApiError> {
        if address.0.is_loopback() {
            return Ok(None);
        }
        let network = network_of(address.0);
        let share = self.networks.take(network, self.of_a_network);
        share.map(Some).ok_or_else(|| refused_by("address", &network, RETRY_SHARE))
    }
}

fn refused_by(by: &'static str, whom: &impl Display, wait: Duration) -> ApiError {
    telemetry::rate_limited(by, whom);
    ApiError::too_many_requests(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_asks_no_more_often_than_sixteen_of_its_addresses() {
        let Ok(rate) = "2/1h".parse() else { unreachable!() };
        let admission = Admission::new(rate);
        let admitted = |network: u16, count: u16| {
            let asks = (0..count).filter(|customer| {
                let address = IpAddr::from([0x2001, 0xdb8, network, *customer, 0, 0, 0, 1]);
                admission.admit_stranger(ClientAddress(address)).is_ok()
            });
            asks.count()
        };
        assert_eq!([admitted(1, 31), admitted(1, 1), admitted(1, 9)], [31, 1, 0]);
        assert_eq!(admitted(2, 1), 1);
    }
}
