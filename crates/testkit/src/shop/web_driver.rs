//! A person at a real browser: chromedriver drives Chromium, headless. What a script of the page gets
//! wrong, and what the page's policy refuses, fails the test.
//!
//! One Chromium is kept for a test process. Each person has a browser context of their own in it, as in a
//! private window: no cookie, no storage and no cache of another's.

use std::path::Path;
use std::sync::Mutex;

use axum::http::Method;
use fantoccini::elements::Element;
use fantoccini::error::{CmdError, ErrorStatus, WebDriver};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use serde_json::{Value, json};

use super::page_scripts::{FORGET_WHAT_IS_NEW, HOLD_TIMER, can_be_clicked, found, seen};
pub use super::shared_browser::NAMED;
use super::shared_browser::SharedBrowser;
use crate::wait::{comes_true, must};

/// The size of a phone's page.
pub const PHONE: (u32, u32) = (390, 844);
/// The size of a page on a desk.
pub const DESKTOP: (u32, u32) = (1280, 900);

/// Keys, for [`Browser::press`].
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// A person's browser, with one page. What was theirs is closed when this is dropped.
pub struct Browser {
    shared: &'static SharedBrowser,
    client: Client,
    /// The person's browser context.
    context: String,
    /// The session of the DevTools protocol in which the page tells what it writes to its console.
    session: String,
    console: Mutex<Vec<String>>,
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

impl Browser {
    /// A browser whose user prefers `language`, a tag such as `zh-CN`, with a page of this size.
    pub async fn new(language: &str, size: (u32, u32)) -> Self {
        let shared = SharedBrowser::get().await;
        let text = |value: Value| value.as_str().unwrap().to_owned();
        let context = shared.ask(None, "Target.createBrowserContext", json!({})).await;
        let context = text(context["browserContextId"].clone());
        let page = json!({ "url": "about:blank", "browserContextId": context, "newWindow": true });
        let page = shared.ask(None, "Target.createTarget", page).await;
        let page = text(page["targetId"].clone());
        let attach = json!({ "targetId": page, "flatten": true });
        let session = shared.ask(None, "Target.attachToTarget", attach).await;
        let session = text(session["sessionId"].clone());
        let version = shared.ask(None, "Browser.getVersion", json!({})).await;
        let agent = json!({ "userAgent": version["userAgent"], "acceptLanguage": language });
        for (method, parameters) in [
            ("Emulation.setUserAgentOverride", agent),
            // The person looks at this page, whatever others look at theirs.
            ("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })),
            ("Log.enable", json!({})),
            ("Runtime.enable", json!({})),
        ] {
            shared.ask(Some(&session), method, parameters).await;
        }
        let client = connect(shared, &page).await;
        let browser = Self { shared, client, context, session, console: Mutex::default() };
        browser.resize(size).await;
        browser
    }

    /// A command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.client.issue_cmd(ChromeCommand("goog/cdp/execute", body)).await.unwrap()
    }

    /// What the user saves goes into this directory.
    pub async fn save_to(&self, directory: &Path) {
        let saving = json!({
            "behavior": "allow", "downloadPath": directory, "browserContextId": self.context,
        });
        self.shared.ask(None, "Browser.setDownloadBehavior", saving).await;
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

    /// On pages opened from now on this script runs before any of theirs.
    pub async fn run_first(&self, script: &str) {
        let script = json!({ "source": script });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", script).await;
    }

    /// On pages opened from now on a timer of so many milliseconds does not run.
    pub async fn hold_timer(&self, ms: u32) {
        self.run_first(&HOLD_TIMER.replace("HELD_MS", &ms.to_string())).await;
    }

    /// On pages opened from now on the browser is as old as the oldest one that is supported, as far as its functions go
    /// that scripts like to call.
    pub async fn forget_what_is_new(&self) {
        self.run_first(FORGET_WHAT_IS_NEW).await;
    }

    /// From now on this script runs before the page fetches `path` with `options`. What it returns is the answer, and what
    /// it throws is why there is none; otherwise `fetch` is what the browser has.
    pub async fn on_fetch(&self, script: &str) {
        let patched = format!(
            "(window.fetch = (fetch => async (path, options) => {{
                {script}
                return fetch(path, options);
            }})(window.fetch), true)"
        );
        self.value(&patched).await;
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
        self.must_come(expression, async || self.holds(expression).await).await;
    }

    async fn holds(&self, expression: &str) -> bool {
        let script = format!("return Boolean({expression})");
        self.client.execute(&script, Vec::new()).await.is_ok_and(|holds| holds == json!(true))
    }

    /// Asks again and again. A test that waits in vain says what the page shows.
    async fn must_come(&self, what: &str, has_come: impl AsyncFnMut() -> bool) {
        if !comes_true(has_come).await {
            let page = self.value("`${location}:\\n${document.body.innerText}`").await;
            let answers = self.shared.events(&self.session);
            let refused: Vec<_> = answers.iter().filter_map(refusal).collect();
            panic!("waited in vain until {what}; refused: {refused:?}; the page: {page:#}");
        }
    }

    /// Waits until the element that `selector` finds reads `text`, among other things.
    pub async fn until_text(&self, selector: &str, text: &str) {
        self.until(&format!("{}?.innerText.includes({})", found(selector), json!(text))).await;
    }

    /// Waits until there is an element that can be seen.
    pub async fn until_shown(&self, selector: &str) {
        self.until(&seen(selector)).await;
    }

    /// Whether the element that `selector` finds, and waits for, can be seen.
    pub async fn shows(&self, selector: &str) -> bool {
        self.find(selector).await;
        self.value(&format!("Boolean({})", seen(selector))).await == json!(true)
    }

    /// How many elements `selector` finds.
    pub async fn count(&self, selector: &str) -> u64 {
        let count = format!("document.querySelectorAll({}).length", json!(selector));
        self.value(&count).await.as_u64().unwrap()
    }

    /// What the element that `selector` finds reads.
    pub async fn text(&self, selector: &str) -> String {
        self.find(selector).await.text().await.unwrap()
    }

    /// Waits for the element that `selector` finds.
    pub async fn find(&self, selector: &str) -> Element {
        self.until(&found(selector)).await;
        self.client.find(Locator::Css(selector)).await.unwrap()
    }

    /// Clicks the element that `selector` finds, once it can be seen, is not disabled and stays where it is. What moves from
    /// under the pointer, or is replaced, is clicked where it is then.
    pub async fn click(&self, selector: &str) {
        let ready = can_be_clicked(selector);
        let click = async || self.client.find(Locator::Css(selector)).await?.click().await;
        let clicked = async || self.holds(&ready).await && is_done(selector, click().await);
        self.must_come(&format!("{selector} is clicked"), clicked).await;
    }

    /// Presses a button twice, before anything can come of the first press.
    pub async fn press_twice(&self, selector: &str) {
        let press = "(button => (button.click(), button.click(), true))";
        self.value(&format!("{press}({})", found(selector))).await;
    }

    /// Puts `value` into a field, and no key is pressed: a browser writes times in the order of its own language.
    pub async fn set(&self, selector: &str, value: &str) {
        self.value(&format!("{}.value = {}", found(selector), json!(value))).await;
    }

    /// Chooses from a list.
    pub async fn choose(&self, selector: &str, value: &str) {
        self.find(&format!("{selector} [value='{value}']")).await;
        self.set(selector, value).await;
        let change = "dispatchEvent(new Event('change'))";
        self.value(&format!("{}.{change}", found(selector))).await;
    }

    /// Types into a field, in place of what it holds.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.until_shown(selector).await;
        let field = self.find(selector).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses keys, wherever the focus is. Where it is on a button that was just disabled, it is about to leave it.
    pub async fn press(&self, keys: &str) {
        let press = async || self.client.active_element().await?.send_keys(keys).await;
        self.must_come("keys are pressed", async || is_done(keys, press().await)).await;
    }

    /// The page as a PNG image.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// What the page has written to its console: errors of its scripts, refusals of its policy. A
    /// browser also notes each answer of the API that is a refusal; that is no fault of a page.
    pub async fn console(&self) -> Vec<String> {
        // What the page wrote before comes before the answer.
        self.shared
            .ask(Some(&self.session), "Runtime.evaluate", json!({ "expression": "0" }))
            .await;
        let mut console = self.console.lock().unwrap();
        console.extend(self.shared.events(&self.session).iter().filter_map(line_of_console));
        console.clone()
    }

    /// Closes the browser after the network was cut, which a browser notes for whatever it was loading.
    pub async fn close_after_cuts(self) {
        self.close_but_for("net::ERR_").await;
    }

    /// Closes the browser. Nothing may stand on the console but that a busy server was not ready.
    pub async fn close_quietly(self) {
        self.close_but_for("/readyz").await;
    }

    /// Closes the browser. Nothing may stand on the console.
    pub async fn close(self) {
        assert_eq!(self.console().await, [""; 0]);
        must("the browser closes", self.client.clone().close()).await.unwrap();
    }

    async fn close_but_for(self, expected: &str) {
        self.console().await;
        self.console.lock().unwrap().retain(|line| !line.contains(expected));
        self.close().await;
    }
}

impl Drop for Browser {
    /// Also of a test that fails.
    fn drop(&mut self) {
        let context = json!({ "browserContextId": self.context });
        drop(self.shared.send(None, "Target.disposeBrowserContext", &context));
    }
}

/// Whether the browser did it. It does nothing where the element is covered, gone, or not there yet.
fn is_done(what: &str, done: Result<(), CmdError>) -> bool {
    use ErrorStatus::{
        ElementClickIntercepted, ElementNotInteractable, NoSuchElement, StaleElementReference,
    };
    match done {
        Ok(()) => true,
        Err(CmdError::Standard(WebDriver {
            error:
                ElementClickIntercepted | ElementNotInteractable | NoSuchElement | StaleElementReference,
            ..
        })) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A session of chromedriver at this page.
async fn connect(shared: &SharedBrowser, page: &str) -> Client {
    let capabilities = json!({ "goog:chromeOptions": { "debuggerAddress": shared.debugger } });
    let Value::Object(capabilities) = capabilities else { unreachable!("an object") };
    let connector = hyper_util::client::legacy::connect::HttpConnector::new();
    must("chromedriver is at the page", async {
        let mut builder = ClientBuilder::new(connector);
        builder.capabilities(capabilities);
        let client = builder.connect(&shared.driver).await.unwrap();
        client.switch_to_window(page.to_owned().try_into().unwrap()).await.unwrap();
        client
    })
    .await
}

/// The request that an event of a page says was refused.
fn refusal(event: &Value) -> Option<String> {
    let entry = &event["params"]["entry"];
    (entry["source"] == "network").then(|| format!("{} {}", entry["url"], entry["text"]))
}

/// What an event of a page adds to its console; `None` for what is no fault.
fn line_of_console(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Log.entryAdded" => {
            let entry = &parameters["entry"];
            let (url, text) = (entry["url"].as_str().unwrap_or_default(), &entry["text"]);
            let is_refusal = entry["source"] == "network" && url.contains("/api/");
            (!is_refusal).then(|| format!("{} {}: {url} {text}", entry["level"], entry["source"]))
        }
        "Runtime.consoleAPICalled" => {
            Some(format!("{} console: {}", parameters["type"], parameters["args"]))
        }
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        _ => None,
    }
}
