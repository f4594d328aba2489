//! All that a card says, and all that can be pressed on it, in each state of a sale. In a real browser.

use chrono::TimeDelta;
use seckill::model::VoucherId;
use seckill::model::voucher_terms::{NewVoucher, VoucherChange};
use seckill::store::vouchers;
use serde_json::json;

use crate::storefront::sale::visited;
use crate::storefront::stillness::until_listed;
use testkit::shop::api_client::Api;
use testkit::shop::world::{PRICE, World, midnight};

/// The texts of each card in their order, and then its buttons; one that cannot be pressed stands in parentheses.
/// Countdowns and the ids of orders are left out.
const CARDS: &str = r"[...document.querySelectorAll('.card')].map((card) => {
    const lines = card.innerText.split(/\n+/).map((line) => line.replace(/\s+/g, ' ').trim());
    const buttons = [...card.querySelectorAll('button')].filter((button) => button.checkVisibility());
    const names = buttons.map((button) => button.disabled ? `(${button.innerText})` : button.innerText);
    const shown = [...lines.filter(Boolean), `[${names.join(', ')}]`].join(' | ');
    return shown.replace(/(\d d )?\d\d:\d\d:\d\d/g, 'TIME').replace(/\d{15,}/g, 'ID');
})";

/// A sale of two days, begun so many days ago.
async fn sale(world: &World, title: &str, stock: i32, begun_days_ago: i64) -> VoucherId {
    let begin = midnight() - TimeDelta::days(begun_days_ago);
    let new = NewVoucher::free(title, stock, begin, begin + TimeDelta::days(2));
    world.new_voucher(&new).await.id
}

/// A sale in each state, in the order of the cards. User 1 has bought of some, and stands in a line.
async fn shop() -> Api {
    let api = Api::with_users(2).await;
    sale(&api.world, "E", 5, 3).await;
    let sold_out = sale(&api.world, "D", 1, 0).await;
    sale(&api.world, "C", 5, -3).await;
    let paused = sale(&api.world, "P", 5, 0).await;
    let line = NewVoucher {
        price: Some(PRICE),
        line: Some(true),
        ..NewVoucher::free("L", 1, midnight(), midnight() + TimeDelta::days(2))
    };
    let line = api.world.new_voucher(&line).await.id;
    let bought = sale(&api.world, "B", 2, 0).await;
    let priced = NewVoucher {
        price: Some(PRICE),
        value: Some(10_000),
        subtitle: Some("Any branch".to_owned()),
        terms: Some("One a table.".to_owned()),
        ..NewVoucher::free("A", 5, midnight(), midnight() + TimeDelta::days(2))
    };
    api.world.new_voucher(&priced).await;
    let pause = VoucherChange { paused: Some(true), ..VoucherChange::default() };
    vouchers::change(api.world.database.pool(), paused, &pause, None).await.unwrap();
    for (user, voucher) in [(2, sold_out), (2, line), (1, bought)] {
        api.buy(user, voucher).await.is(201);
    }
    api.call_as(1, "POST", &format!("/api/vouchers/{line}/entries")).await.is(201);
    // A server keeps its list for a moment.
    until_listed(&api, bought, 1).await;
    api
}

const ON_SALE: &str = "On sale | A | ¥80.00 | worth ¥100.00 | Any branch | 5 of 5 left | Ends Nov 13, 2026, 12:00 AM \
    | 15:00 to pay once it is yours | Buy now | Terms | [Buy now]";
const COMING_SOON: &str =
    "Coming soon | C | 5 of 5 left | Begins Nov 14, 2026, 12:00 AM | Begins in | TIME | []";
const PAUSED: &str = "Paused | P | 5 of 5 left | Ends Nov 13, 2026, 12:00 AM | Paused | [(Paused)]";
const SOLD_OUT: &str =
    "Sold out | D | 0 of 1 left | Ends Nov 13, 2026, 12:00 AM | Sold out | [(Sold out)]";
const ENDED: &str = "Over | E | 5 of 5 left | Ended Nov 10, 2026, 12:00 AM | Over | [(Over)]";

#[tokio::test(flavor = "multi_thread")]
async fn a_card_shows_what_its_state_asks_for_and_nothing_else() {
    let api = shop().await;
    let of_a_stranger = [
        ON_SALE,
        "On sale | B | 1 of 2 left | Ends Nov 13, 2026, 12:00 AM | Buy now | [Buy now]",
        "Sold out: line open | L | ¥80.00 | Sold out. What comes back is offered to those who stand in line, one after \
            the other. | 0 of 1 left | Ends Nov 13, 2026, 12:00 AM | 15:00 to pay once it is yours | Stand in line | \
            [Stand in line]",
        PAUSED,
        COMING_SOON,
        SOLD_OUT,
        ENDED,
    ];
    let of_the_buyer = [
        ON_SALE,
        "On sale | Yours | B | 1 of 2 left | It is yours. Order ID | Bought | [(Bought)]",
        "Sold out: line open | L | ¥80.00 | You are the next in line. Offered in the last hour: 0. Nobody knows when \
            the next one comes back. | 0 of 1 left | Ends Nov 13, 2026, 12:00 AM | 15:00 to pay once it is yours | \
            In line | Leave the line | [(In line), Leave the line]",
        PAUSED,
        COMING_SOON,
        SOLD_OUT,
        ENDED,
    ];
    for (user, expected) in [(0, of_a_stranger), (1, of_the_buyer)] {
        let browser = visited(&api, user).await;
        browser.devtools("Emulation.setTimezoneOverride", json!({ "timezoneId": "UTC" })).await;
        browser.reload().await;
        browser.until("document.querySelectorAll('.card').length === 7").await;
        let states = "document.querySelectorAll('[data-owned=true], [data-waiting=true]').length";
        browser.until(&format!("{states} === {}", 2 * user)).await;
        browser.is_readable("the list").await;
        browser.value("document.querySelector('#over').open = true").await;
        assert_eq!(browser.value(CARDS).await, json!(expected));
        browser.close().await;
    }
}
