//! What to install where something is missing, as this system's packages have it.

use super::programs::on_search_path;

/// A package manager: its command, and its names for the two packages.
pub(super) struct PackageTool {
    command: &'static str,
    postgres: &'static str,
    redis: &'static str,
    /// What brings the programs that measure them.
    pgbench: &'static str,
    redis_benchmark: &'static str,
    needs_root: bool,
}

/// Package managers, by the name of their program.
const TOOLS: &[(&str, PackageTool)] = &[
    (
        "apt-get",
        PackageTool {
            command: "apt-get install -y",
            postgres: "postgresql",
            redis: "redis-server",
            pgbench: "postgresql",
            redis_benchmark: "redis-tools",
            needs_root: true,
        },
    ),
    (
        "dnf",
        PackageTool {
            command: "dnf install -y",
            postgres: "postgresql-server",
            redis: "redis",
            pgbench: "postgresql-contrib",
            redis_benchmark: "redis",
            needs_root: true,
        },
    ),
    (
        "apk",
        PackageTool {
            command: "apk add",
            postgres: "postgresql",
            redis: "redis",
            pgbench: "postgresql-contrib",
            redis_benchmark: "redis",
            needs_root: true,
        },
    ),
    (
        "pacman",
        PackageTool {
            command: "pacman -S --noconfirm",
            postgres: "postgresql",
            redis: "redis",
            pgbench: "postgresql",
            redis_benchmark: "redis",
            needs_root: true,
        },
    ),
    (
        "zypper",
        PackageTool {
            command: "zypper install -y",
            postgres: "postgresql-server",
            redis: "redis",
            pgbench: "postgresql-contrib",
            redis_benchmark: "redis",
            needs_root: true,
        },
    ),
    (
        "brew",
        PackageTool {
            command: "brew install",
            postgres: "postgresql@17",
            redis: "redis",
            pgbench: "postgresql@17",
            redis_benchmark: "redis",
            needs_root: false,
        },
    ),
];

pub(super) fn package_tool() -> Option<&'static PackageTool> {
    TOOLS.iter().find(|(name, _)| on_search_path(name).is_some()).map(|(_, tool)| tool)
}

pub(super) fn missing_sentence(
    postgres: bool,
    redis: bool,
    tool: Option<&PackageTool>,
    root: bool,
) -> String {
    let (what, urls) = match (postgres, redis) {
        (true, true) => ("PostgreSQL and Redis are", "DATABASE_URL and REDIS_URL"),
        (true, false) => ("PostgreSQL is", "DATABASE_URL"),
        _ => ("Redis is", "REDIS_URL"),
    };
    let install = install_command(postgres, redis, tool, root);
    format!("{what} not installed: {install}, or set {urls}")
}

pub(super) fn no_benchmarks_sentence(
    pgbench: bool,
    redis: bool,
    tool: Option<&PackageTool>,
    root: bool,
) -> String {
    let what = match (pgbench, redis) {
        (true, true) => "pgbench and redis-benchmark are",
        (true, false) => "pgbench is",
        _ => "redis-benchmark is",
    };
    // The packages that bring them, where they are not the servers' own.
    let tool = tool.map(|tool| PackageTool {
        postgres: tool.pgbench,
        redis: tool.redis_benchmark,
        ..*tool
    });
    let install = install_command(pgbench, redis, tool.as_ref(), root);
    format!("{what} not installed, without which there is nothing to compare with: {install}")
}

/// What to do about it, as the part of a sentence.
pub(super) fn install_command(
    postgres: bool,
    redis: bool,
    tool: Option<&PackageTool>,
    root: bool,
) -> String {
    let Some(tool) = tool else {
        return "install with this system's package manager".to_owned();
    };
    let sudo = if tool.needs_root && !root { "sudo " } else { "" };
    let packages: Vec<&str> = [(postgres, tool.postgres), (redis, tool.redis)]
        .into_iter()
        .filter_map(|(missing, name)| missing.then_some(name))
        .collect();
    format!("run `{sudo}{} {}`", tool.command, packages.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const APT: PackageTool = PackageTool {
        command: "apt-get install -y",
        postgres: "postgresql",
        redis: "redis-server",
        pgbench: "postgresql",
        redis_benchmark: "redis-tools",
        needs_root: true,
    };

    #[test]
    fn the_sentence_names_what_is_missing_and_the_command() {
        assert_eq!(
            missing_sentence(true, true, Some(&APT), true),
            "PostgreSQL and Redis are not installed: run `apt-get install -y postgresql redis-server`, \
             or set DATABASE_URL and REDIS_URL"
        );
        assert_eq!(
            missing_sentence(false, true, Some(&APT), false),
            "Redis is not installed: run `sudo apt-get install -y redis-server`, or set REDIS_URL"
        );
        assert!(
            missing_sentence(true, false, None, false).contains("this system's package manager")
        );
    }

    #[test]
    fn a_benchmark_that_is_missing_is_named_with_the_package_that_brings_it() {
        let sentence = |pgbench, redis| no_benchmarks_sentence(pgbench, redis, Some(&APT), true);
        assert_eq!(
            sentence(true, false),
            "pgbench is not installed, without which there is nothing to compare with: run \
             `apt-get install -y postgresql`"
        );
        assert!(sentence(false, true).ends_with("run `apt-get install -y redis-tools`"));
        assert!(sentence(true, true).starts_with("pgbench and redis-benchmark are not installed"));
    }
}
