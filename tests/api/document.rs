//! The API's description of itself, held against the routes and against itself.

use std::collections::BTreeSet;

use seckill::http::ROUTES;
use seckill::http::problem::Code;
use seckill::model::InvalidId;
use serde_json::Value;

use testkit::golden::assert_file;
use testkit::shop::api_client::{Api, DOCUMENT};

/// Every operation: path, method, description.
fn operations() -> Vec<(&'static str, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let of_path = |(path, item): (&'static String, &'static Value)| {
        let operations = item.as_object().unwrap().iter();
        operations.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    };
    paths.flat_map(of_path).collect()
}

#[tokio::test]
async fn the_document_is_the_one_in_the_snapshot() {
    let served = Api::shared().await.get("/api/openapi.json").await;
    assert!(served.is(200).header("content-type").unwrap().starts_with("application/json"));
    assert_eq!(served.body, *DOCUMENT);
    assert_eq!(served.body["info"]["version"], env!("CARGO_PKG_VERSION"));
    let pretty = serde_json::to_string_pretty(&served.body).unwrap() + "\n";
    assert_file("tests/api/snapshots/openapi.json", &pretty);
}

#[tokio::test]
async fn what_is_no_id_is_refused_in_every_path() {
    let api = Api::new().await;
    let token = api.world.admin_token(1).await;
    for (path, method, _) in operations().iter().filter(|it| it.0.contains("{id}")) {
        // The parser has a test of its own; a path has its encoding beside it.
        for wrong in ["0", "-1", "1.0", "x", "9223372036854775808", "%00", "%FF", "%20", "1%2F2"] {
            let path = path.replace("{id}", wrong);
            let answer = api.call(&method.to_uppercase(), &path, &token).await;
            answer.problem(422, "invalid_request");
            assert_eq!(answer.text_of("detail"), InvalidId.to_string(), "{method} {path}");
        }
    }
}

/// The description is made of the table: so this compares how a row is written with the row, and not what a route does. That is in
/// `routes`, where each code of a row is provoked. The methods of each path are in `operations`: what is told to whoever asks by a
/// wrong one.
#[test]
fn each_row_of_the_table_is_described_with_what_it_refuses() {
    let rows = ROUTES.iter().map(|row| (row.path, row.method.as_str().to_lowercase()));
    let rows: BTreeSet<_> = rows.collect();
    let described = operations().into_iter().map(|it| (it.0, it.1.to_owned()));
    assert_eq!(rows, described.collect());
    assert_eq!(rows.len(), ROUTES.len());
    for row in ROUTES {
        let operation = &DOCUMENT["paths"][row.path][row.method.as_str().to_lowercase()];
        let responses = operation["responses"].as_object().unwrap().iter();
        let problems =
            responses.filter(|it| it.1["content"]["application/problem+json"].is_object());
        let described: BTreeSet<_> = problems
            .flat_map(|(status, response)| {
                let words = response["description"].as_str().unwrap().split('`');
                let codes = words.filter(|word| Code::try_from(*word).is_ok());
                codes.map(move |code| (status.parse().unwrap(), code))
            })
            .collect();
        let refused = row.refusals().map(|code| (code.kind().status, code.as_str()));
        let too_large = (413, "invalid_request");
        assert_eq!(described, refused.chain([too_large]).collect(), "{row:?}");
    }
    let source = include_str!("../../src/http/router.rs");
    assert!(!source.contains(".route(\""), "there is a route beside the table");
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(&DOCUMENT, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_operation_says_what_it_does_and_who_may() {
    let ids: BTreeSet<_> = operations().iter().map(|it| it.2["operationId"].as_str()).collect();
    assert_eq!(ids.len(), operations().len(), "programs are made with these names: {ids:?}");
    for (path, method, operation) in operations() {
        let said = operation["summary"].as_str().or(operation["description"].as_str());
        assert!(said.is_some_and(|said| !said.is_empty()), "{method} {path}");
        assert!(operation["operationId"].is_string(), "{method} {path}");
        let responses = operation["responses"].as_object().unwrap();
        for (status, response) in responses {
            assert!(!response["description"].as_str().unwrap().is_empty(), "{path} {status}");
        }
        let needs_token = operation["security"].is_array();
        assert_eq!(
            needs_token,
            responses.contains_key("401") && (method, path) != ("post", "/api/sessions"),
            "{method} {path}"
        );
        let has_id = path.contains("{id}");
        let named = operation["parameters"].to_string().matches(r#""name":"id""#).count();
        assert_eq!(usize::from(has_id), named, "{method} {path}");
        // Whatever asks a store can find it away.
        if path.starts_with("/api/") || path == "/readyz" {
            assert!(responses.contains_key("503"), "{method} {path}");
        }
        // The layer around all routes refuses bodies.
        assert!(responses.contains_key("413") && responses.contains_key("422"), "{method} {path}");
        // A defect may meet any of them; the documents tell what it leaves behind of a purchase alone.
        let is_purchase = (method, path) == ("post", "/api/vouchers/{id}/orders");
        assert_eq!(responses.contains_key("500"), is_purchase, "{method} {path}");
    }
    let scheme = &DOCUMENT["components"]["securitySchemes"]["token"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&"http".into(), &"bearer".into()));
}

#[test]
fn refusals_are_described_as_problems() {
    let problem = &DOCUMENT["components"]["schemas"]["Problem"];
    for member in ["type", "title", "status", "code"] {
        assert!(problem["properties"][member].is_object(), "{member}");
    }
    for (path, method, operation) in operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if status.starts_with(['2', '3']) || path == "/readyz" {
                continue;
            }
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
            let header = match status.as_str() {
                "401" => "WWW-Authenticate",
                "429" | "503" => "Retry-After",
                _ => continue,
            };
            let required = &response["headers"][header]["required"];
            assert_eq!(*required, true, "{method} {path} {status}");
        }
    }
    let codes = &DOCUMENT["components"]["schemas"]["ProblemCode"]["enum"];
    let codes: Vec<&str> = codes.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(codes.contains(&"sold_out") && !codes.contains(&"internal_error"), "{codes:?}");
}
