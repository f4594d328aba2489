//! A server that stands below a path of its host. Its routes, and the metrics by route, know nothing of the path.

use axum::Router;
use axum::extract::Request;
use axum::http::header::{LINK, LOCATION};
use axum::http::{HeaderValue, Uri};
use tower::ServiceExt;

use super::ApiError;
use super::problem::Code;
use super::router::with_common_layers;
use crate::config::BasePath;

/// `routes` below `base`; every other path is 404.
pub(super) fn below(base: BasePath, routes: Router) -> Router {
    let Some(path) = base.below_root().map(str::to_owned) else { return routes };
    let beside = with_common_layers(Router::new().fallback(async || ApiError::new(Code::NotFound)));
    Router::new().fallback(async move |mut request: Request| {
        let found = match within(&path, request.uri()) {
            Some(uri) => {
                *request.uri_mut() = uri;
                routes
            }
            None => beside,
        };
        let Ok(mut response) = found.oneshot(request).await;
        for name in [LOCATION, LINK] {
            if let Some(value) = response.headers_mut().get_mut(name) {
                *value = outward(&path, value);
            }
        }
        response
    })
}

/// The part of `uri` below `path`.
fn within(path: &str, uri: &Uri) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(path)?;
    let is_below = rest.is_empty() || rest.starts_with(['/', '?']);
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    format!("/{rest}").parse().ok().filter(|_| is_below)
}

/// A header with an address, `/…` or `</…>`, as clients reach it.
fn outward(path: &str, value: &HeaderValue) -> HeaderValue {
    let text = value.to_str().unwrap_or_default();
    let (bracket, address) = text.split_at(usize::from(text.starts_with('<')));
    let outward = address.starts_with('/').then(|| format!("{bracket}{path}{address}"));
    outward.and_then(|text| text.try_into().ok()).unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_below_the_path_or_beside_it() {
        for (address, leads_to) in [
            ("/shop", Some("/")),
            ("/shop/", Some("/")),
            ("/shop?lang=en", Some("/?lang=en")),
            ("/shop/board?voucher=7", Some("/board?voucher=7")),
            ("/shop//evil.example/", Some("//evil.example/")),
            ("http://host/shop/healthz", Some("/healthz")),
            ("/shop/shop", Some("/shop")),
            ("/shopping", None),
            ("/", None),
            ("/healthz", None),
            ("*", None),
        ] {
            let Ok(uri) = address.parse() else { unreachable!("{address}") };
            let found = within("/shop", &uri);
            assert_eq!(found.map(|uri| uri.to_string()).as_deref(), leads_to, "{address}");
        }
    }

    #[test]
    fn only_addresses_of_this_host_are_led_below_the_path() {
        for (told, leads_to) in [
            ("/api/orders/7", "/shop/api/orders/7"),
            (
                "</api/orders?before=7&limit=1>; rel=\"next\"",
                "</shop/api/orders?before=7&limit=1>; rel=\"next\"",
            ),
            ("https://pay.example/7", "https://pay.example/7"),
        ] {
            assert_eq!(outward("/shop", &HeaderValue::from_static(told)), leads_to);
        }
    }
}
