//! Servers to kill, pause and cut off.
