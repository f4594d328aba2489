//! A demo with a board: people watch it, and it ends when they say so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::SemaphorePermit;

use super::{AT_ONCE, Said, are_proper, ended_by, line, said_by};
use testkit::processes::{living_in, place, seckill};
use testkit::shop::api_client::Client;
use testkit::shop::web_driver::{Browser, DESKTOP};
use testkit::wait::eventually;

struct WatchedDemo {
    child: Child,
    said: Said,
    /// Address of the board, its token included.
    url: url::Url,
    temporary: PathBuf,
    place: tempfile::TempDir,
    _turn: SemaphorePermit<'static>,
}

impl WatchedDemo {
    /// Runs a demo until it says where its board is. An opener on its path writes down what it is
    /// asked to open.
    async fn start(arguments: &[&str]) -> Self {
        let turn = AT_ONCE.acquire().await.unwrap();
        let place = place();
        let bin = place.path().join("bin");
        fs::create_dir(&bin).unwrap();
        // Everything of a demo lies in such a directory if its user's is called so.
        let temporary = place.path().join("a blank, ü");
        fs::create_dir(&temporary).unwrap();
        let opener = bin.join("xdg-open");
        fs::write(&opener, "#!/bin/sh\necho \"$1\" >\"$0.opened\"\n").unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        #[allow(clippy::disallowed_methods)] // the demo finds its servers there
        let path = std::env::var("PATH").unwrap();
        let mut child = seckill(&["demo", "--stock", "50", "--users", "300", "--attempts", "2"])
            .args(arguments)
            .env("TMPDIR", &temporary)
            .env("PATH", format!("{}:{path}", bin.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = said_by(&mut child);
        let line = line(&mut said, "Board: ").await;
        let url = line.strip_prefix("Board: ").unwrap().parse().unwrap();
        Self { child, said, url, temporary, place, _turn: turn }
    }

    fn opened(&self) -> Option<String> {
        fs::read_to_string(self.place.path().join("bin/xdg-open.opened"))
            .ok()
            .filter(|it| it.ends_with('\n'))
    }

    async fn get(&self, path: &str) -> Value {
        let board = Client::at(self.url.socket_addrs(|| None).unwrap()[0]);
        board.call("GET", path, self.token()).await.is(200).body.clone()
    }

    fn token(&self) -> &str {
        self.url.fragment().unwrap().strip_prefix("token=").unwrap()
    }

    /// Waits until the demo says that only the board stays.
    async fn until_judged(&mut self) {
        line(&mut self.said, "The board stays").await;
    }

    /// Interrupts it, and returns what was said on standard output.
    async fn interrupted(mut self) -> String {
        let ended = ended_by(Signal::SIGINT, &mut self.child).await;
        assert!(ended.success(), "{ended}");
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
        assert_eq!(living_in(&self.temporary), [0; 0]);
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_of_a_demo_is_opened_shows_the_sale_and_stays_until_it_is_interrupted() {
    let mut demo = WatchedDemo::start(&["--open"]).await;
    assert_eq!(demo.url.host_str(), Some("127.0.0.1"));
    eventually("the board is opened", async || demo.opened().is_some()).await;
    // Everybody sees the arguments of a process: the token stands in a file that its owner alone may read.
    let opened = demo.opened().unwrap();
    let file: url::Url = opened.parse().unwrap();
    assert_eq!(file.as_str(), opened.trim_end(), "it is a URL as it stands");
    let page = file.to_file_path().unwrap();
    assert!(!opened.contains(demo.token()), "{opened}");
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);

    let browser = Browser::new("en", DESKTOP).await;
    browser.open(opened.trim_end()).await;
    browser.until_text("#figure-left", "of 50").await;
    // A demo's crowd is the demo's own.
    assert_eq!(browser.value("document.querySelector('#show-note')").await, Value::Null);
    demo.until_judged().await;
    browser.until_text("#sale-state", "sold out").await;
    browser.until_text("#figure-left", "0 of 50").await;
    browser.click("#audit").await;
    browser.until_text("#audit-verdict", "Every promise holds").await;
    browser.close_quietly().await;
    assert!(demo.interrupted().await.starts_with("HOLDS: 50 vouchers, 50 orders"));
    assert!(!fs::exists(page).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_of_a_demo_listens_where_it_is_told_and_opens_nothing_unasked() {
    // Of an address that is this test's alone no other test takes the port meanwhile.
    let free = std::net::TcpListener::bind("127.77.77.77:0").unwrap().local_addr().unwrap();
    let arguments = ["--listen", &free.to_string(), "--nodes", "1", "--json", "-"];
    let mut demo = WatchedDemo::start(&arguments).await;
    assert_eq!(demo.url.port(), Some(free.port()));
    // Somebody else cannot listen there now, and hears so before anything is started.
    let second = seckill(&["demo", "--listen", &free.to_string()]).output().await.unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.starts_with("seckill: cannot listen at") && said.lines().count() == 1, "{said}");
    demo.until_judged().await;
    assert_eq!(demo.opened(), None);
    let (_, voucher) = demo.url.query_pairs().find(|(name, _)| name == "voucher").unwrap();
    let voucher = demo.get(&format!("/api/vouchers/{voucher}")).await;
    assert_eq!((&voucher["stock"], &voucher["status"]), (&0.into(), &"sold_out".into()));
    let verdict: Value = serde_json::from_str(&demo.interrupted().await).unwrap();
    assert_eq!((&verdict["holds"], &verdict["orders"]), (&true.into(), &50.into()), "{verdict}");
    are_proper(&verdict);
}
