//! The board in a real browser, on a server with private stores of its own as `make serve` starts it.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::stage::stage;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::wait::eventually;

/// A browser with the board open and the administrator of the demonstration logged in.
async fn opened(server: &PrivateServer, language: &str, size: (u32, u32)) -> (Browser, String) {
    let token = server.admin().await;
    let browser = Browser::new(language, size).await;
    browser.open(&format!("http://{}/board#token={token}", server.node.address)).await;
    browser.until_shown("#board").await;
    (browser, token)
}

/// How many pixels of a plot are nearly in the colour of its line.
fn drawn(plot: &str, colour: &str) -> String {
    format!(
        "(canvas => {{
            const {{ width, height }} = canvas;
            // A copy: to read from the plot's own canvas makes the browser warn.
            const context = new OffscreenCanvas(width, height).getContext('2d', {{ willReadFrequently: true }});
            context.drawImage(canvas, 0, 0);
            context.fillStyle = getComputedStyle(document.documentElement)
                .getPropertyValue('{colour}').trim();
            const hex = context.fillStyle;
            const wanted = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
            const {{ data }} = context.getImageData(0, 0, width, height);
            const is = at => data[at + 3] > 150
                && wanted.every((value, part) => Math.abs(data[at + part] - value) < 60);
            return [...Array(width * height).keys()].filter(pixel => is(pixel * 4)).length;
        }})(document.querySelector('#{plot} canvas'))"
    )
}

/// The voucher that a show has just put on sale.
pub async fn sale_of_show(server: &PrivateServer) -> String {
    let mut sale = None;
    eventually("the show has a sale", async || {
        let shown = stage(server).await;
        sale = shown["halves"][0]["voucher_id"].as_str().map(str::to_owned);
        sale.is_some()
    })
    .await;
    sale.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_and_the_plot_follow_a_rush_and_the_verdict_is_shown() {
    let arguments = ["--listen", "127.0.0.1:0", "--stage-users", "1000"];
    let server = PrivateServer::start_with(&arguments, &[]).await;
    let (browser, token) = opened(&server, "en", DESKTOP).await;
    // The token has left the address, and no server has seen it.
    assert_eq!(browser.value("location.hash").await, "");
    let voucher = server.voucher(&token, 300, 0).await;
    browser.until(&format!("document.querySelector('#voucher').value === '{voucher}'")).await;
    browser.until_text("#figure-left", "300 of 300").await;
    browser.until_text("#outcomes", "No attempt yet").await;

    // The rush of a show, whose sale is watched before it begins.
    server.api.post("/api/stage/shows", &json!({ "crowd": "rush" })).await.is(202);
    let sale =
        format!("http://{}/board?voucher={}", server.node.address, sale_of_show(&server).await);
    browser.open(&sale).await;
    // That it is seen to move: a rush is over in a moment.
    browser
        .value(
            "(place => (new MutationObserver(() => {
                window.hasSold ||= /[1-9]/.test(place.textContent);
            }).observe(place, { childList: true }), true))(document.querySelector('#figure-orders'))",
        )
        .await;
    browser.until_text("#figure-left", "0 of 100").await;
    browser.until_text("#sale-state", "sold out").await;
    browser.until_text("#outcomes [data-code=ordered]", "100").await;
    browser.until("window.hasSold").await;
    browser.until(&format!("{} > 5", drawn("plot-orders", "--good"))).await;

    // It was audited when it was seen to sell out; and is when somebody asks for it.
    browser.until_text("#figure-verdict", "every promise holds").await;
    browser.click("#audit").await;
    browser.until_text("#audit-verdict", "Every promise holds").await;
    browser.until_text("#audit-state", "100 orders of 100 users, 0 left of 100").await;
    assert_eq!(browser.count("#audit-verdict td.kept").await, 9);

    // A reload keeps the sale, the points of the plot and the session.
    let points = "JSON.parse(sessionStorage.getItem('board-points')).length";
    let before = browser.value(points).await.as_u64().unwrap();
    browser.reload().await;
    browser.until_text("#figure-left", "0 of 100").await;
    browser.until(&format!("{points} >= {before}")).await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_and_comes_back_is_watched_on() {
    let mut server = PrivateServer::start().await;
    let (browser, token) = opened(&server, "zh-CN", DESKTOP).await;
    server.voucher(&token, 5, 0).await;
    browser.until_text("#live", "实时").await;
    browser.until_text("#figure-left", "5 / 5").await;
    browser.until_text("h1", "看板").await;
    server.node.send(Signal::SIGSTOP);
    browser.until_text("#live", "没有响应").await;
    server.node.send(Signal::SIGCONT);
    browser.until_text("#live", "实时").await;
    server.restart().await;
    browser.until_text("#live", "实时").await;
    browser.until_text("#figure-left", "5 / 5").await;
    browser.click("#language").await;
    browser.until_text("h1", "Board").await;
    browser.until_text("#live", "Live").await;
    browser.click("#logout").await;
    browser.until_shown("#login").await;
    assert_eq!(browser.value("localStorage.getItem('board-session')").await, Value::Null);
    // What the browser says of a server that is away is no fault of the page.
    let console = browser.console().await;
    let faults: Vec<_> = console
        .iter()
        .filter(|line| !line.contains("net::ERR_") && !line.contains("503 (Service Unavailable)"))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_logs_in_with_two_presses_and_finds_the_show() {
    let server = PrivateServer::start().await;
    let browser = Browser::new("en", PHONE).await;
    browser.open(&format!("http://{}/board", server.node.address)).await;
    browser.click("#phone-form [type=submit]").await;
    browser.until("document.querySelector('#code').value.length === 6").await;
    browser.click("#code-form [type=submit]").await;
    browser.until_shown("#board").await;
    browser.fits().await;
    browser.click("#show-note a").await;
    browser.until("location.pathname === '/watch'").await;
    browser.close_quietly().await;
}
