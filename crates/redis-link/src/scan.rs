//! Going through the keys of all masters, a little at a time.

use super::cluster::Cluster;
use super::error::LinkError;
use super::handle::{Redis, Topology};

/// Keys that the server looks at in one step.
pub const SCAN_STEP: usize = 1_000;

/// How far a scan has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanCursor {
    /// Which master.
    master: usize,
    /// As the server counts.
    cursor: u64,
}

impl Redis {
    /// One step of a scan through the keys that match `pattern` (as in `KEYS`), of the type `kind` where
    /// one is named, from [`ScanCursor::default`] on: some keys, and where to go on; `None`: that was
    /// the end. Each step looks at about [`SCAN_STEP`] keys of one server; a cluster's masters come one
    /// after the other. A key may come twice. Keys that are not UTF-8 are left out.
    ///
    /// # Errors
    /// As [`Redis::query`].
    pub async fn scan(
        &self,
        pattern: &str,
        kind: Option<&str>,
        from: ScanCursor,
    ) -> Result<(Vec<String>, Option<ScanCursor>), LinkError> {
        let mut command = redis::cmd("SCAN");
        command.arg(from.cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_STEP);
        if let Some(kind) = kind {
            command.arg("TYPE").arg(kind);
        }
        let (cursor, keys): (u64, Vec<Vec<u8>>) = match self.topology() {
            Topology::One(_) | Topology::Foreign(_) => self.query(&command).await?,
            Topology::Many(cluster) => cluster.ask_master(from.master, &command).await?,
        };
        let next = match (cursor, self.topology()) {
            (0, Topology::One(_) | Topology::Foreign(_)) => None,
            (0, Topology::Many(cluster)) => {
                let master = from.master + 1;
                (master < cluster.masters().await?).then_some(ScanCursor { master, cursor: 0 })
            }
            (cursor, _) => Some(ScanCursor { cursor, ..from }),
        };
        Ok((keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect(), next))
    }
}

impl Cluster {
    /// Asks the master of this number, in the order of their addresses.
    async fn ask_master<T: redis::FromRedisValue>(
        &self,
        number: usize,
        command: &redis::Cmd,
    ) -> Result<T, LinkError> {
        let master = self.all_masters().await?.into_iter().nth(number);
        let gone = || LinkError::unavailable("the cluster has fewer masters than it had");
        master.ok_or_else(gone)?.node.ask(command, false, |_| ()).await
    }

    async fn masters(&self) -> Result<usize, LinkError> {
        Ok(self.all_masters().await?.len())
    }
}
