//! How much of PostgreSQL's disk is free.

use super::Finding;

const GIB: f64 = 1_073_741_824.0;

/// The disk under `directory`, where PostgreSQL has its data on this machine; `None` where it cannot be looked at.
pub(super) fn look(directory: &str) -> Option<Finding> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    let unit = found.fragment_size() as u64;
    Some(free(found.blocks_available() as u64 * unit, found.blocks() as u64 * unit))
}

fn free(bytes: u64, of: u64) -> Finding {
    let about = "PostgreSQL disk";
    let words = format!("{:.1} GiB are free of {:.1}", bytes as f64 / GIB, of as f64 / GIB);
    if (bytes as f64) < GIB || bytes < of / 20 {
        let what = "nothing is sold on a full disk: make room, or a larger one";
        return Finding::danger(about, format!("{words}: {what}"));
    }
    Finding::fine(about, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_disk_with_less_than_a_gibibyte_or_a_twentieth_is_in_danger() {
        let gib = 1 << 30;
        assert_eq!(free(gib, 10 * gib).level, Level::Fine);
        assert_eq!(free(gib - 1, 10 * gib).level, Level::Danger);
        assert_eq!(free(5 * gib, 100 * gib).level, Level::Fine);
        assert_eq!(free(5 * gib - 1, 100 * gib).level, Level::Danger);
    }
}
