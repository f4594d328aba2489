//! The API described: OpenAPI 3.1.

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde_json::json;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, HeaderBuilder, Ref, RefOr, Response};
use utoipa::{Modify, OpenApi, ToSchema};

use super::event_hub::VoucherEvent;
use super::events::TimeEvent;
use super::schemas::{Id, Limit, ProblemCode};
use super::{audits, entries, events, operations, orders, payments, sessions};
use super::{voucher_orders, vouchers};
use crate::model::OrderStatus;

/// Where the description is.
pub(super) const PATH: &str = "/api/openapi.json";

/// Collects the descriptions that stand with the handlers.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "seckill", description = "A flash-sale voucher backend. Every refusal and \
        every failure is `application/problem+json` (RFC 9457) with a stable `code`; its title \
        is Chinese when `Accept-Language` prefers it.\n\n\
        Every route: another path is 404 `not_found`; another method is 405 \
        `method_not_allowed`, and `Allow` names those that the route takes (`HEAD` with every \
        `GET`). What is not HTTP is 400, and a head beyond 32 KiB is 431, without a body."),
    paths(
        sessions::send_code,
        sessions::create,
        sessions::end_all,
        sessions::me,
        vouchers::list,
        vouchers::find,
        vouchers::create,
        vouchers::change,
        audits::create,
        entries::enter,
        entries::find,
        entries::leave,
        entries::draw,
        entries::line,
        entries::tell_number,
        events::of_all,
        events::of_voucher,
        orders::buy,
        orders::list,
        orders::find,
        orders::settle,
        orders::list_steps,
        orders::cancel,
        orders::refund,
        orders::redeem,
        voucher_orders::list,
        payments::create,
        payments::notify,
        payments::list_refunds,
        payments::list_unmatched,
        operations::healthz,
        operations::readyz,
        operations::metrics,
    ),
    components(schemas(Problem, Id, Limit, ProblemCode, VoucherEvent<'static>, TimeEvent)),
    modifiers(&TokenScheme, &OptionalBody, &Problems, &Headers)
)]
pub struct ApiDoc;

struct TokenScheme;

impl Modify for TokenScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// Every answer that is not a success (RFC 9457).
#[derive(ToSchema)]
#[allow(dead_code)] // only described; `problem` writes it
struct Problem {
    /// `urn:seckill:problem:` and the code.
    #[schema(pattern = "^urn:seckill:problem:[a-z_]+$")]
    #[schema(example = "urn:seckill:problem:already_bought")]
    r#type: String,
    /// In the language that the request prefers.
    #[schema(min_length = 1, example = "You have bought this voucher already")]
    title: String,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599, example = 409)]
    status: u16,
    #[schema(value_type = ProblemCode)]
    code: String,
    /// About this occurrence.
    #[schema(value_type = String, required = false)]
    detail: Option<String>,
    /// With `already_bought`: the order.
    #[schema(value_type = Id, required = false)]
    order_id: Option<String>,
    /// With `sale_not_started`: when it will begin.
    #[schema(value_type = DateTime<Utc>, required = false)]
    begin_time: Option<DateTime<Utc>>,
    /// With `order_state`: the state of the order.
    #[schema(value_type = OrderStatus, required = false)]
    order_status: Option<OrderStatus>,
    /// With `order_ambiguous`: the vouchers whose orders have the id.
    #[schema(value_type = Vec<Id>, required = false)]
    voucher_ids: Option<Vec<String>>,
    /// As in `X-Request-Id`: the name of the request in the server's log.
    #[schema(min_length = 1, max_length = 128)]
    request_id: String,
}

/// Every operation, with its path.
fn described(
    document: &mut utoipa::openapi::OpenApi,
) -> impl Iterator<Item = (&String, &mut Operation)> {
    document.paths.paths.iter_mut().flat_map(|(path, item)| {
        let operations =
            [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().map(move |operation| (path, operation))
    })
}

/// A purchase needs no body, but `null` is none. The annotation knows no such body.
struct OptionalBody;

impl Modify for OptionalBody {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for (_, operation) in described(document) {
            if operation.operation_id.as_deref() == Some("buy")
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = None;
            }
        }
    }
}

/// Says of every refusal that it is a [`Problem`], and describes those that the path, the token and the layer around
/// all routes bring with them. A handler describes one itself where it has more to say.
struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for (path, operation) in described(document) {
            let is_limited_without_token = operation
                .operation_id
                .as_deref()
                .is_some_and(|id| ["list_vouchers", "find_voucher", "watch_voucher"].contains(&id));
            let needs_token = operation.security.is_some();
            let unprocessable = if path.contains("{id}") {
                "`invalid_request`: the id is not a number"
            } else {
                "`invalid_request`: the body broke off"
            };
            let too_many = "`too_many_requests`, with `Retry-After`";
            let unavailable = "`unavailable`, with `Retry-After`";
            let responses = &mut operation.responses.responses;
            for (applies, status, description) in [
                (needs_token, "401", "`unauthenticated`"),
                (true, "413", "`invalid_request`: the body is larger than 16 KiB"),
                (true, "422", unprocessable),
                (needs_token || is_limited_without_token, "429", too_many),
                (path.starts_with("/api/"), "503", unavailable),
            ] {
                if applies {
                    let response = || Response::new(description).into();
                    responses.entry(status.to_owned()).or_insert_with(response);
                }
            }
            for (status, response) in responses {
                let RefOr::T(response) = response else { continue };
                if !status.starts_with('2') && response.content.is_empty() {
                    let problem = RefOr::T(Content::new(Some(Ref::from_schema_name("Problem"))));
                    response.content.insert("application/problem+json".to_owned(), problem);
                }
            }
        }
    }
}

/// The headers that come with a status, whatever the route.
struct Headers;

impl Modify for Headers {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
        let retry_after = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("in so many seconds another try may succeed"));
        let bearer = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["Bearer"]));
        let authenticate =
            HeaderBuilder::new().schema(Some(bearer)).description(Some("what would let you in"));
        let (retry_after, authenticate) = (retry_after.build(), authenticate.build());
        for (_, operation) in described(document) {
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                let is_problem = response.content.contains_key("application/problem+json");
                let header = match status.as_str() {
                    "401" => Some(("WWW-Authenticate", &authenticate)),
                    "429" | "503" if is_problem => Some(("Retry-After", &retry_after)),
                    _ => None,
                };
                if let Some((name, header)) = header {
                    response.headers.insert(name.to_owned(), RefOr::T(header.clone()));
                }
                for (name, header) in &mut response.headers {
                    let RefOr::T(header) = header else { continue };
                    // The last page has no next one. All others are always there, which the
                    // library's type has no member for; an extension is written as it stands.
                    if name != "Link" {
                        let required = Extensions::from_iter([("required", json!(true))]);
                        header.extensions = Some(required);
                    }
                }
            }
        }
    }
}

/// `/api/openapi.json`.
pub(super) fn routes() -> Router {
    let Ok(document) = ApiDoc::openapi().to_json() else {
        unreachable!("a description is always JSON")
    };
    let document = Bytes::from(document);
    let headers =
        [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=60")];
    Router::new().route(PATH, get(async move || (headers, document.clone())))
}
