//! Private, real PostgreSQL and Redis as child processes, for development,
//! demonstration and tests: the program works with nothing configured.
//!
//! They listen on UNIX sockets in a directory that only their user may enter,
//! so they clash with no port and no system service, and with no other pair.
//! As root they run as an unprivileged user, because PostgreSQL refuses root.
//!
//! The processes, and their parents:
//!
//! ```text
//! program ──stdin/stdout──▶ supervisor ──parent of──▶ postgres, redis-server
//! ```
//!
//! The **supervisor** is the program `private-stores` of this crate, which lies beside the
//! program. It lives outside the program on purpose: a program that was
//! killed by SIGKILL can clean up nothing, but its end closes the pipe that is
//! the supervisor's stdin, and the supervisor then stops the servers and removes what
//! was to be thrown away. Should the supervisor be killed too, the kernel passes the
//! news on to the servers (Linux: `PR_SET_PDEATHSIG`).
//!
//! In reading order: [`plan`](Plan) says what is wanted, `servers` is the
//! program's side, `protocol` the lines between, `supervisor` the other side;
//! `home` and `scratch` are the directories, `process` one server's life,
//! `postgres` and `redis` what differs between the two, `binaries`, `programs` and
//! `packages` find what is installed; `account` and `events` serve all of them.

// Some of what they find only the supervisor needs.
#[cfg_attr(not(feature = "supervisor"), allow(dead_code))]
mod binaries;
mod error;
#[cfg_attr(not(feature = "supervisor"), allow(dead_code))]
mod packages;
mod plan;
mod programs;
mod protocol;
mod remains;
mod servers;

/// The supervisor's side. Programs that start one do without it, and without its PostgreSQL client.
#[cfg(feature = "supervisor")]
mod supervisor;

pub use binaries::{Benchmarks, redis_server};
pub use error::StoresError;
pub use plan::{Home, Plan, Server};
pub use programs::on_search_path;
pub use servers::{SUPERVISOR, Servers};
#[cfg(feature = "supervisor")]
pub use supervisor::{PostgresPrograms, keep_servers};
