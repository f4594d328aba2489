//! What several files of these tests do in a world, as traits.

pub use crate::purchase::group_commit_faults::GroupCommitFaultsWorld;
pub use crate::purchase::group_commit_faults::GroupCommitFaultsWorld2;
pub use crate::purchase::place_orders::PlaceOrdersWorld;
pub use crate::purchase::strategies::PurchaseWorld;
