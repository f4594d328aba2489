//! Buying in a demonstration: what is there, and among a slow crowd.

use super::{SCREEN, page, server};
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{Browser, PHONE};

async fn log_in(buyer: &Browser) {
    buyer.click("#log-in").await;
    buyer.fill("#phone", "13800138000").await;
    buyer.click("#phone-form [type=submit]").await;
    buyer.until("/^[0-9]{6}$/.test(document.querySelector('#shown-code').textContent)").await;
    let code = buyer.text("#shown-code").await;
    buyer.fill("#code", &code).await;
    buyer.click("#code-form [type=submit]").await;
    buyer.until_shown("#log-out").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_the_third_door_there_is_something_to_buy_and_to_pay() {
    let mut server = PrivateServer::with_samples().await;
    let buyer = page(&server, "/", PHONE).await;
    buyer.click("#buy").await;
    let can_buy = |count: usize| {
        format!(
            "[...document.querySelectorAll('.buy')].filter(it => it.checkVisibility() && !it.disabled).length === {count}"
        )
    };
    buyer.until(&can_buy(2)).await;
    log_in(&buyer).await;
    // The first is free, the second is paid for.
    buyer.click(".buy").await;
    buyer.until("/It is yours\\. Order [0-9]+/.test(document.body.innerText)").await;
    buyer.until(&can_buy(1)).await;
    buyer.value("[...document.querySelectorAll('.buy')].find(it => it.checkVisibility() && !it.disabled).click()").await;
    buyer.until_text("#vouchers", "Reserved for you").await;
    buyer.until_text("#vouchers", "Pay ¥80.00").await;
    buyer.close().await;

    // What can be bought is not put there twice.
    server.restart().await;
    let buyer = page(&server, "/shop", PHONE).await;
    buyer.until(&can_buy(2)).await;
    assert_eq!(buyer.value("document.querySelectorAll('#vouchers .card').length").await, 2);
    buyer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_buys_among_a_slow_crowd_is_told_the_place() {
    let server = server(4_000, 30).await;
    let buyer = page(&server, "/shop", PHONE).await;
    log_in(&buyer).await;

    let stage = page(&server, "/watch", SCREEN).await;
    stage.click("#slow").await;
    stage.until_text("#shop-link", "Buy against 100 others").await;
    stage.until_text("#ours .sentence", "100 buyers come one after another to 40 vouchers").await;
    assert_eq!(
        stage.value("new URL(document.querySelector('#shop-link').href).pathname").await,
        "/shop"
    );
    buyer.until("[...document.querySelectorAll('.buy')].some(it => it.checkVisibility() && !it.disabled)").await;
    buyer.click(".buy").await;
    buyer
        .until("/It is yours\\. Order [0-9]+\\. You were (the first|among the first [1-9][0-9]*) of 40\\./.test(document.body.innerText)")
        .await;
    // The sale has one order that is not the crowd's, and the audit counts it.
    stage
        .until_text(
            "#ours .sentence",
            "40 buyers hold 40 vouchers. 0 never existed. 61 buyers left with nothing.",
        )
        .await;
    stage.until_shown("#ours[data-holds=true]").await;
    stage.close().await;
    buyer.close().await;
}

/// The place is told to the buyer of the order alone, and it counts all orders that are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_the_buyers_own() {
    let server = server(20, 5).await;
    let token = server.admin().await;
    let voucher = server.voucher(&token, 5, 0).await;
    let (one, other) = tokio::join!(server.login("13800138000"), server.login("13800138001"));
    let buying = format!("/api/vouchers/{voucher}/orders");
    let mut places = Vec::new();
    for buyer in [&one, &other] {
        let order = server.send("POST", &buying, buyer, None).await;
        places.push(format!("/api/stage/place?order={}", order.is(201).text_of("order_id")));
    }
    let ask = async |path: &str, token: &str| {
        let request = reqwest::Client::new().get(format!("http://{}{path}", server.node.address));
        let answer = request.bearer_auth(token).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.unwrap())
    };
    for (path, buyer, among_first) in [(&places[0], &one, 2), (&places[1], &other, 2)] {
        let (status, body) = ask(path, buyer).await;
        assert_eq!(
            (status, &body["among_first"], &body["of"]),
            (200, &among_first.into(), &5.into())
        );
        assert_eq!(body["text"], format!("You were among the first {among_first} of 5."));
    }
    assert_eq!(ask(&places[0], &other).await.0, 404);
    assert_eq!(ask(&places[0], "").await.0, 401);
    for order in ["0", "-1", "x", "", "9223372036854775808"] {
        assert_eq!(ask(&format!("/api/stage/place?order={order}"), &one).await.0, 404, "{order}");
    }
    assert_eq!(ask("/api/stage/place", &one).await.1["code"], "invalid_request");
}
