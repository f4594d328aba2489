//! The API described: OpenAPI 3.1. Successes are described where the handlers are, ids in paths and refusals by the table of
//! routes.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, header};
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde_json::json;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, HeaderBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Server,
};
use utoipa::{Modify, OpenApi, ToSchema};

use super::event_hub::VoucherEvent;
use super::events::TimeEvent;
use super::problem::{Code, ProblemKind};
use super::router::{Operations, ROUTES, Route};
use super::schemas::{Id, PageSize, ProblemCode};
use crate::config::BasePath;
use crate::model::OrderStatus;
use crate::model::order_csv::CsvReader;

/// Where the description is.
pub(super) const PATH: &str = "/api/openapi.json";

/// What the handlers say of themselves, and what [`ROUTES`] says of their ids and refusals.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "seckill", description = "A flash-sale voucher backend. Every refusal and \
        every failure is `application/problem+json` (RFC 9457) with a stable `code`; its title \
        is Chinese when `Accept-Language` prefers it.\n\n\
        Every route: another path is 404 `not_found`; another method is 405 \
        `method_not_allowed`, and `Allow` names those that the route takes (`HEAD` with every \
        `GET`). What is not HTTP is 400, and a head beyond 32 KiB is 431, without a body."),
    components(schemas(Problem, Id, PageSize, ProblemCode, CsvReader, VoucherEvent<'static>, TimeEvent)),
    modifiers(&Operations)
)]
pub struct ApiDoc;

impl Modify for Operations {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        document.merge(Self::openapi());
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
        for route in ROUTES {
            let operation = described(document, route);
            if operation.operation_id.as_deref() == Some("buy")
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                // A purchase needs no body, but `null` is none. The annotation knows no such body.
                body.required = None;
            }
            if let Some(id) = id_in(route.path) {
                operation.parameters.get_or_insert_default().insert(0, id.into());
            }
            if route.who.has_token() {
                operation.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
            }
            let responses = &mut operation.responses.responses;
            for (status, description) in refusals(route) {
                responses.insert(status.to_string(), refusal(status, &description).into());
            }
            responses.values_mut().for_each(require_headers);
        }
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

/// What the handler of a route says of it.
fn described<'a>(document: &'a mut utoipa::openapi::OpenApi, route: &Route) -> &'a mut Operation {
    let operation = document.paths.paths.get_mut(route.path).and_then(|item| match route.method {
        Method::GET => item.get.as_mut(),
        Method::POST => item.post.as_mut(),
        Method::PUT => item.put.as_mut(),
        Method::PATCH => item.patch.as_mut(),
        Method::DELETE => item.delete.as_mut(),
        _ => None,
    });
    operation.unwrap_or_else(|| unreachable!("the handler says another path of {route:?}"))
}

/// The id in a path, which names a thing as the path does.
fn id_in(path: &str) -> Option<Parameter> {
    let (thing, _) = path.strip_prefix("/api/")?.split_once("s/{id}")?;
    let id = ParameterBuilder::new().name("id").parameter_in(ParameterIn::Path);
    let id = id.required(Required::True).description(Some(format!("the {thing}")));
    Some(id.schema(Some(Ref::from_schema_name("Id"))).build())
}

/// What a route refuses, by status.
fn refusals(route: &Route) -> BTreeMap<u16, String> {
    let too_large = "`invalid_request`: the body is larger than 16 KiB".to_owned();
    let mut described = BTreeMap::from([(413, too_large)]);
    for code in route.refusals() {
        let of_status = described.entry(code.kind().status).or_default();
        if !of_status.is_empty() {
            of_status.push_str("; ");
        }
        of_status.push_str(&sentence(code));
    }
    described
}

/// The code, what comes with it, and its title.
fn sentence(code: Code) -> String {
    let ProblemKind { code: word, member, english_title, .. } = code.kind();
    let beside = member.map(|kind| format!(" (with `{}`)", <&str>::from(kind)));
    format!("`{word}`{}: {english_title}", beside.unwrap_or_default())
}

/// The answer with this status, which is a [`Problem`].
fn refusal(status: u16, description: &str) -> Response {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", problem);
    let header = |schema: ObjectBuilder, description: &str| {
        HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
    };
    let response = match status {
        401 => {
            let bearer = ObjectBuilder::new().schema_type(Type::String);
            let bearer = bearer.enum_values(Some(["Bearer"]));
            response.header("WWW-Authenticate", header(bearer, "what would let you in"))
        }
        429 | 503 => {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
            let description = "in so many seconds another try may succeed";
            response.header("Retry-After", header(seconds, description))
        }
        _ => response,
    };
    response.build()
}

/// The last page has no next one. All other headers are always there, which the library's type has no member for; an extension
/// is written as it stands.
fn require_headers(response: &mut RefOr<Response>) {
    let RefOr::T(response) = response else { return };
    for (name, header) in &mut response.headers {
        if let RefOr::T(header) = header
            && name != "Link"
        {
            header.extensions = Some(Extensions::from_iter([("required", json!(true))]));
        }
    }
}

/// `/api/openapi.json`.
pub(super) fn routes(base: &BasePath) -> Router {
    let mut document = ApiDoc::openapi();
    document.servers = base.below_root().map(|path| vec![Server::new(path)]);
    let Ok(document) = document.to_json() else { unreachable!("a description is always JSON") };
    let document = Bytes::from(document);
    let headers =
        [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=60")];
    Router::new().route(PATH, get(async move || (headers, document.clone())))
}
