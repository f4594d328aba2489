//! What tests of several crates share.
