//! Traces, as a collector receives them. Only a build with the feature `otlp` has them: `make test-otlp`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use seckill::http::server::ServerLimits;
use serde_json::{Value, json};

use testkit::processes::Node;
use testkit::program::Program;
use testkit::shop::api_client::Api;
use testkit::shop::served::Served;
use testkit::shop::world::World;

type Received = Arc<Mutex<Vec<Value>>>;

/// A collector's door for traces. Returns its address and what comes.
fn collector() -> (String, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, Json(traces): Json<Value>| {
        received.lock().unwrap().push(traces);
        Json(json!({}))
    };
    let routes = Router::new().route("/v1/traces", post(keep)).with_state(received.clone());
    let address = Served::new(routes, ServerLimits::of(16)).address;
    (format!("http://{address}"), received)
}

/// The spans in what was received.
fn spans(received: &Received) -> Vec<Value> {
    let items = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let received = received.lock().unwrap();
    let resources = received.iter().flat_map(|traces| items(traces, "resourceSpans"));
    let scopes = resources.flat_map(|resource| items(&resource, "scopeSpans"));
    scopes.flat_map(|scope| items(&scope, "spans")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_is_a_trace_of_its_steps_which_goes_on_from_the_clients() {
    let world = World::new().await;
    world.at_present().await;
    world.users(1).await;
    let voucher = world.voucher(1).await.id;
    let (collector, received) = collector();
    let program = Program::on(&world).with("OTEL_EXPORTER_OTLP_ENDPOINT", &collector);
    let server = Node::serve(&program, &[]).await;
    let api = Api::at(world, server.address);

    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = api
        .buying(1, voucher)
        .header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"))
        .header("x-request-id", "seen-in-the-trace");
    api.send(request).await.is(201);
    // The last traces are sent at the end.
    server.stop().await;

    let spans = spans(&received);
    let named = |name: &str| {
        let found = spans.iter().find(|span| span["name"] == name && span["traceId"] == trace);
        found.unwrap_or_else(|| panic!("no span {name} of the trace in {spans:#?}"))
    };
    let request = named("POST /api/vouchers/{id}/orders");
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    let attributes = request["attributes"].as_array().unwrap();
    let id = attributes.iter().find(|attribute| attribute["key"] == "request_id").unwrap();
    assert_eq!(id["value"]["stringValue"], "seen-in-the-trace");
    for step in ["lock", "place_order"] {
        assert_eq!(named(step)["parentSpanId"], request["spanId"], "{step}");
    }
}
