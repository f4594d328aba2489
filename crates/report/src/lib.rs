//! How programs tell what they found: as a page that needs nothing else (`document`), as a `table`, on a terminal
//! and on a page; and on what they ran (`machine`).

mod document;
pub mod machine;
mod table;

pub use document::{Document, Scripts};
pub use table::{Table, escape};
