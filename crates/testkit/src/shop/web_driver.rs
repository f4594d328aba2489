//! A person at a real browser: chromedriver drives Chromium, headless. What a script of the page gets
//! wrong, and what the page's policy refuses, fails the test.

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use axum::http::Method;
use child_process::ChildProcess;
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::processes::descendants_of;
use crate::wait::{PATIENCE, eventually, must};

/// The size of a phone's page.
pub const PHONE: (u32, u32) = (390, 844);
/// The size of a page on a desk.
pub const DESKTOP: (u32, u32) = (1280, 900);

/// Keys, for [`Browser::press`].
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// See [`Browser::hold_timer`].
const HOLD_TIMER: &str = r#"
    window.heldTimers ??= {};
    for (const kind of ["Timeout", "Interval"]) {
        const [set, clear] = [window[`set${kind}`], window[`clear${kind}`]];
        window[`set${kind}`] = (run, ms, ...more) => {
            if (ms !== HELD_MS) return set(run, ms, ...more);
            window.heldTimers[ms] = () => {
                if (kind === "Timeout") delete window.heldTimers[ms];
                run(...more);
            };
            return -ms;
        };
        window[`clear${kind}`] = (id) => (id === -HELD_MS ? delete window.heldTimers[HELD_MS] : clear(id));
    }
"#;

/// A browser with one page.
pub struct Browser {
    client: Client,
    driver: ChildProcess,
    console: Mutex<Vec<String>>,
    _profile: TempDir,
}

/// A command beyond the standard's.
#[derive(Debug)]
struct ChromeCommand(&'static str, Value);

impl WebDriverCompatibleCommand for ChromeCommand {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.0))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.1.to_string()))
    }
}

/// How often chromedriver is started that ends before it says its port.
const STARTS: u32 = 5;

/// A chromedriver, and its port. Where very many connections are about, it may end at once: with `--port=0`
/// it needs one free port for both families of addresses.
async fn start_driver() -> (ChildProcess, String) {
    for _ in 0..STARTS {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = ChildProcess::start(command, Signal::SIGKILL)
            .expect("this test needs chromedriver on the PATH: run scripts/setup.sh browser");
        let port = |line: &str| {
            let (_, port) = line.split_once("started successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        };
        match driver.ready(PATIENCE, port).await {
            Ok(port) => return (driver, port),
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}"),
        }
    }
    panic!("chromedriver ended {STARTS} times");
}

impl Browser {
    /// A browser whose user prefers `language`, a tag such as `zh-CN`, with a page of this size.
    pub async fn new(language: &str, size: (u32, u32)) -> Self {
        let (driver, port) = start_driver().await;
        let profile = tempfile::tempdir().unwrap();
        let capabilities = json!({
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new",
                // As root, and in containers, there is no sandbox to have. The page is ours.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                // It ends with chromedriver, however that ends.
                "--remote-debugging-pipe",
                format!("--accept-lang={language}"),
                format!("--user-data-dir={}", profile.path().display()),
            ] },
        });
        let Value::Object(capabilities) = capabilities else { unreachable!("an object") };
        let connector = hyper_util::client::legacy::connect::HttpConnector::new();
        let client = must("the browser starts", async {
            let mut builder = ClientBuilder::new(connector);
            builder.capabilities(capabilities);
            builder.connect(&format!("http://127.0.0.1:{port}")).await.unwrap()
        });
        let browser =
            Self { client: client.await, driver, console: Mutex::default(), _profile: profile };
        browser.resize(size).await;
        browser
    }

    /// A command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.client.issue_cmd(ChromeCommand("goog/cdp/execute", body)).await.unwrap()
    }

    /// The page has this size from now on.
    pub async fn resize(&self, (width, height): (u32, u32)) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// The user prefers this colour scheme, `light` or `dark`, and no motion: in the middle of a
    /// transition a colour is neither.
    pub async fn prefers(&self, scheme: &str) {
        let media = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// On pages opened from now on a timer of so many milliseconds runs only by [`Browser::run_timer`].
    pub async fn hold_timer(&self, ms: u32) {
        let source = HOLD_TIMER.replace("HELD_MS", &ms.to_string());
        let script = json!({ "source": source });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", script).await;
    }

    /// Runs a timer that is held, once the page has started it.
    pub async fn run_timer(&self, ms: u32) {
        self.until(&format!("window.heldTimers[{ms}]")).await;
        self.value(&format!("window.heldTimers[{ms}]()")).await;
    }

    /// Opens the page behind `url`.
    pub async fn open(&self, url: &str) {
        must("the page is loaded", self.client.goto(url)).await.unwrap();
    }

    /// Loads the page again.
    pub async fn reload(&self) {
        must("the page is loaded again", self.client.refresh()).await.unwrap();
    }

    /// One page back in the history.
    pub async fn back(&self) {
        must("the browser goes back", self.client.back()).await.unwrap();
    }

    /// What a JavaScript expression is worth on the page.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        let value = self.client.execute(&script, Vec::new()).await;
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until a JavaScript expression is true on the page.
    pub async fn until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        let holds = async || {
            self.client.execute(&script, Vec::new()).await.is_ok_and(|holds| holds == json!(true))
        };
        eventually(expression, holds).await;
    }

    /// Waits until the element that `selector` finds reads `text`, among other things.
    pub async fn until_text(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        let reads = format!("document.querySelector({selector})?.innerText.includes({text})");
        self.until(&reads).await;
    }

    /// Waits until there is an element that can be seen.
    pub async fn until_shown(&self, selector: &str) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})?.checkVisibility()")).await;
    }

    /// What the element that `selector` finds reads.
    pub async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    /// Waits for the element that `selector` finds.
    pub async fn find(&self, selector: &str) -> Element {
        self.until(&format!("document.querySelector({})", json!(selector))).await;
        self.client.find(Locator::Css(selector)).await.unwrap()
    }

    /// Clicks the element that `selector` finds, once it can be seen and is not disabled.
    pub async fn click(&self, selector: &str) {
        let ready = format!(
            "(element => element?.checkVisibility() && !element.disabled)(document.querySelector({}))",
            json!(selector)
        );
        self.until(&ready).await;
        self.find(selector).await.click().await.unwrap();
    }

    /// Types into a field, in place of what it holds.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.until_shown(selector).await;
        let field = self.find(selector).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses keys, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        self.client.active_element().await.unwrap().send_keys(keys).await.unwrap();
    }

    /// The page as a PNG image.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// What the page has written to its console: errors of its scripts, refusals of its policy. A
    /// browser also notes each answer of the API that is a refusal; that is no fault of a page.
    pub async fn console(&self) -> Vec<String> {
        let log = ChromeCommand("se/log", json!({ "type": "browser" }));
        let log = self.client.issue_cmd(log).await.unwrap();
        let is_refusal = |entry: &Value| {
            let of_the_api = entry["message"].as_str().is_some_and(|it| it.contains("/api/"));
            entry["source"] == "network" && of_the_api
        };
        let entries = log.as_array().unwrap().iter().filter(|entry| !is_refusal(entry));
        let mut console = self.console.lock().unwrap();
        console.extend(
            entries.map(|entry| {
                format!("{} {}: {}", entry["level"], entry["source"], entry["message"])
            }),
        );
        console.clone()
    }

    /// The same after the network was cut, which a browser notes for whatever it was loading.
    pub async fn close_after_cuts(self) {
        let mut console = self.console().await;
        console.retain(|line| !line.contains("net::ERR_"));
        assert_eq!(console, [""; 0]);
        must("the browser closes", self.client.clone().close()).await.unwrap();
    }

    /// Closes the browser. Nothing may stand on the console but that a busy server was not ready.
    pub async fn close_quietly(self) {
        let mut console = self.console().await;
        console.retain(|line| !line.contains("/readyz"));
        assert_eq!(console, [""; 0]);
    }

    /// Closes the browser. Nothing may stand on the console.
    pub async fn close(self) {
        assert_eq!(self.console().await, [""; 0]);
        must("the browser closes", self.client.clone().close()).await.unwrap();
    }
}

impl Drop for Browser {
    /// A test that fails leaves no browser behind.
    fn drop(&mut self) {
        let Some(driver) = self.driver.id() else { return };
        for process in descendants_of(driver) {
            let process = nix::unistd::Pid::from_raw(process.cast_signed());
            let _ = nix::sys::signal::kill(process, Signal::SIGKILL);
        }
    }
}
