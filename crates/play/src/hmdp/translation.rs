//! From the application's requests to the server's, and from the server's answers to the application's.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use seckill::http::ApiError;
use seckill::http::problem::Code;

use super::PREFIX;
use super::answer::failure_body;

pub(super) const WRONG_CODE: &str = "验证码错误";

/// Translates what concerns a route of the application. The rest passes unseen.
pub(crate) async fn translate(mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    if !["/user/", "/voucher/", "/voucher-order/"].iter().any(|root| path.starts_with(root)) {
        return next.run(request).await;
    }
    let logs_in = path == "/user/login";
    let headers = request.headers_mut();
    add_scheme(headers);
    headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static("zh-CN"));
    translated(next.run(request).await, logs_in)
}

/// The application takes its token bare; the server wants `Bearer` before it.
fn add_scheme(headers: &mut HeaderMap) {
    let said = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bare = said.map(str::trim).filter(|token| !token.is_empty() && !token.contains(' '));
    let with_scheme = bare.and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(value) = with_scheme {
        headers.insert(header::AUTHORIZATION, value);
    }
}

fn translated(mut response: Response, logs_in: bool) -> Response {
    let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() else { return response };
    let (status, why) = told(response.status(), &error, logs_in);
    let (mut parts, _) = response.into_parts();
    parts.status = status;
    if status != StatusCode::UNAUTHORIZED {
        parts.headers.remove(header::WWW_AUTHENTICATE);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::CONTENT_TYPE);
    let body = why.map_or_else(Body::empty, |why| {
        let (content_type, body) = failure_body(&why);
        parts.headers.insert(header::CONTENT_TYPE, content_type);
        body
    });
    Response::from_parts(parts, body)
}

/// The status, and `errorMsg` where there is a body.
///
/// An expected "no" is 200. The status of what the sale did not decide stays: a load test that looks at nothing else
/// must not take a server that is overloaded for one that has sold out.
fn told(status: StatusCode, error: &ApiError, logs_in: bool) -> (StatusCode, Option<String>) {
    let title = error.kind.chinese_title;
    let why = error.detail.as_ref();
    let why = why.map_or_else(|| title.to_owned(), |detail| format!("{title}：{detail}"));
    match status {
        StatusCode::UNAUTHORIZED if logs_in => (StatusCode::OK, Some(WRONG_CODE.to_owned())),
        // As the application's interceptor.
        StatusCode::UNAUTHORIZED => (status, None),
        StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => {
            (StatusCode::OK, Some(why))
        }
        _ if error.kind == Code::VoucherNotFound.kind() => (StatusCode::OK, Some(why)),
        _ => (status, Some(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_no_is_200_and_what_the_sale_did_not_decide_keeps_its_status() {
        let told = |code: Code, logs_in| {
            let (status, why) = told(
                StatusCode::from_u16(code.kind().status).unwrap_or_default(),
                &ApiError::new(code).detail("why"),
                logs_in,
            );
            (status.as_u16(), why)
        };
        for code in Code::ALL {
            let title = code.kind().chinese_title;
            let why = Some(format!("{title}：why"));
            let expected = match code {
                Code::Unauthenticated => (401, None),
                Code::Forbidden => (403, why.clone()),
                Code::NotFound | Code::OrderNotFound | Code::EntryNotFound => (404, why.clone()),
                Code::MethodNotAllowed => (405, why.clone()),
                Code::TooManyRequests => (429, why.clone()),
                Code::Internal => (500, why.clone()),
                Code::Unavailable | Code::PayUrlRefused => (503, why.clone()),
                _ => (200, why.clone()),
            };
            assert_eq!(told(code, false), expected, "{code:?}");
        }
        // In the application's own words.
        let twice = told(Code::OrderInProgress, false).1;
        assert_eq!(twice.as_deref(), Some("不允许重复下单：why"));
        assert_eq!(told(Code::Unauthenticated, true), (200, Some(WRONG_CODE.to_owned())));
    }

    #[test]
    fn a_bare_token_gets_its_scheme_and_any_other_value_stays() {
        let sent = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            add_scheme(&mut headers);
            headers.remove(header::AUTHORIZATION)
        };
        assert_eq!(sent("a.b.c").as_ref(), Some(&HeaderValue::from_static("Bearer a.b.c")));
        for other in ["Bearer a.b.c", "bearer a", "Basic a", "", "a b"] {
            assert_eq!(sent(other).as_ref(), Some(&HeaderValue::from_static(other)), "{other}");
        }
    }
}
