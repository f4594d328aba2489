//! The names of a lock's keys and channels beside its own, as Redisson makes them.

use super::owner::Owner;

/// Redisson's channel of a plain lock, or that of a waiter for a fair lock.
pub(super) fn channel(name: &str, waiter: Option<&Owner>) -> String {
    in_slot("redisson_lock__channel:", name, waiter)
}

/// A key (or channel) that belongs to a lock, in the lock's cluster slot, as Redisson makes
/// it: the braces keep it there, unless the name has some of its own.
pub(super) fn in_slot(prefix: &str, name: &str, owner: Option<&Owner>) -> String {
    let (open, close) = if name.contains('{') { ("", "") } else { ("{", "}") };
    match owner {
        Some(owner) => format!("{prefix}{open}{name}{close}:{}", owner.field()),
        None => format!("{prefix}{open}{name}{close}"),
    }
}
