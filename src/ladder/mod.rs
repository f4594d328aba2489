//! The ladder: every design somebody really ships, one file each, from "read the stock, write
//! it back" to a group commit. `docs/ladder.md` walks it.
