//! How a page of the shop keeps itself up to date: one stream while somebody looks at it, or one question at a time.
//! In a real browser.

use seckill::http::event_hub::StreamLimits;

use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, PHONE};
use testkit::shop::world::World;

/// The page is hidden when the test says so; its streams are counted, and its timers for the next poll.
const WATCHED_PAGE: &str = "
    window.isHidden = new URLSearchParams(location.search).has('hidden');
    Object.defineProperty(document, 'hidden', { get: () => window.isHidden });
    window.look = isHidden => {
        window.isHidden = isHidden;
        document.dispatchEvent(new Event('visibilitychange'));
        return true;
    };
    window.streams = 0;
    window.EventSource = class extends EventSource {
        constructor(url) {
            super(url);
            window.streams += 1;
        }
    };
    // No chance: the next poll is due after five seconds exactly.
    Math.random = () => 0.5;
    window.polls = new Set();
    const [set, clear] = [setTimeout, clearTimeout];
    window.setTimeout = (run, ms, ...more) => {
        const id = set(() => { window.polls.delete(id); run(...more); }, ms);
        if (ms === 5000) window.polls.add(id);
        return id;
    };
    window.clearTimeout = id => { window.polls.delete(id); clear(id); };
";

async fn watched(api: &Api, query: &str) -> Browser {
    let browser = Browser::new("en", PHONE).await;
    browser.run_first(WATCHED_PAGE).await;
    browser.open(&format!("http://{}/{query}", api.address)).await;
    browser.until_shown(".card").await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_a_tab_in_the_background_opens_no_stream_until_somebody_looks() {
    let api = Api::new().await;
    api.world.voucher(2).await;
    let browser = watched(&api, "?hidden").await;
    assert_eq!(browser.value("window.streams").await, 0);
    browser.value("window.look(false)").await;
    browser.until_text("#connection", "Live").await;
    assert_eq!(browser.value("window.streams").await, 1);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_left_and_looked_at_again_asks_one_question_at_a_time() {
    let no_room = StreamLimits { all: 0, of_an_address: 0 };
    let world = World { event_streams: no_room, ..World::new().await };
    world.voucher(2).await;
    let api = Api::of(world).await;
    let browser = watched(&api, "").await;
    browser.until_text("#connection", "Updated every 5 seconds").await;
    // From now on the answers wait until the test gives them.
    browser.value("(window.held = [], window.read = 0)").await;
    let hold =
        "return new Promise(answer => path === '/api/vouchers' && window.held.push(answer));";
    browser.on_fetch(hold).await;
    for questions in 1..=2 {
        browser.value("window.look(true)").await;
        browser.value("window.look(false)").await;
        browser.until(&format!("window.held.length === {questions}")).await;
    }
    let answer =
        "window.held.forEach(answer => answer({ status: 200, ok: true, headers: new Headers(),
        text: async () => { window.read += 1; return '[]'; } }))";
    browser.value(answer).await;
    // All that follows an answer is done before the browser takes the next command.
    browser.until("window.read === 2").await;
    assert_eq!(browser.value("window.polls.size").await, 1);
    browser.close().await;
}
