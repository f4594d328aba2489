//! What an operator does with a sale on the board: makes it, changes it, and looks at its orders. In a real
//! browser.

use chrono::TimeDelta;
use seckill::model::voucher_terms::NewVoucher;
use seckill::model::{Clock, Voucher};
use serde_json::{Value, json};

use testkit::shop::api_client::{Answer, Api};
use testkit::shop::web_driver::{Browser, DESKTOP, PHONE};
use testkit::shop::world::World;
use testkit::wait::eventually;

const ADMIN: i64 = 99;

/// What the page was refused.
const REFUSALS: &str = "performance.getEntriesByType('resource')
    .filter(one => one.responseStatus >= 400 && one.responseStatus < 500).map(one => one.name)";

/// A server, 30 users, and a voucher at 80 yuan.
pub async fn server(world: World) -> (Api, Voucher) {
    world.users(30).await;
    let begin = world.clock.now() - TimeDelta::hours(1);
    let new = NewVoucher {
        price: Some(8_000),
        ..NewVoucher::free("100 for 80", 40, begin, begin + TimeDelta::days(1))
    };
    let voucher = world.new_voucher(&new).await;
    (Api::of(world).await, voucher)
}

/// The board with its administrator logged in.
pub async fn board(api: &Api, language: &str, size: (u32, u32)) -> Browser {
    let token = api.world.admin_token(ADMIN).await;
    let browser = Browser::new(language, size).await;
    browser.open(&format!("http://{}/board#token={token}", api.address)).await;
    browser.until_shown("#sale-state").await;
    browser
}

pub async fn as_admin(api: &Api, method: &str, path: &str, body: &Value) -> Answer {
    api.call_with(method, path, &api.world.admin_token(ADMIN).await, body).await
}

/// Buys as `user`. Returns the order.
pub async fn order_of(api: &Api, user: i64, voucher: &Voucher) -> String {
    api.buy(user, voucher.id).await.is(201).text_of("order_id").to_owned()
}

/// Pays the order of `user` in the sandbox. Returns the payment. A busy machine may answer 503 at first.
pub async fn pay(api: &Api, user: i64, order: &str) -> String {
    let mut payment = None;
    eventually("the payment begins", async || {
        let begun = api.own_step(user, order, "payments").await;
        payment = (begun.status != 503).then(|| begun.is(201).text_of("payment_id").to_owned());
        payment.is_some()
    })
    .await;
    let payment = payment.unwrap();
    api.pay_in_sandbox(&payment).await;
    payment
}

pub async fn until_state(browser: &Browser, order: &str, state: &str) {
    browser.until_text(&format!("[data-order='{order}'] td:nth-child(3)"), state).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_made_with_all_that_buyers_read_and_what_is_wrong_stands_beside_its_field() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "en", PHONE).await;
    browser.click("#new-sale summary").await;
    browser.fill("#title", "   ").await;
    browser.fill("#subtitle", "For two").await;
    browser.fill("#terms", "One a table.").await;
    browser.set("#begin", "2040-05-05T10:00").await;
    for (field, wrong, right, said) in [
        ("#stock", "1.5", "7", "whole number"),
        ("#price", "79,9", "79.9", "like this: 79.90"),
        ("#value", "-1", "100", "like this: 79.90"),
        ("#pay-within", "0", "30", "at most 43,200 minutes"),
        ("#end", "2040-05-05T10:00", "2040-05-05T11:00", "end after it begins"),
    ] {
        browser.set(field, wrong).await;
        browser.click("#sale-form button").await;
        browser.until_text(&format!("{field}-error"), said).await;
        let is_wrong = format!("document.querySelector('{field}').ariaInvalid");
        assert_eq!(browser.value(&is_wrong).await, "true", "{field}");
        browser.set(field, right).await;
    }
    browser.until_text("#title-error", "1 to 200").await;
    assert_eq!(browser.value("document.activeElement.id").await, "title");
    browser.fits().await;
    // The server's own word is shown where only it can know.
    browser.set("#title", "x\0y").await;
    browser.click("#sale-form button").await;
    browser.until_text("#sale-form-state", "control, zero-width").await;
    assert_eq!(browser.value("document.querySelector('#end').ariaInvalid").await, Value::Null);
    browser.set("#title", "Dinner").await;
    browser.click("#sale-form button").await;
    browser.until_text("#sale-form-state", "created").await;
    browser.until_text("#sale-state", "begins at May 5, 2040").await;
    browser.until_text("#figure-left", "7 of 7").await;
    let made = &api.get("/api/vouchers").await.body[0];
    let expected = json!({ "title": "Dinner", "subtitle": "For two", "terms": "One a table.",
        "price": 7_990, "value": 10_000, "pay_within_s": 1_800, "initial_stock": 7 });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&made[member], value, "{member}");
    }
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_made_once_however_often_its_button_is_pressed_and_if_the_answer_is_lost() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "en", DESKTOP).await;
    let count = async || api.get("/api/vouchers").await.body.as_array().unwrap().len();
    browser.click("#new-sale summary").await;
    browser.fill("#title", "Dinner").await;
    let press_twice = "(form => (form.requestSubmit(), form.requestSubmit(), true))(document.querySelector('#sale-form'))";
    browser.value(press_twice).await;
    browser.until_text("#sale-form-state", "The sale is created").await;
    eventually("there is one more sale", async || count().await == 2).await;

    // The server makes it, and the answer is lost on its way.
    let lose = "if (options?.method === 'POST' && path === '/api/vouchers' && !window.isLost) {
        await fetch(path, options);
        window.isLost = true;
        throw new TypeError('lost');
    }";
    browser.on_fetch(lose).await;
    browser.fill("#title", "Lunch").await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#sale-form-state", "not known whether the sale was created").await;
    browser.click("#sale-form [type=submit]").await;
    browser.until_text("#sale-form-state", "The sale is created").await;
    let titles = "[...document.querySelectorAll('#voucher option')].filter(one => one.text.includes('Lunch')).length";
    browser.until(&format!("{titles} === 1")).await;
    assert_eq!(count().await, 3);
    // The form is empty: the same once more, on purpose, is another one.
    browser.until("document.querySelector('#title').value === ''").await;
    browser.fill("#title", "Lunch").await;
    browser.click("#sale-form [type=submit]").await;
    eventually("there is one more sale", async || count().await == 4).await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hour_at_which_a_sale_begins_can_be_seen_on_a_phone() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "en", PHONE).await;
    for summary in ["#edit-sale summary", "#new-sale summary"] {
        browser.click(summary).await;
    }
    let too_narrow = "[...document.querySelectorAll('[type=datetime-local]')].filter(field => {
        const free = field.cloneNode();
        free.value = field.value;
        free.style.width = 'max-content';
        field.after(free);
        const wanted = free.offsetWidth;
        free.remove();
        return wanted > field.offsetWidth;
    }).length";
    for size in [PHONE, (320, 640), DESKTOP] {
        browser.resize(size).await;
        assert_eq!(browser.value(too_narrow).await, 0, "{size:?}");
        browser.fits().await;
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_looks_at_first_is_above_the_fold() {
    let (api, _) = server(World::new().await).await;
    let browser = board(&api, "en", (1400, 900)).await;
    browser.until_text("#figure-left", "40 of 40").await;
    browser.until_text("#figure-verdict", "not audited yet").await;
    let lowest = "Math.max(...['#figure-left', '#figure-orders', '#figure-verdict', '#plot-orders']
        .map(one => document.querySelector(one).getBoundingClientRect().bottom))";
    browser
        .until(&format!("document.querySelector('#plot-orders canvas') && {lowest} <= 900"))
        .await;
    // Nobody needs a console that is full of ordinary answers. A 503 of a busy machine is none.
    assert_eq!(browser.value(REFUSALS).await, json!([]));
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_is_no_administrator_is_shown_out_and_no_figures() {
    let (api, _) = server(World::new().await).await;
    let browser = Browser::new("en", DESKTOP).await;
    let board = format!("http://{}/board", api.address);
    browser.open(&format!("{board}#token={}", api.world.token(1))).await;
    browser.until_text("#login-notice", "not an administrator").await;
    assert!(!browser.shows("#board").await);
    // It is no line on the console.
    assert_eq!(browser.value(REFUSALS).await, json!([]));
    // The shop may go on with the session; a token that is none is forgotten.
    browser.open(&format!("{board}?x=1#token=%3Cscript%3E")).await;
    browser.until_text("#login-notice", "Log in again").await;
    assert!(!browser.shows("#board").await);
    assert_eq!(browser.value("localStorage.getItem('board-session')").await, Value::Null);
    for (field, value, form, place, said) in [
        ("#phone", "12", "#phone-form", "#login-notice", "This is no phone number"),
        ("#phone", "13800138000", "#phone-form", "#sent-to", "on their way to 13800138000"),
        ("#code", "000000", "#code-form", "#login-notice", "The code is wrong"),
    ] {
        browser.fill(field, value).await;
        browser.click(&format!("{form} [type=submit]")).await;
        browser.until_text(place, said).await;
    }
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_changed_where_its_form_was_changed_and_nowhere_else() {
    let (api, voucher) = server(World::new().await).await;
    order_of(&api, 1, &voucher).await;
    let browser = board(&api, "en", DESKTOP).await;
    browser.until_text("#sale-state", "on sale until").await;
    browser.click("#edit-sale summary").await;
    browser.until("document.querySelector('#edit-title').value").await;
    let held = "['title', 'price', 'pay-within', 'stock', 'value'].map(id => document.querySelector(`#edit-${id}`).value)";
    assert_eq!(browser.value(held).await, json!(["100 for 80", "80.00", "15", "40", ""]));
    // Another administrator was here meanwhile.
    let path = format!("/api/vouchers/{}", voucher.id);
    as_admin(&api, "PATCH", &path, &json!({ "title": "Lunch" })).await.is(200);
    browser.fill("#edit-price", "60").await;
    browser.fill("#edit-stock", "50").await;
    browser.fill("#edit-terms", "Not on holidays.").await;
    browser.click("#save-sale").await;
    browser.until_text("#edit-state", "Saved").await;
    let changed = api.get(&path).await.body;
    for (member, value) in [
        ("title", json!("Lunch")),
        ("price", json!(6_000)),
        ("initial_stock", json!(50)),
        ("stock", json!(49)),
        ("terms", json!("Not on holidays.")),
        ("begin_time", json!(voucher.begin_time)),
        ("pay_within_s", json!(900)),
    ] {
        assert_eq!(changed[member], value, "{member}");
    }
    browser.until_text("#figure-left", "49 of 50").await;
    browser.click("#save-sale").await;
    browser.until_text("#edit-state", "Nothing was changed").await;
    browser.fill("#edit-stock", "0").await;
    browser.click("#save-sale").await;
    browser.until_text("#edit-stock-error", "Sold already: 1. There cannot be fewer.").await;
    browser.fill("#edit-stock", "50").await;
    browser.set("#edit-end", "2001-01-01T00:00").await;
    browser.click("#save-sale").await;
    browser.until_text("#edit-end-error", "end after it begins").await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_paused_and_goes_on() {
    let (api, voucher) = server(World::new().await).await;
    let browser = board(&api, "zh-CN", PHONE).await;
    browser.until_text("#pause", "暂停活动").await;
    browser.click("#pause").await;
    browser.until_text("#sale-state", "已暂停").await;
    api.buy(1, voucher.id).await.problem(409, "sale_paused");
    browser.until_text("#pause", "恢复活动").await;
    browser.click("#pause").await;
    browser.until_text("#sale-state", "进行中").await;
    order_of(&api, 1, &voucher).await;
    browser.close_quietly().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_shown_by_state_and_page_by_page_and_saved_as_csv() {
    let (api, voucher) = server(World::new().await).await;
    let mut orders = Vec::new();
    for user in 1..=25 {
        orders.push(order_of(&api, user, &voucher).await);
    }
    pay(&api, 3, &orders[2]).await;
    let browser = board(&api, "en", DESKTOP).await;
    let rows = |count: usize| {
        format!("document.querySelectorAll('#order-rows [data-order]').length === {count}")
    };
    browser.until(&rows(20)).await;
    browser.click("#older-orders").await;
    browser.until(&rows(5)).await;
    until_state(&browser, &orders[2], "Paid").await;
    until_state(&browser, &orders[0], "To be paid").await;
    assert_eq!(browser.value("document.querySelector('#older-orders').disabled").await, true);
    browser.click("#newer-orders").await;
    browser.until(&rows(20)).await;
    browser.choose("#order-status", "paid").await;
    browser.until(&rows(1)).await;
    until_state(&browser, &orders[2], "Paid").await;

    let directory = tempfile::tempdir().unwrap();
    browser.save_to(directory.path()).await;
    let saved = directory.path().join(format!("orders-of-{}.csv", voucher.id));
    browser.click("#orders-csv").await;
    // The browser makes the file first, and writes it then.
    let is_saved = async |count: usize| {
        std::fs::read_to_string(&saved).is_ok_and(|text| text.lines().count() == count)
    };
    eventually("the paid orders are saved", async || is_saved(2).await).await;
    let text = std::fs::read_to_string(&saved).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("order_id,voucher_id,user_id,phone,status,amount,"), "{text}");
    assert!(lines[1].starts_with(&format!("\"=\"\"{}\"", orders[2])), "{text}");
    assert!(lines[1].contains(",paid,80.00,"), "{text}");
    std::fs::remove_file(&saved).unwrap();
    browser.choose("#order-status", "").await;
    browser.until(&rows(20)).await;
    browser.click("#orders-csv").await;
    eventually("all orders are saved", async || is_saved(26).await).await;
    browser.close_quietly().await;
}

/// A press that has begun on a button ends on the same button, whatever comes meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_has_not_changed_stays_the_same_element() {
    let (api, voucher) = server(World::new().await).await;
    let first = order_of(&api, 1, &voucher).await;
    let second = order_of(&api, 2, &voucher).await;
    let browser = board(&api, "en", DESKTOP).await;
    let row = |order: &str| format!("document.querySelector(\"[data-order='{order}']\")");
    browser
        .until(&format!("(window.first = {}) && (window.second = {})", row(&first), row(&second)))
        .await;

    pay(&api, 1, &first).await;
    let third = order_of(&api, 3, &voucher).await;
    browser.until(&row(&third)).await;
    until_state(&browser, &first, "Paid").await;
    let shown = "[...document.querySelectorAll('#order-rows tr')].map(row => row.dataset.order)";
    assert_eq!(browser.value(shown).await, json!([third, second, first]));
    assert_eq!(browser.value(&format!("window.first === {}", row(&first))).await, false);
    assert_eq!(browser.value(&format!("window.second === {}", row(&second))).await, true);
    browser.close_quietly().await;
}
