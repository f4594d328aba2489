//! The server processes that use a database, known by the names of their connections
//! (`application_name`): a process that ends is gone from the list when its connections are.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use sqlx::Row;
use sqlx::postgres::PgPool;

use super::StoreError;
use super::postgres::in_time;

/// The first word of the name, and the whole name of a connection that no server process has.
pub(super) const PROGRAM: &str = "seckill";

/// Rows that are read: more than servers share one database.
const MAX_NODES: i64 = 256;

/// What a server process calls itself: `seckill 127.0.0.1:8080 3f9a21c4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeName {
    /// Where it listens, as it was told. Two machines may both say `0.0.0.0:8080`.
    pub address: SocketAddr,
    /// Drawn when the process starts.
    pub instance: u32,
}

/// Not the name of a server process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the name of a server process")]
pub struct NotANode;

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{PROGRAM} {} {:08x}", self.address, self.instance)
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

/// A server process and how many connections it has to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedNode {
    /// The process.
    pub name: NodeName,
    /// Its connections, those of its purchases included.
    pub connections: i64,
}

/// The server processes that are connected to the database, by their names.
///
/// # Errors
/// As any statement.
pub async fn connected(pool: &PgPool) -> Result<Vec<ConnectedNode>, StoreError> {
    let query = sqlx::query(
        "select application_name, count(*) as connections
         from pg_stat_activity
         where datname = current_database() and application_name like $1 || ' %'
         group by application_name
         order by application_name
         limit $2",
    )
    .bind(PROGRAM)
    .bind(MAX_NODES);
    let rows = in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    let mut nodes = Vec::new();
    for row in &rows {
        // Anybody who may connect can call a connection anything.
        if let Ok(name) = row.try_get::<&str, _>("application_name")?.parse() {
            nodes.push(ConnectedNode { name, connections: row.try_get("connections")? });
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_fits_into_what_postgresql_keeps() {
        for address in ["127.0.0.1:8080", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"] {
            let Ok(address) = address.parse() else { unreachable!("an address") };
            for instance in [0, 0x3f9a_21c4, u32::MAX] {
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
