//! Where the payment service of an operator sends buyers.

use chrono::TimeDelta;
use seckill::model::Clock;

use testkit::shop::api_client::Api;
use testkit::shop::payment_service::PaymentService;
use testkit::shop::world::World;

/// A shop whose buyers pay at the service. Users 1 to `count` have an unpaid order each.
async fn orders(service: &PaymentService, count: u32) -> (Api, Vec<(i64, String)>) {
    let world = World::new().await.paying_at(service);
    world.users(count).await;
    let voucher = world.priced_voucher(count.try_into().unwrap()).await;
    let api = Api::of(world).await;
    let mut orders = Vec::new();
    for user in 1..=i64::from(count) {
        let bought = api.buy(user, voucher.id).await;
        orders.push((user, bought.is(201).text_of("order_id").to_owned()));
    }
    (api, orders)
}

#[tokio::test]
async fn a_buyer_is_sent_to_the_web_or_to_an_app_and_nowhere_else() {
    let long = format!("https://pay.example/{}", "x".repeat(4_000));
    let cases = [
        ("https://pay.example/7", None),
        ("weixin://wxpay/bizpayurl?pr=aBc9", None),
        ("alipays://platformapi/startapp?appId=1&order=%7B%7D", None),
        (long.as_str(), None),
        ("javascript:alert(document.cookie)", Some("pay_url_refused")),
        ("data:text/html,pay", Some("pay_url_refused")),
        ("upi://pay?pa=shop", Some("pay_url_refused")),
        ("pay.example/7", Some("pay_url_refused")),
    ];
    let service = PaymentService::default();
    let (api, orders) = orders(&service, cases.len().try_into().unwrap()).await;
    for ((user, order), (pay_url, refused)) in orders.iter().zip(cases) {
        service.sends_to(pay_url);
        let answer = api.own_step(*user, order, "payments").await;
        match refused {
            None => assert_eq!(answer.is(201).text_of("pay_url"), pay_url),
            Some(code) => assert!(answer.problem(503, code).retry_after_s() >= 1),
        }
    }
}

#[tokio::test]
async fn what_a_buyer_is_told_is_true_and_the_pause_ends() {
    let service = PaymentService::default();
    let (api, orders) = orders(&service, 1).await;
    let (user, order) = &orders[0];
    service.sends_to("javascript:alert(1)");
    let path = format!("/api/orders/{order}/payments");
    let request = api.request("POST", &path).bearer_auth(api.world.token(*user));
    let answer = api.send(request.header("accept-language", "zh-CN")).await;
    assert_eq!(
        answer.problem(503, "pay_url_refused").text_of("title"),
        "支付网关给出的支付地址不被本服务器接受"
    );
    let is_over = async || {
        api.world.set_time(api.world.clock.now() + TimeDelta::seconds(40)).await;
    };
    is_over().await;
    for said in ["", "{}", "no JSON"] {
        service.answers(said);
        let answer = api.own_step(*user, order, "payments").await;
        let detail = answer.problem(503, "unavailable").text_of("detail");
        assert_eq!(detail, "the payment gateway does not say where to pay: try again", "{said}");
        is_over().await;
    }
    // It is the same payment, and the service is asked no more once it has said where.
    service.sends_to("weixin://wxpay/bizpayurl?pr=1");
    for _ in 0..2 {
        let payment = api.own_step(*user, order, "payments").await;
        assert_eq!(payment.is(201).text_of("pay_url"), "weixin://wxpay/bizpayurl?pr=1");
        assert!(payment.text_of("payment_id").ends_with(".1"), "{payment:?}");
        service.sends_to("javascript:alert(1)");
    }
}
