//! PostgreSQL servers that replicate; those that the program starts for itself do not.

use faults::Proxy;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use testkit::wait::eventually;

/// A server, and what is asked of it.
pub struct PostgresNode {
    pub url: String,
    server: faults::PostgresNode,
}

impl PostgresNode {
    pub async fn primary() -> Self {
        Self::of(faults::PostgresNode::primary_at(None).await.unwrap())
    }

    /// A copy of the server behind `proxy`, which goes on following it through the proxy.
    pub async fn standby_of(proxy: &Proxy) -> Self {
        Self::of(faults::PostgresNode::standby_at(None, proxy).await.unwrap())
    }

    fn of(server: faults::PostgresNode) -> Self {
        Self { url: server.url().to_owned(), server }
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        PgConnection::connect(&self.url).await
    }

    pub async fn proxy(&self) -> Proxy {
        self.server.proxy().await.unwrap()
    }

    pub async fn run(&self, statement: &str) {
        let mut connection = self.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    }

    /// Waits until the answer to `question` is yes.
    pub async fn until(&self, question: &'static str) {
        let mut connection = self.connect().await.unwrap();
        eventually(question, async || {
            sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap()
        })
        .await;
    }

    pub async fn promote(&self) {
        self.server.promote().await.unwrap();
    }

    /// SIGKILL of the server; its sessions end with it.
    pub fn kill(&mut self) {
        self.server.kill();
    }
}
