//! What a page says of an order whose answers are lost, or which is another than it knows. In a real browser.

use faults::{Fault, Proxy};

use crate::board::sales::pay;
use crate::storefront::payments::{CANCEL, PAY, YES, bought, only_order, shop, statuses};
use crate::storefront::sale::{BUY, MESSAGE, visited_at};
use testkit::shop::web_driver::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_the_page_did_not_know_of_is_told_in_words() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    // The page cannot look.
    let cut = "if (options?.method === 'GET' && path.startsWith('/api/orders')) throw new TypeError('cut');";
    browser.on_fetch(cut).await;
    pay(&api, 1, &only_order(&api).await).await;
    browser.click(CANCEL).await;
    browser.click(YES).await;
    browser.until_text(MESSAGE, "That is not possible any more. The order is now: Paid.").await;
    browser.until_text(BUY, "Bought").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_leaves_it_open_until_the_server_has_said() {
    let (api, _) = shop().await;
    let network = Proxy::before(&api.address.to_string()).await.unwrap();
    let browser = visited_at(&network.address(), &api, 1).await;
    browser.click(BUY).await;
    browser.until_text(MESSAGE, "Reserved for you.").await;
    for (button, said) in [
        (PAY, "before the payment page could be opened"),
        (CANCEL, "not known whether the order is cancelled"),
    ] {
        browser.until_text("#connection", "Live").await;
        network.break_by(Fault::Down);
        browser.click(button).await;
        if button == CANCEL {
            browser.click(YES).await;
        }
        browser.until_text(MESSAGE, said).await;
        assert_eq!(browser.value("document.querySelector('.pay').disabled").await, true);
        network.break_by(Fault::None);
        browser.until_text(MESSAGE, "still unpaid and not cancelled").await;
        assert_eq!(statuses(&api).await, ["unpaid"]);
    }
    // This time the server has done it, and only its answer is lost.
    cancel_with_lost_answer(&browser, "").await;
    browser.close_after_cuts().await;
}

/// The server cancels the order, and its answer is lost when `meanwhile` has ended.
async fn cancel_with_lost_answer(browser: &Browser, meanwhile: &str) {
    let cut = format!(
        "if (path.endsWith('/cancellation')) {{
            await fetch(path, options);
            {meanwhile}
            window.isCut = true;
            throw new TypeError('cut');
        }}"
    );
    browser.on_fetch(&cut).await;
    browser.click(CANCEL).await;
    browser.click(YES).await;
    browser.until("window.isCut").await;
    browser.until_text(MESSAGE, "Your order is cancelled.").await;
    browser.until_text(BUY, "Buy now").await;
}

/// The page asks by itself, and learns that the order is cancelled before it knows that the answer is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_has_learnt_is_not_unknown_when_an_answer_is_lost_after_it() {
    let (api, _) = shop().await;
    let browser = bought(&api).await;
    let asks = "dispatchEvent(new Event('focus'));
        const said = () => document.querySelector('#vouchers .message').innerText;
        while (!said().includes('cancelled')) await new Promise(resolve => setTimeout(resolve, 10));";
    cancel_with_lost_answer(&browser, asks).await;
    browser.close().await;
}
