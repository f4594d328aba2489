//! The pages of the course, and what is generated in them: regions between `<!-- generated: WHAT -->` and
//! `<!-- end -->`, and the timelines. The tests compare; `make course` writes.

pub mod diagram;
pub mod page;
pub mod regions;
mod shown;
pub mod steady;
pub mod tables;
pub mod timeline;
