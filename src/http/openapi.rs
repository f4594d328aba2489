//! The API described: OpenAPI 3.1, and a page to browse it that needs no network.

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr};
use utoipa::{Modify, OpenApi, ToSchema};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::problem::Code;
use super::{ApiError, operations, orders, sessions, vouchers};

/// Collects the descriptions that stand with the handlers.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "seckill", description = "A flash-sale voucher backend. Every refusal and \
        every failure is `application/problem+json` (RFC 9457) with a stable `code`; its title \
        is Chinese when `Accept-Language` prefers it."),
    paths(
        sessions::send_code,
        sessions::create,
        sessions::end_all,
        sessions::me,
        vouchers::list,
        vouchers::find,
        vouchers::create,
        orders::buy,
        orders::list,
        orders::find,
        operations::healthz,
        operations::readyz,
        operations::metrics,
    ),
    components(schemas(Problem)),
    modifiers(&TokenScheme, &Problems)
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
    #[schema(example = "urn:seckill:problem:already_bought")]
    r#type: String,
    /// In the language that the request prefers.
    #[schema(example = "You have bought this voucher already")]
    title: String,
    /// The status of the answer.
    #[schema(example = 409)]
    status: u16,
    /// For programs; never changes.
    #[schema(example = "already_bought")]
    code: String,
    /// About this occurrence.
    detail: Option<String>,
    /// With `already_bought`: the order.
    #[schema(example = "661897216000000001")]
    order_id: Option<String>,
    /// With `sale_not_started`: when it will begin.
    begin_time: Option<DateTime<Utc>>,
}

/// Says of every refusal that it is a [`Problem`].
struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let items = document.paths.paths.values_mut();
        let operations =
            items.flat_map(|item| [&mut item.get, &mut item.post, &mut item.delete]).flatten();
        for operation in operations {
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                if !status.starts_with('2') && response.content.is_empty() {
                    let problem = RefOr::T(Content::new(Some(Ref::from_schema_name("Problem"))));
                    response.content.insert("application/problem+json".to_owned(), problem);
                }
            }
        }
    }
}

/// `/docs` and `/api/openapi.json`.
pub fn pages() -> Router {
    let pages = SwaggerUi::new("/docs").url("/api/openapi.json", ApiDoc::openapi()).config(
        Config::default()
            .persist_authorization(true)
            .display_request_duration(true)
            // Otherwise the page shows our document to a validator on the network.
            .validator_url("none"),
    );
    // The page's own 404 has no body.
    Router::from(pages).layer(map_response(async |response: Response| {
        if response.status() == StatusCode::NOT_FOUND {
            return ApiError::new(Code::NotFound).into_response();
        }
        response
    }))
}
