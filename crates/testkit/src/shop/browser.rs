//! A real browser, which shows a page as it stands when its scripts have done their work.

use std::process::{Command, Stdio};

use crate::program::finished;

/// What Chromium is called here.
pub(super) fn chromium() -> &'static str {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs).expect(
        "this test needs Chromium on the PATH (chromium, chromium-browser or google-chrome): \
         run scripts/setup.sh browser",
    )
}

/// A page as it stands when its scripts have done their work.
pub struct Page {
    /// The document, as HTML.
    pub dom: String,
    /// What the browser wrote to the page's console, errors and refusals above all.
    pub console: Vec<String>,
}

/// The document behind `url`, as HTML.
pub async fn rendered(url: &str, options: &[&str]) -> String {
    opened(url, options).await.dom
}

/// The page behind `url`.
pub async fn opened(url: &str, options: &[&str]) -> Page {
    let profile = tempfile::tempdir().unwrap();
    let mut browser = Command::new(chromium());
    browser
        // No sandbox: as root, and in containers, it has none to offer. The page is ours.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .args([
            "--disable-sync",
            "--disable-quic",
            "--disable-default-apps",
            "--disable-extensions",
        ])
        .args(["--virtual-time-budget=30000", "--dump-dom", "--enable-logging=stderr", "--v=0"])
        .args(options)
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(url)
        .stdin(Stdio::null());
    let output = finished(browser.into()).await;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let console = errors.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned);
    Page { console: console.collect(), dom: String::from_utf8(output.stdout).unwrap() }
}
