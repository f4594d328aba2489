//! Paying in an app, which a link opens, or a code that a phone scans from another screen. In a real browser.

use chrono::TimeDelta;
use quircs::Quirc;
use seckill::model::Clock;
use serde_json::Value;

use crate::storefront::payments::{PAY, bought, only_order};
use crate::storefront::sale::MESSAGE;
use testkit::shop::api_client::Api;
use testkit::shop::payment_service::PaymentService;
use testkit::shop::readable::SCREENS;
use testkit::shop::web_driver::Browser;
use testkit::shop::world::World;

const DIALOG: &str = "#app-payment";
const CODE: &str = "#app-payment img";
const IS_CLOSED: &str = "!document.querySelector('#app-payment').open";

/// The width of the picture of the code, and its pixels row by row: 1 is black.
const PIXELS: &str = "(image => {
    const canvas = document.createElement('canvas');
    const [width, height] = [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    const pixels = Array.from({ length: width * height }, (_, at) => data[4 * at] < 128 ? 1 : 0);
    return { width, pixels: pixels.join('') };
})(document.querySelector('#app-payment img'))";

/// A shop whose buyers pay where `service` says, and the browser of user 1, who has just bought a voucher.
async fn shop(service: &PaymentService) -> (Api, Browser) {
    let world = World::new().await.paying_at(service);
    world.users(1).await;
    world.priced_voucher(2).await; // the card of one that is sold out is in a list of its own
    let api = Api::of(world).await;
    let browser = bought(&api).await;
    (api, browser)
}

/// As a phone reads it.
async fn scanned(browser: &Browser) -> String {
    browser.until(&format!("document.querySelector('{CODE}')?.naturalWidth > 0")).await;
    let picture = browser.value(PIXELS).await;
    let width = usize::try_from(picture["width"].as_u64().unwrap()).unwrap();
    let bits = picture["pixels"].as_str().unwrap().bytes();
    let pixels: Vec<u8> = bits.map(|bit| if bit == b'1' { 0 } else { 255 }).collect();
    let mut reader = Quirc::default();
    let codes: Vec<_> = reader.identify(width, pixels.len() / width, &pixels).collect();
    let [code] = &codes[..] else { panic!("not one code, but {}", codes.len()) };
    String::from_utf8(code.as_ref().unwrap().decode().unwrap().payload).unwrap()
}

async fn attribute(browser: &Browser, selector: &str, name: &str) -> Value {
    browser.value(&format!("document.querySelector('{selector}').getAttribute('{name}')")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opens_the_app_and_a_code_brings_the_payment_to_another_phone() {
    let address = "weixin://wxpay/bizpayurl?pr=aBc9-_xYz";
    let service = PaymentService::default();
    service.sends_to(address);
    let (api, browser) = shop(&service).await;
    browser.click(PAY).await;
    browser.until_text("#app-payment h2", "Pay ¥80.00 in an app").await;
    browser.until_text("#app-payment .pay-within", "Pay within 1").await;
    assert_eq!(scanned(&browser).await, address);
    assert_eq!(attribute(&browser, "#app-payment a", "href").await, address);
    let said = attribute(&browser, CODE, "alt").await;
    assert_eq!(said, "QR code of this payment, to be scanned with a phone");
    browser.is_readable("a payment in an app").await;
    for size in SCREENS {
        browser.resize(size).await;
        let is_whole =
            "(({ left, right, width }) => left >= 0 && right <= innerWidth && width >= 200)(
            document.querySelector('#app-payment img').getBoundingClientRect())";
        browser.until(is_whole).await;
    }

    browser.click("#app-payment button").await;
    browser.until(IS_CLOSED).await;
    browser.until("document.activeElement.matches('.pay')").await;
    // Also from the list; it is the same payment, of which the service is not asked again.
    service.sends_to("https://pay.example/another");
    browser.click(".tabs a[href='#orders']").await;
    browser.click("#order-list .pay").await;
    browser.until_shown(DIALOG).await;
    assert_eq!(scanned(&browser).await, address);
    // Paid on the phone.
    api.pay(1, &only_order(&api).await, "t1").await;
    browser.until(IS_CLOSED).await;
    browser.until_text("#order-list .order-status", "Paid").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_learns_why_there_is_nowhere_to_pay_and_a_long_address_has_a_link_alone() {
    let service = PaymentService::default();
    service.sends_to("javascript:alert(1)");
    let (api, browser) = shop(&service).await;
    browser.click(PAY).await;
    let said = "The payment gateway gave an address that this server does not accept. Try again in a moment.";
    browser.until_text(MESSAGE, said).await;
    assert!(!browser.shows(DIALOG).await);

    // The pause of the payment is over.
    api.world.set_time(api.world.clock.now() + TimeDelta::seconds(40)).await;
    let long = format!("alipays://platformapi/startapp?order={}", "x".repeat(2_000));
    service.sends_to(&long);
    browser.open(&format!("http://{}/?lang=zh-CN", api.address)).await;
    browser.click(PAY).await;
    browser.until_text("#app-payment h2", "在 App 中支付 ¥80.00").await;
    browser.until("document.querySelector('#app-payment .pay-code').hidden").await;
    assert_eq!(attribute(&browser, "#app-payment a", "href").await, long);
    assert_eq!(browser.count(CODE).await, 0);
    browser.close().await;
}
