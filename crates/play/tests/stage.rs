//! The three doors of `seckill play`, and the stage behind the first of them, in a real browser.

mod api;
mod beaten;
mod failover;
mod faults;
mod shop;

use serde_json::{Value, json};

use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, PHONE};
use testkit::wait::{eventually, must};

/// The screen on which nothing is to be scrolled.
const SCREEN: (u32, u32) = (1400, 900);

/// A server whose rush has so many buyers, and whose slow crowd comes within so many seconds.
async fn server(users: u32, seconds: u32) -> PrivateServer {
    let (users, seconds) = (users.to_string(), seconds.to_string());
    let arguments =
        ["--listen", "127.0.0.1:0", "--stage-users", &users, "--stage-seconds", &seconds];
    PrivateServer::start_with(&arguments, &[]).await
}

async fn page(server: &PrivateServer, path: &str, size: (u32, u32)) -> Browser {
    let browser = Browser::new("en", size).await;
    browser.open(&format!("http://{}{path}", server.node.address)).await;
    browser
}

/// The stage as it is, from the first event of a stream.
pub async fn stage(server: &PrivateServer) -> Value {
    let address = format!("http://{}/api/stage/events", server.node.address);
    let mut stream = None;
    eventually("there is a place to watch", async || {
        stream = Some(reqwest::get(&address).await.unwrap()).filter(|it| it.status() == 200);
        stream.is_some()
    })
    .await;
    let mut stream = stream.unwrap();
    let mut text = String::new();
    must("the stage is told", async {
        while !text.ends_with("\n\n") {
            text += &String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap());
        }
    })
    .await;
    serde_json::from_str(text.split_once("data: ").unwrap().1.trim_end()).unwrap()
}

/// How many pixels of the dots are in the colour of this kind, as a JavaScript expression.
fn dots(half: &str, kind: &str) -> String {
    format!(
        "(canvas => {{
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const context = copy.getContext('2d', {{ willReadFrequently: true }});
            context.drawImage(canvas, 0, 0);
            context.fillStyle = getComputedStyle(canvas).getPropertyValue('--dot-{kind}').trim();
            const [r, g, b] = [1, 3, 5].map(at => parseInt(context.fillStyle.slice(at, at + 2), 16));
            const {{ data }} = context.getImageData(0, 0, canvas.width, canvas.height);
            let count = 0;
            for (let at = 0; at < data.length; at += 4)
                if (data[at] === r && data[at + 1] === g && data[at + 2] === b) count += 1;
            return count;
        }})(document.querySelector('#{half} .dots'))"
    )
}

/// Waits until the show says that each voucher was sold to a buyer of its own.
async fn until_sold(browser: &Browser, stock: u32, nothing: u32) {
    let said = format!(
        "{stock} buyers hold {stock} vouchers. 0 never existed. {nothing} buyers left with nothing."
    );
    browser.until_text("#ours .sentence", &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doors_lead_where_they_say_and_so_does_the_navigation() {
    let server = server(100, 5).await;
    let browser = page(&server, "/", PHONE).await;
    for (door, path, title) in [
        ("#watch", "/watch", "Watch a sale"),
        ("#break", "/lab", "Break a design"),
        ("#buy", "/shop", "Shop"),
    ] {
        browser.click(door).await;
        browser.until(&format!("location.pathname === '{path}'")).await;
        browser.until_text("h1", title).await;
        let current = browser.value("document.querySelector('nav [aria-current]').pathname").await;
        assert_eq!(current, path);
        browser.click(".brand").await;
        browser.until_text("h1", "A flash sale").await;
    }
    let paths = "[...document.querySelectorAll('header nav a')].map(link => link.pathname)";
    let expected = ["/watch", "/shop", "/board", "/lab", "/lab/course", "/docs/"];
    assert_eq!(browser.value(paths).await, json!(expected));
    // It fits on a small phone, and a page is small.
    let weight =
        "performance.getEntries().reduce((sum, entry) => sum + (entry.encodedBodySize ?? 0), 0)";
    for path in ["/", "/watch", "/shop"] {
        browser.open(&format!("http://{}{path}", server.node.address)).await;
        for size in [PHONE, (320, 640)] {
            browser.resize(size).await;
            browser.fits().await;
        }
        browser.until("document.readyState === 'complete'").await;
        assert!(browser.value(weight).await.as_u64().unwrap() < 100_000, "{path}");
    }
    // Who has paid in the sandbox goes back to the shop.
    browser.open(&format!("http://{}/sandbox/payments/1", server.node.address)).await;
    let back = browser.value("document.querySelector('#to-orders').getAttribute('href')").await;
    assert_eq!(back, "/shop#orders");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_watched_to_its_sentence_and_the_audit_says_the_same() {
    let server = server(400, 5).await;
    let browser = page(&server, "/watch", SCREEN).await;
    browser.until_text("#ours .number", "40").await;
    browser.until_text("#ours .sentence", "400 buyers want 40 vouchers").await;
    browser.until(&format!("{} > 400", dots("ours", "waiting"))).await;
    browser
        .value(
            "(window.counts = [], new MutationObserver(([{ target }]) => {
                window.counts.push(Number(target.textContent));
            }).observe(document.querySelector('#ours .count'), { childList: true }), true)",
        )
        .await;
    let buttons = "['start', 'slow'].map(id => document.getElementById(id).getBoundingClientRect())
        .map(({ left, top }) => [left, top])";
    let places = browser.value(buttons).await;
    browser.click("#start").await;
    until_sold(&browser, 40, 360).await;
    browser.until_shown("#ours[data-holds=true]").await;
    // What is offered beside them moves no button.
    browser.until("document.querySelector('#beside').hidden === false").await;
    assert_eq!(browser.value(buttons).await, places);
    // A machine that is busy may leave some out.
    let counted = "window.counts.every((count, at) => count < (window.counts[at - 1] ?? 3))";
    assert_eq!(browser.value(counted).await, true, "{}", browser.value("window.counts").await);
    browser.until_text("#ours .number", "0").await;
    browser.until(&format!("{} === 0", dots("ours", "waiting"))).await;
    for (kind, some) in [("bought", true), ("refused", true), ("wrong", false)] {
        assert_eq!(browser.value(&format!("{} > 0", dots("ours", kind))).await, some, "{kind}");
    }
    // Its peaks stay.
    browser
        .until("/^0 peak [1-9]/.test(document.querySelector('[data-figure=orders]').innerText)")
        .await;
    let scrolls = "document.documentElement.scrollHeight > innerHeight";
    assert_eq!(browser.value(scrolls).await, false);

    let shown = stage(&server).await;
    let (half, token) = (&shown["halves"][0], server.admin().await);
    let voucher = half["voucher_id"].as_str().unwrap();
    let audit = server.send("POST", &format!("/api/vouchers/{voucher}/audit"), &token, None).await;
    let audit = &audit.is(200).body;
    assert_eq!(
        (&audit["holds"], &audit["orders"], &audit["stock"]),
        (&json!(true), &json!(40), &json!(0))
    );
    assert_eq!((&half["verdict"]["sold"], &half["verdict"]["refused"]), (&json!(40), &json!(1160)));
    assert_eq!(half["bought"].as_array().unwrap().len(), 40);
    let points = half["points"].as_array().unwrap();
    let sum = |at: usize| points.iter().map(|point| point[at].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum(0), sum(1)), (1200, 40));
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_first_page_a_sale_is_one_click_away() {
    let server = server(400, 5).await;
    let browser = page(&server, "/", SCREEN).await;
    for size in [SCREEN, PHONE] {
        browser.resize(size).await;
        let seen = "(box => box.top >= 0 && box.bottom <= innerHeight)\
            (document.querySelector('#start').getBoundingClientRect())";
        browser.until(seen).await;
        browser.until(&format!("{} > 0", dots("ours", "waiting"))).await;
    }
    browser.click("#start").await;
    until_sold(&browser, 40, 360).await;
    browser.until_shown("#other[data-holds]").await;
    let in_sight = "document.querySelector('#other').getBoundingClientRect().top < innerHeight";
    browser.until(in_sight).await;
    assert_eq!(browser.value("location.pathname").await, "/");
    for size in [SCREEN, PHONE] {
        browser.resize(size).await;
        browser.fits().await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pressed_twice_and_in_a_second_tab_it_is_one_sale() {
    let server = server(200, 5).await;
    let (first, second) =
        tokio::join!(page(&server, "/watch", SCREEN), page(&server, "/watch", PHONE));
    for browser in [&first, &second] {
        browser.until("!document.querySelector('#start').disabled").await;
    }
    tokio::join!(first.press_twice("#start"), second.press_twice("#start"));
    for browser in [&first, &second] {
        until_sold(browser, 20, 180).await;
    }
    let sales = server.api.get("/api/vouchers").await.body;
    assert_eq!(sales.as_array().unwrap().len(), 1, "{sales}");
    // Again is another one, in the same place.
    second
        .value(
            "(window.changes = 0, new MutationObserver(() => (window.changes += 1)).observe(
                document.querySelector('#ours .sentence'), { childList: true }), true)",
        )
        .await;
    first.click("#start").await;
    second.until("window.changes > 0").await;
    until_sold(&second, 20, 180).await;
    let sales = server.api.get("/api/vouchers").await.body;
    assert_eq!(sales.as_array().unwrap().len(), 2, "{sales}");
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_design_beside_it_is_red_and_ours_is_green() {
    let server = server(2_000, 5).await;
    let browser = page(&server, "/watch", SCREEN).await;
    let beside = "document.querySelector('#beside').checkVisibility({ visibilityProperty: true })";
    assert_eq!(browser.value(beside).await, false);
    browser.click("#start").await;
    browser.until_shown("#ours[data-holds=true]").await;
    let ours = browser.text("#ours .sentence").await;
    let first = "document.querySelector('#design optgroup').label";
    assert_eq!(browser.value(first).await, "This crowd breaks");
    assert_eq!(browser.text("#design option").await, "r01: read the stock, check, subtract");
    browser.until_text("#breaks", "two buyers read the same stock").await;
    // It meets the wrong design by itself. It takes two who read the stock together: likely every time.
    browser.until_text("#other-title", "r01").await;
    browser.until_shown("#other[data-holds=false]").await;
    browser.until_text("#other .sentence", "buyers hold").await;
    browser.until_text("#other .steps", "The order of steps that did it").await;
    let game = "document.querySelector('#other .steps').getAttribute('href')";
    let steps = "/lab?rung=r01_naive&users=2&processes=1&stock=1&schedule=ABAB";
    assert_eq!(browser.value(game).await, steps);
    // What is read out is that it begins and what came of it.
    browser.until_text("#said", "buyers hold").await;
    assert_eq!(browser.text("#ours .sentence").await, ours);
    browser.until_shown("#ours[data-holds=true]").await;
    let shown = stage(&server).await;
    let halves = shown["halves"].as_array().unwrap();
    let [ours, other] = &halves[..] else { panic!("{shown}") };
    for figure in ["users", "stock", "total", "done"] {
        assert_eq!(ours[figure], other[figure], "{figure}");
    }
    let verdict = &other["verdict"];
    assert!(verdict["oversold"].as_i64().unwrap() + verdict["duplicates"].as_i64().unwrap() > 0);
    assert!(browser.value(&dots("other", "wrong")).await.as_u64().unwrap() > 0);
    // Side by side on a desk, one under the other on a phone.
    let places = "['ours', 'other'].map(id => document.getElementById(id).getBoundingClientRect())
        .map(({ left, top }) => [left, top])";
    let aside = format!("(([a, b]) => a[0] < b[0] && a[1] === b[1])({places})");
    browser.until(&aside).await;
    assert_eq!(browser.value("document.documentElement.scrollHeight > innerHeight").await, false);
    browser.resize(PHONE).await;
    browser.until(&format!("(([a, b]) => a[0] === b[0] && a[1] < b[1])({places})")).await;
    browser.fits().await;
    // Whoever comes now sees both.
    browser.reload().await;
    browser.until_shown("#other[data-holds=false]").await;
    browser.until_shown("#ours[data-holds=true]").await;
    browser.close().await;
}
