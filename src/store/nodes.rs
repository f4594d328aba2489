//! The server processes that use a database, known by the names of their connections
//! (`application_name`): a process that ends is gone from the list when its connections are.

use sqlx::postgres::PgPool;

use super::StoreError;
use super::node_name::{NodeName, PROGRAM};
use super::statements::in_time;

/// Rows that are read: more than servers share one database.
const MAX_NODES: i64 = 256;

/// A server process and how many connections it has to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedNode {
    /// The process.
    pub name: NodeName,
    /// Its connections, those of its purchases included.
    pub connections: i64,
}

/// The server processes that are connected to the database, by their names.
pub async fn connected(pool: &PgPool) -> Result<Vec<ConnectedNode>, StoreError> {
    let query = sqlx::query_as(
        "select application_name, count(*) as connections
         from pg_stat_activity
         where datname = current_database() and application_name like $1 || ' %'
         group by application_name
         order by application_name
         limit $2",
    )
    .bind(PROGRAM)
    .bind(MAX_NODES);
    let rows: Vec<(String, i64)> =
        in_time(pool, async |connection| query.fetch_all(connection).await).await?;
    // Other programs can give their connections any name.
    let node = |(name, connections): &(String, i64)| {
        Some(ConnectedNode { name: name.parse().ok()?, connections: *connections })
    };
    Ok(rows.iter().filter_map(node).collect())
}
