//! What a server process calls itself, in the names of its connections to PostgreSQL.

use std::fmt;
use std::net::SocketAddr;

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

    /// The instance as it is written: seven hexadecimal digits.
    pub fn instance_text(&self) -> String {
        format!("{:07x}", self.instance)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PROGRAM} {} {}", self.address, self.instance_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the longest, PostgreSQL would cut off what tells two processes apart.
    #[test]
    fn a_name_has_the_address_or_the_host_and_fits_into_what_postgresql_keeps() {
        let long = format!("{}-the-end", "pod".repeat(40));
        let v6 = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        for (listening, host, expected) in [
            ("127.0.0.1:8080", "host", "127.0.0.1:8080"),
            (v6, "host", v6),
            ("0.0.0.0:8080", "4f1c9a0b7d21", "4f1c9a0b7d21:8080"),
            ("[::]:65535", "seckill-0.shop.example", "seckill-0:65535"),
            ("0.0.0.0:8080", "", "0.0.0.0:8080"),
            ("0.0.0.0:65535", &long, &format!("{}:65535", &long[long.len() - MAX_HOST..])),
        ] {
            let Ok(address) = listening.parse() else { unreachable!("an address") };
            for (instance, text) in [(0x0f9_a21c, "0f9a21c"), (MAX_INSTANCE, "fffffff")] {
                let name = NodeName::new(address, host, instance).to_string();
                assert_eq!(name, format!("seckill {expected} {text}"));
                assert!(name.len() <= 63, "{name}");
            }
        }
    }
}
