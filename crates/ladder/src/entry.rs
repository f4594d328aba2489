//! An entry of the stream of orders: how Redis tells of it, and what it says.

use super::RungError;

/// The one group of consumers that reads it.
pub const GROUP: &str = "g1";

/// Fields and values by turns; none for an entry that was deleted meanwhile.
type Fields = Option<Vec<String>>;

/// What `XREADGROUP` says: entries by stream, or nothing at all.
pub(super) type Read = Option<Vec<(String, Vec<(String, Fields)>)>>;

/// What `XAUTOCLAIM` says: where to go on, entries, and those that were deleted meanwhile.
pub(super) type Claimed = (String, Vec<(String, Fields)>, Vec<String>);

/// What was sold and has to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuedOrder {
    pub(super) order: i64,
    pub(super) user: i64,
    pub(super) voucher: i64,
}

/// An entry of a stream.
#[derive(Debug, Clone)]
pub(super) struct OrderEntry {
    pub(super) id: String,
    pub(super) fields: Vec<String>,
}

impl OrderEntry {
    fn new((id, fields): (String, Fields)) -> Self {
        Self { id, fields: fields.unwrap_or_default() }
    }

    /// Those read from one stream.
    pub(super) fn all_read(read: Read) -> Vec<Self> {
        let entries = read.unwrap_or_default().into_iter().flat_map(|(_, entries)| entries);
        entries.map(Self::new).collect()
    }

    /// Those claimed.
    pub(super) fn all_claimed((_, entries, _): Claimed) -> Vec<Self> {
        entries.into_iter().map(Self::new).collect()
    }

    /// The first of those read.
    pub(super) fn first_read(read: Read) -> Option<Self> {
        Self::all_read(read).into_iter().next()
    }

    /// The first of those claimed.
    pub(super) fn first_claimed(claimed: Claimed) -> Option<Self> {
        Self::all_claimed(claimed).into_iter().next()
    }

    /// The value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut pairs = self.fields.chunks_exact(2);
        pairs.find(|pair| pair[0] == name).map(|pair| pair[1].as_str())
    }

    /// The value of a field, where it is a number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.field(name)?.parse().ok()
    }

    /// What it says.
    pub(super) fn order(&self) -> Result<QueuedOrder, RungError> {
        let read = || {
            let (order, user) = (self.number("order")?, self.number("user")?);
            Some(QueuedOrder { order, user, voucher: self.number("voucher")? })
        };
        read().ok_or(RungError::NoOrder)
    }
}
