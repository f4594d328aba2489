//! What to install where something is missing, as this system's packages have it.

use super::programs::{on_search_path, output_of};

/// Which package brings what; `scripts/setup.sh` reads it, too.
const TABLE: &str = include_str!("../packages.txt");

/// A package manager.
pub(super) struct PackageTool {
    /// The name of its program, and in the table.
    name: &'static str,
    command: &'static str,
}

const TOOLS: [PackageTool; 6] = [
    PackageTool { name: "apt-get", command: "apt-get install -y" },
    PackageTool { name: "dnf", command: "dnf install -y" },
    PackageTool { name: "apk", command: "apk add" },
    PackageTool { name: "pacman", command: "pacman -S --noconfirm" },
    PackageTool { name: "zypper", command: "zypper install -y" },
    PackageTool { name: BREW, command: "brew install" },
];

/// It refuses root.
const BREW: &str = "brew";

pub(super) fn package_tool() -> Option<&'static PackageTool> {
    TOOLS.iter().find(|tool| on_search_path(tool.name).is_some())
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
    let install = install_command(&[("postgres", postgres), ("redis", redis)], tool, root);
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
    let install = install_command(&[("pgbench", pgbench), ("redis-benchmark", redis)], tool, root);
    format!("{what} not installed, without which there is nothing to compare with: {install}")
}

/// What to do about what is missing, as the part of a sentence.
pub(super) fn install_command(
    needs: &[(&str, bool)],
    tool: Option<&PackageTool>,
    root: bool,
) -> String {
    let Some(tool) = tool else {
        return "install with this system's package manager".to_owned();
    };
    let sudo = if root || tool.name == BREW { "" } else { "sudo " };
    let missing = needs.iter().filter(|(_, is_missing)| *is_missing);
    let packages = missing.flat_map(|(need, _)| packages(tool.name, need));
    let packages: Vec<&str> = packages.map(|package| first_known(tool.name, package)).collect();
    format!("run `{sudo}{} {}`", tool.command, packages.join(" "))
}

/// The packages that bring `need`: those of the first line of the table that fits.
fn packages(manager: &str, need: &str) -> impl Iterator<Item = &'static str> {
    let mut lines = TABLE.lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| {
        let for_manager = words.next().is_some_and(|name| name == manager || name == "*");
        (for_manager && words.next() == Some(need)).then_some(words)
    });
    line.into_iter().flatten()
}

/// Of `one|other` the first that the manager knows, the last of them without being asked for.
fn first_known(manager: &str, names: &'static str) -> &'static str {
    match names.split_once('|') {
        Some((first, others)) => match output_of(manager, &["-q", "info", first]) {
            Some(_) => first,
            None => first_known(manager, others),
        },
        None => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APT: Option<&PackageTool> = Some(&TOOLS[0]);

    #[test]
    fn the_sentence_names_what_is_missing_and_the_command() {
        assert_eq!(
            missing_sentence(true, true, APT, true),
            "PostgreSQL and Redis are not installed: run `apt-get install -y postgresql redis-server`, \
             or set DATABASE_URL and REDIS_URL"
        );
        assert_eq!(
            missing_sentence(false, true, APT, false),
            "Redis is not installed: run `sudo apt-get install -y redis-server`, or set REDIS_URL"
        );
        assert!(
            missing_sentence(true, false, None, false).contains("this system's package manager")
        );
    }

    #[test]
    fn a_benchmark_that_is_missing_is_named_with_the_package_that_brings_it() {
        let sentence = |pgbench, redis| no_benchmarks_sentence(pgbench, redis, APT, true);
        assert_eq!(
            sentence(true, false),
            "pgbench is not installed, without which there is nothing to compare with: run \
             `apt-get install -y postgresql`"
        );
        assert!(sentence(false, true).ends_with("run `apt-get install -y redis-tools`"));
        assert!(sentence(true, true).starts_with("pgbench and redis-benchmark are not installed"));
    }

    #[test]
    fn every_manager_has_a_package_for_every_server_and_its_benchmark() {
        for tool in &TOOLS {
            for need in ["postgres", "redis", "pgbench", "redis-benchmark"] {
                assert!(packages(tool.name, need).next().is_some(), "{}: {need}", tool.name);
            }
        }
        let of = |manager, need| packages(manager, need).collect::<Vec<_>>();
        assert_eq!(of("dnf", "redis"), ["redis|valkey-compat-redis"]);
        assert_eq!(of("pacman", "redis"), ["valkey"]);
        assert_eq!(of("apk", "postgres"), ["postgresql", "postgresql-contrib"]);
        // There is no dnf here that knows the first.
        assert_eq!(
            first_known("no-such-manager", "redis|valkey-compat-redis"),
            "valkey-compat-redis"
        );
        assert_eq!(first_known("true", "a|b"), "b", "it prints nothing");
        assert_eq!(first_known("echo", "a|b"), "a");
    }
}
