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
//! The **supervisor** is the program itself, re-executed as the hidden subcommand
//! `keep-servers`. It lives outside the program on purpose: a program that was
//! killed by SIGKILL can clean up nothing, but its end closes the pipe that is
//! the supervisor's stdin, and the supervisor then stops the servers and removes what
//! was to be thrown away. Should the supervisor be killed too, the kernel passes the
//! news on to the servers (Linux: `PR_SET_PDEATHSIG`).
//!
//! In reading order: [`plan`](Plan) says what is wanted, `servers` is the
//! program's side, `protocol` the lines between, `supervisor` the other side;
//! `home` and `scratch` are the directories, `process` one server's life,
//! `postgres` and `redis` what differs between the two, `binaries`, `programs` and
//! `packages` find what is installed; `account`, `parent_death` and `events` serve all of them.

mod account;
mod binaries;
mod error;
mod events;
mod home;
#[cfg(feature = "tools")]
mod node;
mod packages;
mod parent_death;
mod plan;
mod postgres;
mod postgres_session;
mod process;
mod programs;
mod protocol;
mod redis;
mod scratch;
mod servers;
mod supervisor;

pub use binaries::{Benchmarks, redis_server};
pub use error::EmbeddedError;
#[cfg(feature = "tools")]
pub use node::{Node, NodeOptions};
pub use parent_death::end_with_us;
pub use plan::{Home, Plan, Server};
pub use postgres::PostgresPrograms;
pub use programs::on_search_path;
pub use servers::Servers;
pub use supervisor::keep_servers;
