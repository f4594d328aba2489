//! The private servers of a test run.

use std::sync::LazyLock;

use private_stores::{Home, Plan, Servers};

/// Statics are never dropped; their supervisor stops the servers when this process ends, however it does.
static SERVERS: LazyLock<Servers> = LazyLock::new(|| start(true));
static REDIS: LazyLock<Servers> = LazyLock::new(|| start(false));

fn start(postgres: bool) -> Servers {
    let plan = Plan { home: Home::Throwaway, postgres, redis: true, durable: false };
    crate::processes::need("private-stores");
    Servers::start(&plan).unwrap()
}

/// Where the run's PostgreSQL and Redis are.
pub async fn urls() -> (String, String) {
    let started = tokio::task::spawn_blocking(|| {
        let servers = &*SERVERS;
        (servers.database_url().unwrap().to_owned(), servers.redis_url().unwrap().to_owned())
    });
    started.await.unwrap()
}

/// Where the run's Redis is, for tests that need no PostgreSQL.
pub async fn redis_url() -> String {
    let started = tokio::task::spawn_blocking(|| REDIS.redis_url().unwrap().to_owned());
    started.await.unwrap()
}
