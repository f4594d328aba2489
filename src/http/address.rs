//! Where a request comes from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Once;

use axum::http::header::FORWARDED;
use axum::http::{Extensions, HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::telemetry::name;

/// The other end of the connection; the server puts it into every request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

impl Peer {
    /// Its address, without the port.
    pub(super) fn ip(&self) -> IpAddr {
        // An IPv6 socket shows an IPv4 peer as ::ffff:192.0.2.1.
        self.0.ip().to_canonical()
    }
}

/// Names the way of a request through proxies.
pub const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An entry of [`X_FORWARDED_FOR`] that is not UTF-8.
const NO_TEXT: &str = "(no text)";

/// `address` as one connects to it. A server that listens everywhere is reached at the loopback address.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether `address` is in one of the `trusted` networks.
pub(super) fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address))
}

/// The client's address: the peer's, or, if the peer is a trusted proxy, what the
/// proxies say in `X-Forwarded-For`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The client's address of a request.
    pub(super) fn of(headers: &HeaderMap, extensions: &Extensions, trusted: &[IpNet]) -> Self {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let peer = extensions.get().map_or(unspecified, Peer::ip);
        Self(client_address(peer, headers, trusted))
    }

    /// What is counted as one customer: an IPv4 address, or the IPv6 /64 that a customer has as a rule.
    pub fn customer(self) -> IpAddr {
        self.beginning(4)
    }

    /// An IPv4 address, or the IPv6 /48, which holds 65,536 of [`ClientAddress::customer`]: some providers give one
    /// customer as much.
    pub fn network(self) -> IpAddr {
        self.beginning(3)
    }

    /// So many segments of an IPv6 address, and an IPv4 address whole.
    fn beginning(self, segments: usize) -> IpAddr {
        let IpAddr::V6(long) = self.0 else { return self.0 };
        let mut kept = long.segments();
        kept[segments..].fill(0);
        IpAddr::from(kept)
    }
}

/// The last address on the way that is not a trusted proxy's. The client may have made up what stands
/// before it.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    if !is_trusted(peer, trusted) {
        if headers.contains_key(X_FORWARDED_FOR) || headers.contains_key(FORWARDED) {
            count_untrusted(peer);
        }
        return peer;
    }
    let hops: Vec<&str> = headers
        .get_all(X_FORWARDED_FOR)
        .iter()
        // Byte by byte: if the client wrote before what is no text, the address that the proxy adds is read all the same.
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(|hop| str::from_utf8(hop).unwrap_or(NO_TEXT).trim())
        .filter(|hop| !hop.is_empty())
        .collect();
    let mut client = peer;
    for hop in hops.into_iter().rev() {
        let Some(address) = address_of(hop) else {
            warn_of_unreadable(hop, client);
            break;
        };
        client = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    client
}

/// The address that a proxy wrote: alone, in brackets, or with a port (Azure's gateway, IIS).
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    let with_port = || hop.parse().ok().map(|address: SocketAddr| address.ip());
    bare.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

/// Logged once: behind a proxy that is not trusted every request has the header, and the metric shows how many there are.
fn count_untrusted(peer: IpAddr) {
    static SAID: Once = Once::new();
    metrics::counter!(name::UNTRUSTED_FORWARDED).increment(1);
    SAID.call_once(|| {
        tracing::warn!(
            address = %peer,
            "X-Forwarded-For comes from an address that is not in SECKILL_TRUSTED_PROXIES and is not believed: if it is \
             that of a proxy, all its clients count as one address and share each limit (said once; \
             seckill_untrusted_forwarded_total)"
        );
    });
}

/// Once: a proxy that writes so does it in every request, and all its clients share a limit.
fn warn_of_unreadable(hop: &str, counted: IpAddr) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            hop,
            "an entry of X-Forwarded-For from a trusted proxy is no address: its client is counted as {counted}, \
             and so is every other one behind it (said once)"
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn seen(peer: &str, forwarded: Option<&'static str>, trusted: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(forwarded) = forwarded {
            headers.insert("x-forwarded-for", HeaderValue::from_static(forwarded));
        }
        let trusted: Vec<IpNet> = trusted.split(',').filter_map(|net| net.parse().ok()).collect();
        Some(client_address(peer.parse().ok()?, &headers, &trusted).to_string())
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(seen("192.0.2.1", None, ""), is("192.0.2.1"));
        assert_eq!(seen("192.0.2.1", Some("198.51.100.9"), ""), is("192.0.2.1"));
        let proxies = "10.0.0.0/8";
        assert_eq!(seen("10.0.0.1", Some("198.51.100.9"), proxies), is("198.51.100.9"));
        assert_eq!(seen("10.0.0.1", Some("1.1.1.1, 198.51.100.9"), proxies), is("198.51.100.9"));
        assert_eq!(seen("10.0.0.1", Some("198.51.100.9, 10.0.0.2"), proxies), is("198.51.100.9"));
        assert_eq!(seen("10.0.0.1", Some("rubbish"), proxies), is("10.0.0.1"));
        // A proxy with IPv6 sockets writes IPv4 addresses so.
        let mapped = Some("198.51.100.9, ::ffff:10.0.0.2");
        assert_eq!(seen("10.0.0.1", mapped, proxies), is("198.51.100.9"));
        assert_eq!(seen("10.0.0.1", Some("::ffff:198.51.100.9"), proxies), is("198.51.100.9"));
    }

    #[test]
    fn an_address_may_have_a_port_and_brackets_and_what_cannot_be_read_ends_the_way() {
        let through = |hops| seen("10.0.0.1", Some(hops), "10.0.0.0/8");
        for (hops, client) in [
            ("198.51.100.9:567", "198.51.100.9"),
            ("198.51.100.9:65535, 10.0.0.2:80", "198.51.100.9"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:567", "2001:db8::1"),
            ("[::ffff:198.51.100.9]:567", "198.51.100.9"),
            ("198.51.100.9, ,", "198.51.100.9"),
            // What stands before an entry that cannot be read is not believed.
            ("198.51.100.9, 10.0.0.2:65536", "10.0.0.1"),
            ("198.51.100.9, [10.0.0.2, 10.0.0.3", "10.0.0.3"),
            ("198.51.100.9, unknown", "10.0.0.1"),
            ("", "10.0.0.1"),
        ] {
            assert_eq!(through(hops).as_deref(), Some(client), "{hops}");
        }
    }

    /// A proxy on the same host would lend it the loopback address, which no limit counts.
    #[test]
    fn a_client_that_writes_what_is_no_text_does_not_hide_behind_the_proxy() {
        for [before, after] in [["\u{e9}, ", ""], ["", " "]] {
            for foreign in [b"\xe9".as_slice(), "\u{e9}".as_bytes(), b"\xff\x80"] {
                let line = [before.as_bytes(), foreign, b", 198.51.100.9", after.as_bytes()];
                let Ok(line) = HeaderValue::from_bytes(&line.concat()) else { unreachable!() };
                let headers = HeaderMap::from_iter([(X_FORWARDED_FOR, line)]);
                let trusted: Vec<IpNet> = "127.0.0.0/8".parse().into_iter().collect();
                let seen = client_address(Ipv4Addr::LOCALHOST.into(), &headers, &trusted);
                assert_eq!(seen.to_string(), "198.51.100.9");
            }
        }
    }

    #[test]
    fn a_customer_is_an_ipv4_address_or_an_ipv6_64_and_a_network_is_a_48() {
        let of = |text: &str| {
            let address = ClientAddress(text.parse().ok()?);
            Some((address.customer().to_string(), address.network().to_string()))
        };
        for (address, customer, network) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::", "2001:db8:1::"),
            ("2001:db8:1:ff::1", "2001:db8:1:ff::", "2001:db8:1::"),
        ] {
            assert_eq!(of(address), Some((customer.to_owned(), network.to_owned())), "{address}");
        }
    }
}
