//! The server processes that sell from this database.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::AdminSession;
use super::{ApiError, App};
use crate::store::nodes::ConnectedNode;

/// A server process.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeBody {
    /// Where it listens, as it was told; the host's name and the port where it listens at all addresses.
    #[schema(example = "127.0.0.1:8080")]
    pub address: String,
    /// Seven hexadecimal digits, drawn when the process started.
    #[schema(pattern = "^[0-9a-f]{7}$", example = "3f9a21c")]
    pub instance: String,
    /// Its connections to the database.
    #[schema(minimum = 1)]
    pub connections: i64,
    /// Whether it is the one that answers.
    pub answers: bool,
}

/// The server processes that are connected to the database.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodesBody {
    /// In the order of their addresses.
    #[schema(max_items = 256)]
    pub nodes: Vec<NodeBody>,
}

/// The server processes that are connected to the database now. At most a second old.
#[utoipa::path(get, path = "/api/nodes", tag = "operations", operation_id = "list_nodes",
    security(("token" = [])),
    responses(
        (status = 200, body = NodesBody, description = "the one that answers among them"),
        (status = 403, description = "`forbidden`: not an administrator"),
    ))]
pub async fn list(State(app): State<App>, _: AdminSession) -> Result<Json<NodesBody>, ApiError> {
    let this = app.database.node();
    let body = |node: &ConnectedNode| NodeBody {
        address: node.name.address().to_owned(),
        instance: node.name.instance_text(),
        connections: node.connections,
        answers: Some(&node.name) == this,
    };
    let nodes = app.memory().nodes.get(()).await?;
    Ok(Json(NodesBody { nodes: nodes.iter().map(body).collect() }))
}
