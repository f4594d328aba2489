//! The lab: shows, on real servers, which promises each rung of the ladder keeps and where it
//! breaks.

pub mod faults;
