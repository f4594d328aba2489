//! Which revision of the source the running program was built from, as far as the place where it lies
//! tells.

use std::path::Path;
use std::process::Command;

/// The revision of our own work tree, where the program lies in it, with a `+` when the tree has
/// changes. A program that was installed may lie in somebody else's tree: that one is not told.
#[must_use]
pub fn revision() -> Option<String> {
    let own = std::env::current_exe().ok()?;
    let directory = own.parent()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(directory).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let manifest = std::fs::read_to_string(Path::new(&root).join("Cargo.toml")).ok()?;
    if !manifest.contains("name = \"seckill\"") {
        return None;
    }
    let changed = !git(&["status", "--porcelain"])?.is_empty();
    Some(git(&["rev-parse", "--short", "HEAD"])? + if changed { "+" } else { "" })
}
