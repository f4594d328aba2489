//! Pure types of the domain, as JSON, too: no I/O, no runtime, no framework.

pub mod clock;
mod currency;
pub mod draw;
pub mod ids;
pub mod limiter;
pub mod line;
pub mod order;
pub mod order_csv;
pub mod outcome;
pub mod refusal;
pub mod schemas;
pub mod user;
pub mod voucher;
pub mod voucher_terms;
pub mod whole_number;

pub use clock::{Clock, ManualClock, SharedClock, SystemClock};
pub use currency::Currency;
pub use draw::{
    BEACON, Beacon, Draw, DrawService, EndedEntry, PUBLIC_NUMBER, RemovedEntry, is_public_number,
};
pub use ids::{InvalidId, OrderId, UnmatchedId, UserId, VoucherId};
pub use limiter::{BucketRate, Full, Limit, Limiter, Permit, Share, Shares, TokenBuckets};
pub use line::{Entry, EntryStatus, HeldFor, Line};
pub use order::{Due, Order, OrderOfBuyer, OrderStatus};
pub use outcome::Outcome;
pub use refusal::{Code, Member, Refusal};
pub use user::{User, is_international, normalized_phone};
pub use voucher::{SaleStatus, Voucher};
