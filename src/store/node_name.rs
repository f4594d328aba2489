//! What a server process calls itself, in the names of its connections to PostgreSQL.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The first word of the name, and the whole name of a connection that no server process has.
pub(super) const PROGRAM: &str = "seckill";

/// The largest number of an instance.
pub const MAX_INSTANCE: u32 = 0xfff_ffff;

/// What a server process calls itself: `seckill 127.0.0.1:8080 3f9a21c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeName {
    /// Where it listens, as it was told. Two machines may both say `0.0.0.0:8080`.
    pub address: SocketAddr,
    /// Drawn when the process starts, at most [`MAX_INSTANCE`].
    pub instance: u32,
}

impl NodeName {
    /// The instance as it is written: seven hexadecimal digits, so that the longest address fits into the 63 bytes of a name.
    pub fn instance_text(self) -> String {
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
        let address = address.parse().map_err(|_| NotANode)?;
        let instance = u32::from_str_radix(instance, 16).map_err(|_| NotANode)?;
        Ok(Self { address, instance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_fits_into_what_postgresql_keeps() {
        for address in ["127.0.0.1:8080", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"] {
            let Ok(address) = address.parse() else { unreachable!("an address") };
            for instance in [0, 0x3f9_a21c, MAX_INSTANCE] {
                let name = NodeName { address, instance };
                assert_eq!(name.to_string().parse(), Ok(name));
                assert!(name.to_string().len() <= 63, "{name}");
            }
        }
        for other in ["seckill", "seckill x 1", "seckill 1.2.3.4:1", "seckill 1.2.3.4:1 1 1", "x"] {
            assert_eq!(other.parse::<NodeName>(), Err(NotANode), "{other}");
        }
    }
}
