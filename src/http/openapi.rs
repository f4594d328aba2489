//! The API described: OpenAPI 3.1, and a page to browse it that needs no network.

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{operations, orders, sessions, vouchers};

/// Collects the descriptions that stand with the handlers.
#[derive(Debug, OpenApi)]
#[openapi(
    info(title = "seckill", description = "A flash-sale voucher backend. Every answer that is \
        not a success is `application/problem+json` (RFC 9457) with a stable `code`; its title \
        is Chinese when `Accept-Language` prefers it."),
    paths(
        sessions::send_code,
        sessions::create,
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
    modifiers(&TokenScheme)
)]
pub struct ApiDoc;

struct TokenScheme;

impl Modify for TokenScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// `/docs` and `/api/openapi.json`.
pub fn pages() -> SwaggerUi {
    SwaggerUi::new("/docs")
        .url("/api/openapi.json", ApiDoc::openapi())
        .config(Config::default().persist_authorization(true).display_request_duration(true))
}
