//! The browser of whoever sits at this machine.

use std::process::{Command, Stdio};

/// Hands `url` to the platform's opener; whether there is one.
#[must_use]
pub fn opens(url: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    // It may be the browser itself, and runs as long as that does.
    std::thread::spawn(move || child.wait());
    true
}
