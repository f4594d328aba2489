//! What a server process calls itself, in the names of its connections to PostgreSQL.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The first word of the name, and the whole name of a connection that no server process has.
pub(super) const PROGRAM: &str = "seckill";

/// The largest number of an instance.
pub const MAX_INSTANCE: u32 = 0xfff_ffff;

/// The longest host name, so that the whole fits into the 63 bytes that PostgreSQL keeps of a name.
const MAX_HOST: usize = 41;

/// What a server process calls itself: `seckill 127.0.0.1:8080 3f9a21c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    address: String,
    instance: u32,
}

impl NodeName {
    /// The name of a server that listens at `address`, on a machine that calls itself `host`. `instance`
    /// is drawn when the process starts, at most [`MAX_INSTANCE`].
    ///
    /// In containers every server listens at `0.0.0.0:8080`. The host's name tells them apart.
    pub fn new(address: SocketAddr, host: &str, instance: u32) -> Self {
        let is_of_a_host = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let host: String = host.chars().take_while(is_of_a_host).collect();
        let address = if address.ip().is_unspecified() && !host.is_empty() {
            // Orchestrators put what tells containers apart at the end.
            format!("{}:{}", &host[host.len().saturating_sub(MAX_HOST)..], address.port())
        } else {
            address.to_string()
        };
        Self { address, instance }
    }

    /// Where it listens; the host's name and the port where it listens at all addresses.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The instance as it is written: seven hexadecimal digits.
    pub fn instance_text(&self) -> String {
        format!("{:07x}", self.instance)
    }
}

/// Not the name of a server process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the name of a server process")]
pub struct NotANode;

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PROGRAM} {} {}", self.address, self.instance_text())
    }
}

impl FromStr for NodeName {
    type Err = NotANode;
    fn from_str(text: &str) -> Result<Self, NotANode> {
        let mut words = text.split(' ');
        let (Some(PROGRAM), Some(address), Some(instance), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(NotANode);
        };
        let (host, port) = address.rsplit_once(':').ok_or(NotANode)?;
        let port: u16 = port.parse().map_err(|_| NotANode)?;
        let instance = u32::from_str_radix(instance, 16).map_err(|_| NotANode)?;
        let any = SocketAddr::from(([0, 0, 0, 0], port));
        let name = match address.parse() {
            Ok(address) => Self { address: SocketAddr::to_string(&address), instance },
            Err(_) => Self::new(any, host, instance),
        };
        if name.address == address { Ok(name) } else { Err(NotANode) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_fits_into_what_postgresql_keeps() {
        for address in ["127.0.0.1:8080", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"] {
            let Ok(listening) = address.parse() else { unreachable!("an address") };
            for instance in [0, 0x3f9_a21c, MAX_INSTANCE] {
                let name = NodeName::new(listening, "host", instance);
                assert_eq!(name.address(), address);
                assert_eq!(name.to_string().parse().as_ref(), Ok(&name));
                assert!(name.to_string().len() <= 63, "{name}");
            }
        }
        for other in [
            "seckill",
            "seckill x 1",
            "seckill <b>x</b>:1 1",
            "seckill a.b:1 1",
            "seckill :1 1",
            "seckill 1.2.3.4:1 1 1",
            "x",
        ] {
            assert_eq!(other.parse::<NodeName>(), Err(NotANode), "{other}");
        }
    }

    #[test]
    fn a_server_at_all_addresses_is_known_by_its_host() {
        let long = format!("{}-the-end", "pod".repeat(40));
        for (listening, host, expected) in [
            ("0.0.0.0:8080", "4f1c9a0b7d21", "4f1c9a0b7d21:8080"),
            ("[::]:65535", "seckill-0.shop.example", "seckill-0:65535"),
            ("0.0.0.0:8080", "", "0.0.0.0:8080"),
            ("0.0.0.0:65535", &long, &format!("{}:65535", &long[long.len() - MAX_HOST..])),
        ] {
            let Ok(address) = listening.parse() else { unreachable!("an address") };
            let name = NodeName::new(address, host, MAX_INSTANCE);
            assert_eq!(name.address(), expected);
            assert_eq!(name.to_string().parse().as_ref(), Ok(&name));
            assert!(name.to_string().len() <= 63, "{name}");
        }
    }
}
