//! The user the servers run as.
//!
//! An ordinary user runs them as himself. PostgreSQL refuses root, so root runs
//! them as `postgres`, or as `nobody` where that user does not exist; or as
//! whoever owns the data already, so that installing a package between two runs
//! (which adds the user `postgres`) does not lock root out of a kept home.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::{Gid, Uid, User, chown, getegid, geteuid};

use crate::StoresError;

/// A user and group, and whether we must change to it.
#[derive(Debug, Clone)]
pub(super) struct Account {
    uid: Uid,
    gid: Gid,
    dropped: bool,
}

impl Account {
    /// The user for servers whose data is, or will be, in `data` directories.
    pub(super) fn choose(data: &[PathBuf]) -> Result<Self, StoresError> {
        if !geteuid().is_root() {
            return Ok(Self { uid: geteuid(), gid: getegid(), dropped: false });
        }
        let owner =
            data.iter().filter_map(|path| fs::metadata(path).ok()).find(|meta| meta.uid() != 0);
        if let Some(meta) = owner {
            return Ok(Self { uid: meta.uid().into(), gid: meta.gid().into(), dropped: true });
        }
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Self { uid: user.uid, gid: user.gid, dropped: true })
            .ok_or_else(|| {
                StoresError::Server(
                    "PostgreSQL does not run as root, and there is neither a user `postgres` nor a user \
                     `nobody` to run it as: add one, or run seckill as an ordinary user"
                        .to_owned(),
                )
            })
    }

    /// Whether PostgreSQL can run as this user: it looks up the name of its own user, and a container that
    /// runs under a random id has none.
    pub(super) fn check_name(&self) -> Result<(), StoresError> {
        if matches!(User::from_uid(self.uid), Ok(Some(_))) {
            return Ok(());
        }
        Err(StoresError::Account(format!(
            "PostgreSQL does not run as user {}, who has no entry in /etc/passwd: name a PostgreSQL that runs \
             elsewhere (DATABASE_URL), or run seckill as a user who has one",
            self.uid
        )))
    }

    /// Makes `command` run as this user, with no supplementary groups.
    pub(super) fn apply(&self, command: &mut Command) {
        if self.dropped {
            command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
        }
    }

    /// Makes `path`, missing or not, a directory that this user alone may enter.
    pub(super) fn private_directory(&self, path: &Path) -> Result<(), StoresError> {
        fs::create_dir_all(path)
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o700)))
            .and_then(|()| match self.dropped {
                true => chown(path, Some(self.uid), Some(self.gid)).map_err(Into::into),
                false => Ok(()),
            })
            .map_err(|e| StoresError::at("make the directory", path, &e))
    }

    /// The mode of a directory of ours that this user must pass through.
    pub(super) fn passage_mode(&self) -> u32 {
        if self.dropped { 0o711 } else { 0o700 }
    }

    /// The first directory on the way to `path` that this user may not pass
    /// through. Reads mode bits only: an access list that says otherwise shows
    /// up later, as the server's own complaint.
    pub(super) fn first_closed_directory(&self, path: &Path) -> Option<PathBuf> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        way.into_iter().find(|step| self.is_closed(step)).map(Path::to_owned)
    }

    fn is_closed(&self, directory: &Path) -> bool {
        let Ok(meta) = fs::metadata(directory) else {
            return false;
        };
        if self.uid.is_root() {
            return false;
        }
        let bit = if meta.uid() == self.uid.as_raw() {
            0o100
        } else if meta.gid() == self.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        meta.mode() & bit == 0
    }

    /// How to call this user in a sentence.
    pub(super) fn name(&self) -> String {
        match User::from_uid(self.uid) {
            Ok(Some(user)) => format!("`{}`", user.name),
            _ => format!("with id {}", self.uid),
        }
    }
}
