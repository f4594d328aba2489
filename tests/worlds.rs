//! What several files of these tests do in a world, as traits.

pub use crate::group_commit::GroupCommitWorld;
pub use crate::group_commit_faults::GroupCommitFaultsWorld;
pub use crate::group_commit_faults::GroupCommitFaultsWorld2;
pub use crate::place_orders::PlaceOrdersWorld;
pub use crate::purchase::PurchaseWorld;
