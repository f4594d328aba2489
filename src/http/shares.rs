//! How many connections or streams each address has, so that one address cannot take them all.

use std::net::IpAddr;

use ipnet::IpNet;

use super::address::is_trusted;
use crate::model::{Share, Shares};

/// Counts by customer: an IPv4 address, an IPv6 /64.
#[derive(Debug)]
pub(super) struct AddressShares {
    limit: usize,
    exempt: Vec<IpNet>,
    taken: Shares<IpAddr>,
}

impl AddressShares {
    pub(super) fn new(limit: usize, exempt: Vec<IpNet>) -> Self {
        Self { limit, exempt, taken: Shares::default() }
    }

    /// `None`: the address has as many as it may have.
    pub(super) fn take(&self, address: IpAddr) -> Option<Share<IpAddr>> {
        let is_limited = !is_trusted(address, &self.exempt);
        let limit = if is_limited { self.limit } else { usize::MAX };
        self.taken.take(counted_as(address), limit)
    }
}

/// One customer has a /64 of IPv6, as a rule.
pub(super) fn counted_as(address: IpAddr) -> IpAddr {
    beginning(address, 4)
}

/// Some providers give one customer a /48.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    beginning(address, 3)
}

/// So many segments of an IPv6 address, and an IPv4 address whole.
fn beginning(address: IpAddr, segments: usize) -> IpAddr {
    let IpAddr::V6(long) = address else { return address };
    let mut kept = long.segments();
    kept[segments..].fill(0);
    IpAddr::from(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_so_many_and_a_load_balancer_any_number() {
        let balancers: Vec<IpNet> = "10.0.0.0/8".parse().into_iter().collect();
        let peers = AddressShares::new(2, balancers);
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
    }
}
