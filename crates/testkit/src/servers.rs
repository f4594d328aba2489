//! The private servers of a test run.

use std::path::PathBuf;
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

/// A directory that goes with those servers, however this process ends.
pub async fn directory() -> PathBuf {
    let started = tokio::task::spawn_blocking(|| SERVERS.directory().to_owned());
    started.await.unwrap()
}

/// Where the run's Redis is, for tests that need no PostgreSQL.
pub async fn redis_url() -> String {
    let started = tokio::task::spawn_blocking(|| REDIS.redis_url().unwrap().to_owned());
    started.await.unwrap()
}

/// Servers of a test's own, which it may break: what is on them is what the test put there.
pub async fn own() -> Servers {
    own_of(true, false).await
}

/// The same with a Redis or without one, which lose nothing or may.
pub async fn own_of(redis: bool, durable: bool) -> Servers {
    crate::processes::need("private-stores");
    let plan = Plan { home: Home::Throwaway, postgres: true, redis, durable };
    tokio::task::spawn_blocking(move || Servers::start(&plan)).await.unwrap().unwrap()
}

/// Ends them.
pub async fn ended(servers: Servers) {
    tokio::task::spawn_blocking(|| servers.stop()).await.unwrap().unwrap();
}
