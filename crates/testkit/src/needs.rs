//! What a test needs, and not every machine has.

use std::fmt::Display;
use std::io::Write;
use std::thread;

use faults::{FaultError, MariaDbNode, ZooKeeperNode};
use nix::unistd::geteuid;

/// Where this is set, a test that is left out fails, unless [`MAY`] names what it lacks.
const CI: &str = "CI";

/// The things that a machine may lack although [`CI`] is set, with commas between.
const MAY: &str = "LEFT_OUT_MAY";

/// What was `found` of a thing that the test needs. `None`: the machine lacks it, and the test, which has to return,
/// is left out. That is said on the real standard error, in a line that begins with "left out: ".
///
/// # Panics
/// In CI, where nothing may be left out unasked.
pub fn needs<T>(thing: &str, found: Result<T, impl Display>) -> Option<T> {
    let why = match found {
        Ok(found) => return Some(found),
        Err(why) => why,
    };
    // Tests are run by threads of their names.
    let test = thread::current().name().unwrap_or("a test").to_owned();
    assert!(may_lack(thing), "CI may leave nothing out, and this machine lacks {thing}: {why}");
    // In one piece, and not by a macro: what those write is shown only of a test that fails.
    let line = format!("left out: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

#[allow(clippy::disallowed_methods)] // whoever runs the tests decides
fn may_lack(thing: &str) -> bool {
    let is_ci = std::env::var_os(CI).is_some_and(|value| !value.is_empty());
    let may = std::env::var(MAY).unwrap_or_default();
    !is_ci || may.split(',').any(|named| named.trim().eq_ignore_ascii_case(thing))
}

/// Whether the tests are run by root, who alone can run a program as another user.
pub fn needs_root() -> bool {
    let root = geteuid().is_root().then_some(());
    needs("root", root.ok_or("only root can run a program as another user")).is_some()
}

/// Whether the machine has the loopback address of IPv6.
pub fn needs_ipv6() -> bool {
    needs(
        "IPv6",
        std::net::TcpListener::bind("[::1]:0").map_err(|error| format!("no [::1]: {error}")),
    )
    .is_some()
}

/// A MariaDB of the test's own.
pub async fn needs_mariadb() -> Option<MariaDbNode> {
    needs_node("MariaDB", MariaDbNode::start().await)
}

/// A ZooKeeper of the test's own.
pub async fn needs_zookeeper() -> Option<ZooKeeperNode> {
    needs_node("ZooKeeper", ZooKeeperNode::start().await)
}

/// One that is there and does not start fails the test.
fn needs_node<T>(thing: &str, started: Result<T, FaultError>) -> Option<T> {
    match started {
        Err(error) if error.is_missing() => needs(thing, Err(error)),
        node => Some(node.unwrap()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    #[test]
    #[ignore = "a test that another test leaves out"]
    fn be_left_out() {
        assert_eq!(needs::<()>("Atlantis", Err("Atlantis is not installed")), None);
    }

    /// The test above, run without `--nocapture`, with these variables alone.
    fn left_out(variables: &[(&str, &str)]) -> Output {
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests.args(["--exact", "needs::tests::be_left_out", "--ignored"]);
        tests.env_remove(CI).env_remove(MAY).envs(variables.iter().copied());
        tests.output().unwrap()
    }

    #[test]
    fn a_test_that_is_left_out_passes_and_says_so_on_the_real_standard_error() {
        let line = "left out: needs::tests::be_left_out: Atlantis is not installed\n";
        for variables in [&[][..], &[(CI, "")], &[(CI, "true"), (MAY, "Citus, atlantis")]] {
            let ran = left_out(variables);
            let said = String::from_utf8(ran.stderr).unwrap();
            assert!(ran.status.success() && said == line, "{variables:?}: {said}");
        }
    }

    #[test]
    fn in_ci_a_test_that_is_left_out_fails_unless_it_may_be() {
        for variables in [&[(CI, "true")][..], &[(CI, "1"), (MAY, "Citus")]] {
            let ran = left_out(variables);
            let said = String::from_utf8(ran.stdout).unwrap();
            let sentence = "CI may leave nothing out, and this machine lacks Atlantis: Atlantis is not installed";
            assert!(!ran.status.success() && said.contains(sentence), "{variables:?}: {said}");
        }
    }
}
