//! The verdict on a sale, as the API says it.

pub use crate::purchase::audit::VoucherAudit as AuditBody;
