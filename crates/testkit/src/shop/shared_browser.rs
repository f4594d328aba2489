//! The one browser of a test process. It ends with the process, however that ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use child_process::{end_with_us, spawn};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::wait::{PATIENCE, must};

/// Chromium ends when its pipe does, and its profile goes with it. The shell outlives a SIGTERM to the group.
const RUN: &str = r#"
    trap : TERM
    chromium=$1 profile=$2; shift 2
    "$chromium" --user-data-dir="$profile" "$@" 3<&0 4>&1 </dev/null >/dev/null
    rm -rf "$profile"
"#;

/// A name for this machine that is no loopback name. No page reaches anybody else.
pub const NAMED: &str = "seckill.test";
const NAMES: &str =
    "MAP seckill.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost";

/// A file has no end to wait for.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// How often chromedriver is started that ends before it says its port.
const STARTS: u32 = 5;

/// Statics are never dropped: Chromium ends with its pipe, and chromedriver by the kernel.
static BROWSER: LazyLock<SharedBrowser> = LazyLock::new(SharedBrowser::start);

/// Chromium, and a chromedriver whose sessions attach to it.
pub(super) struct SharedBrowser {
    /// Where chromedriver listens.
    pub(super) driver: String,
    /// Where Chromium listens for chromedriver.
    pub(super) debugger: String,
    input: Mutex<(ChildStdin, u64)>,
    heard: Arc<Mutex<Heard>>,
    _driver: (Child, BufReader<ChildStdout>),
    _chromium: Child,
}

/// What has come through the pipe.
#[derive(Default)]
struct Heard {
    answers: HashMap<u64, oneshot::Sender<Value>>,
    /// By session of the DevTools protocol.
    events: HashMap<String, Vec<Value>>,
}

impl SharedBrowser {
    pub(super) async fn get() -> &'static Self {
        tokio::task::spawn_blocking(|| &*BROWSER).await.unwrap()
    }

    fn start() -> Self {
        let (process, driver, output) = start_driver();
        let profile = tempfile::tempdir().unwrap().keep();
        let mut command = Command::new("sh");
        command.args(["-c", RUN, "sh", chromium()]).arg(&profile).args([
            "--headless=new",
            // As root, and in containers, there is no sandbox to have. The pages are ours.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            &format!("--host-resolver-rules={NAMES}"),
            // Each page is somebody's, who looks at it.
            "--disable-backgrounding-occluded-windows",
            "--disable-renderer-backgrounding",
            "--disable-background-timer-throttling",
            "--remote-debugging-pipe",
            "--remote-debugging-port=0",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0);
        let mut chromium = spawn(&mut command).unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (output_of_pipe, into) = (chromium.stdout.take().unwrap(), Arc::clone(&heard));
        thread::spawn(move || hear(output_of_pipe, &into));
        let input = Mutex::new((chromium.stdin.take().unwrap(), 0));
        let debugger = format!("127.0.0.1:{}", port_of(&profile));
        Self { driver, debugger, input, heard, _driver: (process, output), _chromium: chromium }
    }

    /// Sends a command of the DevTools protocol, to the browser or to a session of one of its pages.
    pub(super) fn send(&self, session: Option<&str>, method: &str, params: &Value) -> Answer {
        let (answer, coming) = oneshot::channel();
        let mut input = self.input.lock().unwrap();
        input.1 += 1;
        let mut command = json!({ "id": input.1, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        self.heard.lock().unwrap().answers.insert(input.1, answer);
        input.0.write_all(format!("{command}\0").as_bytes()).expect("the browser lives");
        coming
    }

    /// The same, and waits for what it answers.
    pub(super) async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let answer = must(method, self.send(session, method, &params)).await;
        let mut answer = answer.expect("the browser lives");
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].take()
    }

    /// What has happened in this session since it was asked last.
    pub(super) fn events(&self, session: &str) -> Vec<Value> {
        self.heard.lock().unwrap().events.remove(session).unwrap_or_default()
    }
}

/// What Chromium is called here.
fn chromium() -> &'static str {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs).expect(
        "this test needs Chromium on the PATH (chromium, chromium-browser or google-chrome): \
         run scripts/setup.sh browser",
    )
}

/// What the browser will answer.
pub(super) type Answer = oneshot::Receiver<Value>;

/// Reads the pipe to its end.
fn hear(pipe: ChildStdout, into: &Mutex<Heard>) {
    for message in BufReader::new(pipe).split(0) {
        let Ok(mut message) = message.map(|it| serde_json::from_slice::<Value>(&it).unwrap())
        else {
            break;
        };
        let mut heard = into.lock().unwrap();
        if let Some(answer) = message["id"].as_u64().and_then(|id| heard.answers.remove(&id)) {
            // A test that has ended waits for nothing.
            let _ = answer.send(message);
        } else if let Some(session) = message["sessionId"].as_str().map(str::to_owned) {
            heard.events.entry(session).or_default().push(message.take());
        }
    }
    // Who still waits learns that the browser is gone.
    into.lock().unwrap().answers.clear();
}

/// The port that Chromium writes into its profile when it listens.
fn port_of(profile: &Path) -> u16 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let file = std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
        if let Some(Ok(port)) = file.lines().next().map(str::parse) {
            return port;
        }
        thread::sleep(ASK_EVERY);
    }
    panic!("Chromium does not listen");
}

/// A chromedriver, its address, and its output. Where very many connections are about, it may end at once: with
/// `--port=0` it needs one free port for both families of addresses.
fn start_driver() -> (Child, String, BufReader<ChildStdout>) {
    for _ in 0..STARTS {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0);
        end_with_us(&mut command, Signal::SIGKILL);
        let mut driver = spawn(&mut command)
            .expect("this test needs chromedriver on the PATH: run scripts/setup.sh browser");
        let mut output = BufReader::new(driver.stdout.take().unwrap());
        let mut line = String::new();
        while output.read_line(&mut line).unwrap() > 0 {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                let port = port.trim_end().trim_end_matches('.');
                return (driver, format!("http://127.0.0.1:{port}"), output);
            }
            line.clear();
        }
        driver.wait().unwrap();
    }
    panic!("chromedriver ended {STARTS} times");
}
