//! The server processes that use a database, known by the names of their connections
//! (`application_name`): a process that ends is gone from the list when its connections are.

use sqlx::Row;
use sqlx::postgres::PgPool;

use super::StoreError;
use super::node_name::{NodeName, PROGRAM};
use super::postgres::in_time;

/// Rows that are read: more than servers share one database.
const MAX_NODES: i64 = 256;

/// A server process and how many connections it has to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedNode {
    /// The process.
    pub name: NodeName,
    /// Its connections, those of its purchases included.
    pub connections: i64,
}

/// The server processes that are connected to the database, by their names.
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
