//! Finding the servers' executables, and those that measure them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use super::packages::{install_command, missing_sentence, no_benchmarks_sentence, package_tool};
use super::programs::{is_executable, on_search_path, output_of};
use super::{Plan, StoresError};

/// An installed PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PostgresBinaries {
    pub(super) postgres: PathBuf,
    pub(super) initdb: PathBuf,
    pub(super) major: u32,
}

/// What the plan needs; `None` where it needs nothing.
#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) postgres: Option<PostgresBinaries>,
    pub(super) redis: Option<PathBuf>,
}

impl Binaries {
    /// Finds what `plan` needs. `data_major` is the version that wrote the data
    /// already there: where several versions are installed, that one is taken.
    pub(super) fn find(plan: &Plan, data_major: Option<u32>) -> Result<Self, StoresError> {
        let postgres = plan.postgres.then(|| find_postgres(data_major));
        let redis = plan.redis.then(find_redis);
        let missing_postgres = matches!(postgres, Some(None));
        let missing_redis = matches!(redis, Some(None));
        if missing_postgres || missing_redis {
            let sentence = missing_sentence(
                missing_postgres,
                missing_redis,
                package_tool(),
                geteuid().is_root(),
            );
            return Err(StoresError::MissingBinaries(sentence));
        }
        Ok(Self { postgres: postgres.flatten(), redis: redis.flatten() })
    }
}

fn find_postgres(data_major: Option<u32>) -> Option<PostgresBinaries> {
    let found: Vec<PostgresBinaries> =
        postgres_directories().iter().filter_map(|directory| postgres_in(directory)).collect();
    found.iter().find(|one| Some(one.major) == data_major).or(found.first()).cloned()
}

/// Where PostgreSQL may be, the most specific first: distributions keep the
/// server, unlike `psql`, off the search path so that versions can live together.
fn postgres_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    directories.extend(output_of("pg_config", &["--bindir"]).map(PathBuf::from));
    directories
        .extend(on_search_path("postgres").and_then(|path| path.parent().map(Path::to_owned)));
    for (parent, prefix, suffix) in [
        ("/usr/lib/postgresql", "", "bin"), // Debian, Ubuntu
        ("/usr", "pgsql-", "bin"),          // PostgreSQL's own RPMs
        ("/usr/libexec", "postgresql", ""), // Alpine
        ("/opt/homebrew/opt", "postgresql", "bin"),
        ("/usr/local/opt", "postgresql", "bin"),
        ("/home/linuxbrew/.linuxbrew/opt", "postgresql", "bin"),
    ] {
        directories.extend(
            versions_in(Path::new(parent), prefix).into_iter().map(|path| path.join(suffix)),
        );
    }
    directories
}

/// The entries of `parent` that begin with `prefix`, the highest version first.
fn versions_in(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()))
        .map(|entry| {
            (first_number(&entry.file_name().to_string_lossy()).unwrap_or(0), entry.path())
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// An installation is complete only with both programs: the client packages
/// bring `pg_config` and its directory without them.
fn postgres_in(directory: &Path) -> Option<PostgresBinaries> {
    let [postgres, initdb] = ["postgres", "initdb"].map(|name| directory.join(name));
    if !(is_executable(&postgres) && is_executable(&initdb)) {
        return None;
    }
    let major = first_number(&output_of(&postgres, &["--version"])?)?;
    Some(PostgresBinaries { postgres, initdb, major })
}

/// The executable of the Redis server, for one who starts it without us.
///
/// # Errors
/// [`StoresError::MissingBinaries`] where there is none.
pub fn redis_server() -> Result<PathBuf, StoresError> {
    find_redis().ok_or_else(|| {
        let install = install_command(&[("redis", true)], package_tool(), geteuid().is_root());
        StoresError::MissingBinaries(format!("Redis is not installed: {install}"))
    })
}

/// The programs by which the servers themselves are measured. Each comes with its server, or in
/// a package beside it.
#[derive(Debug, Clone)]
pub struct Benchmarks {
    /// PostgreSQL's `pgbench`.
    pub pgbench: PathBuf,
    /// Redis's `redis-benchmark`.
    pub redis_benchmark: PathBuf,
}

impl Benchmarks {
    /// Finds both.
    ///
    /// # Errors
    /// [`StoresError::MissingBinaries`] where one of them is not installed.
    pub fn find() -> Result<Self, StoresError> {
        // Debian's `pgbench` on the search path is a script that looks for one of these.
        let beside_the_server =
            || postgres_directories().into_iter().map(|directory| directory.join("pgbench"));
        let pgbench = beside_the_server()
            .find(|path| is_executable(path))
            .or_else(|| on_search_path("pgbench"));
        let redis_benchmark = find_usual(["redis-benchmark", "valkey-benchmark"]);
        match (pgbench, redis_benchmark) {
            (Some(pgbench), Some(redis_benchmark)) => Ok(Self { pgbench, redis_benchmark }),
            (pgbench, redis) => Err(StoresError::MissingBinaries(no_benchmarks_sentence(
                pgbench.is_none(),
                redis.is_none(),
                package_tool(),
                geteuid().is_root(),
            ))),
        }
    }
}

/// Valkey is Redis under its free licence, and what newer distributions ship.
fn find_redis() -> Option<PathBuf> {
    find_usual(["redis-server", "valkey-server"])
}

/// The first of `names` that is on the search path, or where packages put programs.
fn find_usual(names: [&str; 2]) -> Option<PathBuf> {
    names.into_iter().find_map(|name| {
        let usual =
            ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"];
        on_search_path(name).or_else(|| {
            usual
                .iter()
                .map(|directory| Path::new(directory).join(name))
                .find(|path| is_executable(path))
        })
    })
}

/// The first run of digits: the major version in `postgres (PostgreSQL) 15.4`.
pub(super) fn first_number(text: &str) -> Option<u32> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let digits = &text[from..];
    let to = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..to].parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_comes_first_by_number() {
        let home = tempfile::tempdir().unwrap();
        for name in ["pgsql-9.6", "pgsql-15", "pgsql-10", "other-99"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        let names: Vec<_> = versions_in(home.path(), "pgsql-")
            .into_iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["pgsql-15", "pgsql-10", "pgsql-9.6"]);
    }

    #[test]
    fn a_major_version_is_read_from_what_postgres_says() {
        assert_eq!(first_number("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), Some(15));
        assert_eq!(first_number("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(first_number("no digits"), None);
    }
}
