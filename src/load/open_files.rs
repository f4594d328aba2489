//! The limit on open files. Every connection is one, and the usual soft limit of
//! 1,024 is smaller than any crowd worth the name.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::LoadError;

/// Open files that are not connections: standard streams, the reactor, libraries.
const RESERVED_FILES: u64 = 64;

/// Raises the soft limit on open files (`RLIMIT_NOFILE`) of this process to its hard
/// limit, which needs no privilege, and returns the limit that now holds, in files.
///
/// Calling it again is harmless.
///
/// # Errors
///
/// [`LoadError::RaiseOpenFiles`] when the kernel refuses.
pub fn raise_open_files_limit() -> Result<u64, LoadError> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(LoadError::RaiseOpenFiles)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(LoadError::RaiseOpenFiles)?;
    }
    Ok(hard)
}

/// Whether `wanted` connections fit below `limit` open files.
pub(super) fn check_connections(wanted: usize, limit: u64) -> Result<(), LoadError> {
    let files = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_add(RESERVED_FILES);
    if files > limit { Err(LoadError::OpenFilesLimit { wanted, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_open_files_are_refused_with_both_figures() {
        assert!(check_connections(1_024 - 64, 1_024).is_ok());
        let refusal = check_connections(1_024 - 63, 1_024).err().map(|error| error.to_string());
        let refusal = refusal.unwrap_or_default();
        assert!(refusal.contains("961 connections"), "{refusal}");
        assert!(refusal.contains("only 1024 files"), "{refusal}");
    }
}
