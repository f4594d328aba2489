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

/// A plot as columns of pixels from above, each of which is `true` where it is nearly in this colour.
fn columns(plot: &str, colour: &str) -> String {
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
            const pixels = length => [...Array(length).keys()];
            return pixels(width).map(x => pixels(height).map(y => is((y * width + x) * 4)));
        }})(document.querySelector('#{plot} canvas'))"
    )
}

/// How many pixels of a plot are nearly in the colour of its line.
fn drawn(plot: &str, colour: &str) -> String {
    format!("{}.flat().filter(Boolean).length", columns(plot, colour))
}

/// How much of the width of a plot its line spends well above the axis, as a share.
fn width_of_the_rush(plot: &str, colour: &str) -> String {
    format!(
        "(all => all.filter(column => column.slice(0, column.length * 0.65).includes(true)).length / all.length)({})",
        columns(plot, colour)
    )
}

/// How long purchases were answered, by the points of the plots: orders for a moment, and then refusals for as long
/// as the machine takes.
const SECONDS_OF_PURCHASES: &str = "(points => points.at(-1)[0] - points[0][0] + 1)(
    JSON.parse(sessionStorage.getItem('board-points')).filter(([, orders, refusals]) => orders + refusals > 0))";

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
async fn the_figures_and_plots_follow_a_rush_and_the_verdict_is_shown() {
    let arguments = ["--listen", "127.0.0.1:0", "--stage-users", "1000"];
    let server = PrivateServer::start_with(&arguments, &[]).await;
    let (browser, token) = opened(&server, "en", DESKTOP).await;
    // The token has left the address, and no server has seen it.
    assert_eq!(browser.value("location.hash").await, "");
    let voucher = server.voucher(&token, 300, 0).await;
    browser.until(&format!("document.querySelector('#voucher').value === '{voucher}'")).await;
    browser.until_text("#figure-left", "300 of 300").await;
    browser.until_text("#figure-in-flight", "0 of 3,000").await;
    browser.until_text("#figure-postgres", "ok").await;
    browser.until_text("#figure-redis", "ok").await;
    browser.until_text("#figure-known-nodes", "1").await;
    browser.until_text("#figure-strategy", "group-commit").await;
    browser.until_text("#nodes", &server.node.address.to_string()).await;
    browser.until_text("#outcomes", "No attempt yet").await;

    // The rush of a show, whose sale is watched before it begins.
    server.api.post("/api/stage/shows", &json!({ "crowd": "rush" })).await.is(202);
    let sale =
        format!("http://{}/board?voucher={}", server.node.address, sale_of_show(&server).await);
    browser.open(&sale).await;
    // Every figure that is seen to move: a rush is over in a moment.
    browser
        .value(
            "(window.seen = {}, ['orders', 'refused', 'p99', 'batch', 'in-flight'].forEach(id => {
                const place = document.querySelector(`#figure-${id}`);
                new MutationObserver(() => {
                    const text = place.textContent;
                    if (/[1-9]/.test(text.split(' of ')[0])) window.seen[id] = text;
                }).observe(place, { childList: true });
            }), true)",
        )
        .await;
    browser.until_text("#figure-left", "0 of 100").await;
    browser.until_text("#sale-state", "sold out").await;
    browser.until_text("#outcomes [data-code=ordered]", "100").await;
    browser.until("Object.keys(window.seen).length === 5").await;
    for (plot, colour) in [
        ("plot-orders", "--good"),
        ("plot-refusals", "--bad"),
        ("plot-latency", "--link"),
        ("plot-stock", "--good"),
    ] {
        browser.until(&format!("{} > 5", drawn(plot, colour))).await;
    }

    // The plot shows the rush, and not the minutes before it.
    let width = width_of_the_rush("plot-orders", "--good");
    browser.until(&format!("{width} > Math.min(0.1, 0.5 / {SECONDS_OF_PURCHASES})")).await;
    // What was in flight is told when it is over, for a while; and how fast it sold.
    browser.until("/^[1-9][0-9,]* of 3,000$/.test(window.seen['in-flight'])").await;
    browser
        .until("/^peak [1-9][0-9,]*.s$/.test(document.querySelector('#peak-orders').innerText)")
        .await;

    // It was audited when it was seen to sell out; and is when somebody asks for it.
    browser.until_text("#figure-verdict", "every promise holds").await;
    browser.click("#audit").await;
    browser.until_text("#audit-verdict", "Every promise holds").await;
    browser.until_text("#audit-state", "100 orders of 100 users, 0 left of 100").await;
    assert_eq!(browser.count("#audit-verdict td.kept").await, 5);

    // A reload keeps the sale, the points of the plots and the session.
    let points = "JSON.parse(sessionStorage.getItem('board-points')).length";
    let before = browser.value(points).await.as_u64().unwrap();
    browser.reload().await;
    browser.until_text("#figure-left", "0 of 100").await;
    browser.until(&format!("{points} >= {before}")).await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_promise_is_named() {
    let server = PrivateServer::start().await;
    let (browser, token) = opened(&server, "en", DESKTOP).await;
    let voucher = server.voucher(&token, 5, 0).await;
    // The database of the private stores listens where only its user may enter; so the page is told.
    let broken = json!({
        "voucher_id": voucher, "initial_stock": 5, "stock": 0, "orders": 7, "distinct_users": 7,
        "holds": false, "violations": ["no_oversell: <b>7</b> orders for 5 vouchers", "new: x"],
    });
    browser.until(&format!("document.querySelector('#voucher').value === '{voucher}'")).await;
    let broken = json!(broken.to_string());
    browser.on_fetch(&format!("if (path.endsWith('/audit')) return new Response({broken});")).await;
    browser.click("#audit").await;
    browser.until_text("#audit-verdict caption", "A promise is broken").await;
    browser.until_text("#audit-verdict td.broken", "<b>7</b> orders for 5 vouchers").await;
    assert_eq!(browser.count("#audit-verdict td.broken").await, 2);
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_created_and_what_is_wrong_stands_beside_its_field() {
    let server = PrivateServer::start().await;
    let (browser, _) = opened(&server, "en", PHONE).await;
    browser.until_text("#voucher", "No sale yet").await;
    browser.click("#new-sale summary").await;
    browser.fill("#title", "   ").await;
    for stock in ["", "-1", "1.5", "2147483648", "99999999999999999999"] {
        browser.fill("#stock", stock).await;
        browser.click("#sale-form button").await;
        browser.until_text("#stock-error", "whole number").await;
    }
    browser.until_text("#title-error", "1 to 200").await;
    let focus = browser.value("document.activeElement.id").await;
    assert_eq!(focus, "title");
    browser.fill("#title", "<img src=x onerror=alert(1)><script>alert(2)</script>").await;
    browser.fill("#stock", "7").await;
    browser.set("#begin", "2040-05-05T10:00").await;
    browser.set("#end", "2040-05-05T10:00").await;
    browser.click("#sale-form button").await;
    browser.until_text("#end-error", "end after it begins").await;
    assert_eq!(browser.value("document.querySelector('#title').ariaInvalid").await, Value::Null);
    assert_eq!(browser.value("document.querySelector('#end').ariaInvalid").await, "true");
    browser.set("#end", "2040-05-05T11:00").await;
    browser.click("#sale-form button").await;
    browser.until_text("#sale-form-state", "created").await;
    browser.until_text("#voucher", "<img src=x onerror=alert(1)><script>").await;
    browser.until_text("#sale-state", "begins at May 5, 2040").await;
    browser.until_text("#figure-left", "7 of 7").await;
    // The server's own word is shown where only it can know.
    browser.set("#begin", "").await;
    browser.set("#title", "x\0y").await;
    browser.set("#end", "").await;
    browser.click("#sale-form button").await;
    browser.until_text("#sale-form-state", "control, zero-width").await;
    browser.fits().await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_is_no_administrator_is_shown_out_and_no_figures() {
    let server = PrivateServer::start().await;
    let buyer = server.login("13800138000").await;
    let browser = Browser::new("en", DESKTOP).await;
    let board = format!("http://{}/board", server.node.address);
    browser.open(&format!("{board}#token={buyer}")).await;
    browser.until_text("#login-state", "not an administrator").await;
    assert!(!browser.shows("#board").await);
    // The shop may go on with the session; a token that is none is forgotten.
    browser.open(&format!("{board}?x=1#token=%3Cscript%3E")).await;
    browser.until_text("#login-state", "Log in again").await;
    assert!(!browser.shows("#board").await);
    assert_eq!(browser.value("localStorage.getItem('board-session')").await, Value::Null);
    browser.fill("#phone", "").await;
    browser.click("#login-form [type=submit]").await;
    browser.until_text("#phone-error", "needed").await;
    browser.until_text("#code-error", "six digits").await;
    browser.fill("#phone", "12").await;
    browser.click("#send-code").await;
    browser.until_text("#login-state", "not valid").await;
    browser.fill("#phone", "13800138000").await;
    browser.fill("#code", "000000").await;
    browser.click("#login-form [type=submit]").await;
    browser.until_text("#login-state", "Log in first").await;
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
    // Nobody knows it: the server does not say.
    browser.until_text("#figure-postgres", "未知").await;
    browser.until_text("#figure-redis", "未知").await;
    server.node.send(Signal::SIGCONT);
    browser.until_text("#live", "实时").await;
    browser.until_text("#figure-postgres", "正常").await;
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
    browser.click("#send-code").await;
    browser.until("document.querySelector('#code').value.length === 6").await;
    browser.click("#login-form [type=submit]").await;
    browser.until_shown("#board").await;
    browser.fits().await;
    browser.click("#show-note a").await;
    browser.until("location.pathname === '/watch'").await;
    browser.close_quietly().await;
}
