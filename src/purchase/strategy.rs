//! The strategies: one flow, [`Purchases::buy`](super::Purchases::buy), with different settings.

use group_commit::Limits;
use strum::VariantNames;

/// Orders of one voucher that may wait for a transaction. The admission limit is usually lower.
const MAX_WAITING: usize = 16_384;

/// How to sell.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
#[strum(parse_err_ty = UnknownStrategy, parse_err_fn = UnknownStrategy::new)]
pub enum Strategy {
    /// The buyer's lock, and a transaction for each order.
    Locked,
    /// The buyer's lock; orders that wait go into one transaction. The default: as fast as `Locked`
    /// where a purchase comes alone, and several times as fast where many come.
    #[default]
    GroupCommit,
    /// `GroupCommit` without the lock: a second click at the same moment meets the database's constraint.
    GroupCommitUnlocked,
}

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {0:?}; there are: {names}", names = Strategy::VARIANTS.join(", "))]
pub struct UnknownStrategy(String);

impl UnknownStrategy {
    fn new(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl Strategy {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a purchase takes the buyer's lock.
    pub(super) const fn takes_lock(self) -> bool {
        !matches!(self, Self::GroupCommitUnlocked)
    }

    /// How many purchases of one buyer may be under way in a process. With the lock one could succeed at most.
    /// Without it the constraint decides between a few clicks; a flood must not take everybody's permits.
    pub(super) const fn purchases_of_a_buyer(self) -> usize {
        if self.takes_lock() { 1 } else { 8 }
    }

    /// How many orders of a voucher go into a transaction, and how many transactions are in flight.
    /// A second group commit would only wait for the row that the first one has locked. A second single
    /// order keeps the database busy while the answer to the first is on its way.
    pub(super) const fn writer_limits(self) -> Limits {
        let (batch, leaders) = match self {
            Self::Locked => (1, 2),
            Self::GroupCommit | Self::GroupCommitUnlocked => (256, 1),
        };
        Limits::batches_of(batch).waiting(MAX_WAITING).leaders(leaders)
    }
}
