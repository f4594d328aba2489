//! The audit of a voucher over the API.

use std::time::Duration;

use seckill::purchase::audit;
use serde_json::json;
use sqlx::Connection;

use testkit::shop::api_client::{Answer, Api};
use testkit::wait::eventually;

/// Every reader of the orders waits.
const HOLD_THE_ORDERS: &str = "lock table orders in access exclusive mode";

fn path(voucher: impl std::fmt::Display) -> String {
    format!("/api/vouchers/{voucher}/audit")
}

async fn audited(api: &Api, token: &str, voucher: impl std::fmt::Display) -> Answer {
    api.call("POST", &path(voucher), token).await
}

#[tokio::test]
async fn an_audit_says_what_the_command_says_and_finds_what_is_wrong() {
    let api = Api::with_users(3).await;
    let token = api.world.admin_token(100).await;
    let voucher = api.world.voucher(2).await;
    for user in 1..=3 {
        api.buy(user, voucher.id).await;
    }
    let answer = audited(&api, &token, voucher.id).await;
    let expected = json!({
        "voucher_id": voucher.id.to_string(), "initial_stock": 2, "stock": 0, "orders": 2,
        "distinct_users": 2, "holds": true, "violations": [], "unpaid": 0, "paid": 2,
        "used": 0, "cancelled": 0, "expired": 0, "refunding": 0, "refunded": 0, "payments": 0, "refunds": 0,
        "money_in": 0, "money_returned": 0, "money_kept": 0,
    });
    assert_eq!(answer.is(200).body, expected);
    let by_the_command = api.world.audit().await;
    assert_eq!(answer.body, serde_json::to_value(by_the_command).unwrap());

    let extra = "insert into orders (id, user_id, voucher_id, created_at)
                 select 1, 3, voucher_id, begin_time from seckill_vouchers";
    sqlx::query(extra).execute(api.world.database.pool()).await.unwrap();
    let answer = audited(&api, &token, voucher.id).await;
    assert_eq!(answer.is(200).body["holds"], false);
    assert_eq!(answer.body, serde_json::to_value(api.world.audit().await).unwrap());
    let violations = answer.body["violations"].to_string();
    assert!(violations.contains("no_oversell: "), "{violations}");
    assert!(violations.contains("no_undersell: "), "{violations}");
}

#[tokio::test]
async fn an_audit_is_for_administrators_and_of_a_voucher_that_exists() {
    let api = Api::with_users(1).await;
    let token = api.world.admin_token(100).await;
    let voucher = api.world.voucher(2).await;
    let nobody = api.send(api.request("POST", &path(voucher.id))).await;
    nobody.problem(401, "unauthenticated");
    audited(&api, &api.world.token(1), voucher.id).await.problem(403, "forbidden");
    for unknown in ["17", "9223372036854775807"] {
        audited(&api, &token, unknown).await.problem(404, "voucher_not_found");
    }
    // An audit is work: it is not done for a link that somebody follows.
    let read = api.call("GET", &path(voucher.id), &token).await;
    read.problem(405, "method_not_allowed");
    audited(&api, &token, voucher.id).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_audit_at_a_time_runs_to_its_end_also_when_its_client_leaves() {
    let api = Api::new().await;
    let token = api.world.admin_token(100).await;
    let voucher = api.world.voucher(2).await;
    let holder = api.world.begin(HOLD_THE_ORDERS).await;
    let request = |api: &Api| api.request("POST", &path(voucher.id)).bearer_auth(&token);
    let leaving = tokio::spawn(request(&api).send());
    api.world.until_one_waits().await;
    leaving.abort();
    assert!(leaving.await.is_err_and(|error| error.is_cancelled()));
    for _ in 0..3 {
        let second = audited(&api, &token, voucher.id).await;
        assert_eq!(second.problem(429, "too_many_requests").header("retry-after"), Some("1"));
        assert!(second.text_of("detail").contains("another audit"), "{second:?}");
    }
    // Nobody else waits for it: a purchase has connections of its own, and a reader others.
    api.get("/api/vouchers").await.is(200);
    holder.close().await.unwrap();
    eventually("the first audit is over", async || {
        audited(&api, &token, voucher.id).await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_takes_too_long_is_given_up_and_leaves_no_trace() {
    let api = Api::new().await;
    let voucher = api.world.voucher(2).await;
    let holder = api.world.begin(HOLD_THE_ORDERS).await;
    let run = async || {
        let limit = Duration::from_millis(300);
        audit::run_within(limit, &api.world.database, voucher.id).await
    };
    // More often than the pool has connections.
    for _ in 0..6 {
        let error = run().await.unwrap_err();
        assert!(error.retry_may_help() && !error.outcome_unknown(), "{error}");
    }
    holder.close().await.unwrap();
    eventually("the audit runs", async || run().await.is_ok_and(|audit| audit.unwrap().holds))
        .await;
    // The time-out of the audits is no statement's that comes later.
    let shown = sqlx::query_scalar::<_, String>("show statement_timeout");
    assert_eq!(shown.fetch_one(api.world.database.pool()).await.unwrap(), "5s");
}
