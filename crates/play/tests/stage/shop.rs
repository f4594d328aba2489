//! Buying in a demonstration: what is there, and among a slow crowd.

use super::{SCREEN, dots, page, server};
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
    let token = server.admin().await;
    server.voucher_called("Tea", &token, 5, 0).await;
    let buyer = page(&server, "/shop", PHONE).await;
    buyer.until_text(".card h2", "Tea").await;
    log_in(&buyer).await;

    let stage = page(&server, "/watch", SCREEN).await;
    stage.click("#slow").await;
    stage.until_text("#shop-link", "Buy against 100 others").await;
    stage.until_text("#ours .sentence", "100 buyers come one after another to 40 vouchers").await;
    assert_eq!(
        stage.value("new URL(document.querySelector('#shop-link').href).pathname").await,
        "/shop"
    );
    // Nobody has to ask for the sale that is new.
    let buy = "[...document.querySelectorAll('.card')]
        .find(it => it.innerText.includes('On the stage'))?.querySelector('.buy')";
    buyer.until(&format!("{buy}?.checkVisibility() && !{buy}.disabled")).await;
    buyer.value(&format!("({buy}).click()")).await;
    buyer
        .until("/It is yours\\. Order [0-9]+\\. You were number [1-9][0-9]* of 40\\./.test(document.body.innerText)")
        .await;
    stage.until(&format!("{} > 0", dots("ours", "star"))).await;
    // The sale has one order that is not the crowd's, and the audit counts it.
    stage
        .until_text(
            "#ours .sentence",
            "40 buyers hold 40 vouchers. 0 never existed. 61 buyers left with nothing.",
        )
        .await;
    stage.until_shown("#ours[data-holds=true]").await;
    assert!(stage.value(&dots("ours", "star")).await.as_u64().unwrap() > 0);
    assert!(!stage.text("#ours .sentence").await.contains('★'));
    stage.close().await;
    // The buyer's own browser knows who it is.
    buyer.open(&format!("http://{}/watch", server.node.address)).await;
    buyer.until_text("#ours .sentence", "★ You were number").await;
    buyer.close().await;
}

/// The place is the buyer's own: it counts the orders up to that of the buyer.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_the_buyers_own() {
    let server = server(20, 5).await;
    let token = server.admin().await;
    let voucher = server.voucher(&token, 5, 0).await;
    let (one, other) = tokio::join!(server.login("13800138000"), server.login("13800138001"));
    let buying = format!("/api/vouchers/{voucher}/orders");
    let ask = async |voucher: &str, token: &str| {
        let path = format!("/api/stage/place?voucher={voucher}");
        let request = reqwest::Client::new().get(format!("http://{}{path}", server.node.address));
        let answer = request.bearer_auth(token).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<serde_json::Value>().await.unwrap())
    };
    assert_eq!(ask(&voucher, &one).await.1["number"], 0);
    for buyer in [&one, &other] {
        server.send("POST", &buying, buyer, None).await.is(201);
    }
    for (number, buyer) in [(1, &one), (2, &other)] {
        let (status, body) = ask(&voucher, buyer).await;
        assert_eq!((status, &body["number"], &body["of"]), (200, &number.into(), &5.into()));
        assert_eq!(body["text"], format!("You were number {number} of 5."));
    }
    assert_eq!(ask(&voucher, "").await.0, 401);
    assert_eq!(ask("9223372036854775807", &one).await.0, 404);
    for wrong in ["0", "-1", "x", "", "9223372036854775808"] {
        assert_eq!(ask(wrong, &one).await.1["code"], "invalid_request", "{wrong}");
    }
}
