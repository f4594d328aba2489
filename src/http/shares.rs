//! How many connections or streams each address has, so that one address cannot take them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

use super::address::is_trusted;

/// Counts by address. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Shares(Arc<ByAddress>);

#[derive(Debug)]
struct ByAddress {
    limit: usize,
    exempt: Vec<IpNet>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One of what is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    address: IpAddr,
    all: Shares,
}

impl Shares {
    pub(super) fn new(limit: usize, exempt: Vec<IpNet>) -> Self {
        Self(Arc::new(ByAddress { limit, exempt, taken: Mutex::default() }))
    }

    /// `None`: the address has as many as it may have.
    pub(super) fn take(&self, address: IpAddr) -> Option<Share> {
        let is_limited = !is_trusted(address, &self.0.exempt);
        let address = counted_as(address);
        let mut counts = self.counts();
        if is_limited && counts.get(&address).copied().unwrap_or(0) >= self.0.limit {
            return None;
        }
        *counts.entry(address).or_default() += 1;
        Some(Share { address, all: self.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One customer has a /64 of IPv6, as a rule.
fn counted_as(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let Some(count) = counts.get_mut(&self.address) else {
            unreachable!("what {} has is not counted", self.address)
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_so_many_and_a_load_balancer_any_number() {
        let balancers: Vec<IpNet> = "10.0.0.0/8".parse().into_iter().collect();
        let peers = Shares::new(2, balancers);
        let (client, balancer) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([10, 0, 0, 1]));
        let held = [peers.take(client), peers.take(client)];
        assert!(held.iter().all(Option::is_some) && peers.take(client).is_none());
        let many: Vec<_> = (0..10).map(|_| peers.take(balancer)).collect();
        assert!(many.iter().all(Option::is_some));
        let [one, other]: [IpAddr; 2] =
            [IpAddr::from([1, 2, 3, 4, 5, 6, 7, 8]), IpAddr::from([1, 2, 3, 4, 8, 7, 6, 5])];
        let of_network = [peers.take(one), peers.take(other)];
        assert!(of_network.iter().all(Option::is_some) && peers.take(one).is_none());
        drop((held, many, of_network));
        assert!(peers.take(client).is_some());
        assert!(peers.counts().is_empty());
    }
}
