//! How many connections each peer address has, so that one address cannot take them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

use super::address::is_trusted;

/// Counts connections by peer address. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ConnectionsByPeer(Arc<ByPeer>);

#[derive(Debug)]
struct ByPeer {
    limit: usize,
    exempt: Vec<IpNet>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection, open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    address: IpAddr,
    all: ConnectionsByPeer,
}

impl ConnectionsByPeer {
    pub(super) fn new(limit: usize, exempt: Vec<IpNet>) -> Self {
        Self(Arc::new(ByPeer { limit, exempt, open: Mutex::default() }))
    }

    /// `None`: the address has as many connections as it may have.
    pub(super) fn open(&self, address: IpAddr) -> Option<OpenConnection> {
        let is_limited = !is_trusted(address, &self.0.exempt);
        let address = counted_as(address);
        let mut counts = self.counts();
        let count = counts.entry(address).or_default();
        if *count >= self.0.limit && is_limited {
            return None;
        }
        *count += 1;
        Some(OpenConnection { address, all: self.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let Some(count) = counts.get_mut(&self.address) else {
            unreachable!("an open connection of {} is not counted", self.address)
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
    fn an_address_may_have_so_many_connections_and_a_load_balancer_any_number() {
        let balancers: Vec<IpNet> = "10.0.0.0/8".parse().into_iter().collect();
        let peers = ConnectionsByPeer::new(2, balancers);
        let (client, balancer) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([10, 0, 0, 1]));
        let held = [peers.open(client), peers.open(client)];
        assert!(held.iter().all(Option::is_some) && peers.open(client).is_none());
        let many: Vec<_> = (0..10).map(|_| peers.open(balancer)).collect();
        assert!(many.iter().all(Option::is_some));
        let [one, other]: [IpAddr; 2] =
            [IpAddr::from([1, 2, 3, 4, 5, 6, 7, 8]), IpAddr::from([1, 2, 3, 4, 8, 7, 6, 5])];
        let of_network = [peers.open(one), peers.open(other)];
        assert!(of_network.iter().all(Option::is_some) && peers.open(one).is_none());
        drop((held, many, of_network));
        assert!(peers.open(client).is_some());
        assert!(peers.counts().is_empty());
    }
}
