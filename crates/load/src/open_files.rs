//! The limit on open files. Every connection is an open file, and the usual soft limit of 1,024 is
//! smaller than a crowd.

use super::LoadError;

/// Open files that are not connections: standard streams, the reactor, libraries.
const RESERVED_FILES: u64 = 64;

/// Raises the limit on open files as far as the process may, and checks that `wanted` connections fit
/// below it.
pub(super) fn check_connections(wanted: usize) -> Result<(), LoadError> {
    let limit = rlimit::increase_nofile_limit(u64::MAX).map_err(LoadError::RaiseOpenFiles)?;
    check_limit(wanted, limit)
}

fn check_limit(wanted: usize, limit: u64) -> Result<(), LoadError> {
    let files = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_add(RESERVED_FILES);
    if files > limit { Err(LoadError::OpenFilesLimit { wanted, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_open_files_are_refused_with_both_figures() {
        assert!(check_limit(1_024 - 64, 1_024).is_ok());
        let refusal = check_limit(1_024 - 63, 1_024).err().map(|error| error.to_string());
        let refusal = refusal.unwrap_or_default();
        assert!(refusal.contains("961 connections"), "{refusal}");
        assert!(refusal.contains("only 1024 files"), "{refusal}");
    }
}
