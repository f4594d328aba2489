//! The form of every answer: `{"success", "errorMsg", "data", "total"}`, status 200.
//!
//! The application leaves out members that are null (`default-property-inclusion: non_null`), and plans have
//! regular expressions such as `"data":(.+?)}`. So they are left out here, too; `total` is never there, because
//! no route of these pages its answer.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// With the character set: JMeter takes JSON without one for ISO 8859-1.
const JSON: HeaderValue = HeaderValue::from_static("application/json;charset=UTF-8");

#[derive(Serialize)]
struct HmdpAnswer<'a, T> {
    success: bool,
    #[serde(rename = "errorMsg", skip_serializing_if = "Option::is_none")]
    error_msg: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
}

impl<T: Serialize> HmdpAnswer<'_, T> {
    fn to_json(&self) -> Bytes {
        let Ok(json) = serde_json::to_vec(self) else {
            unreachable!("texts and numbers are always JSON")
        };
        json.into()
    }
}

/// An answer with `success: true`.
pub(super) fn success<T: Serialize>(data: Option<T>) -> Response {
    written(success_body(data))
}

/// The body of [`success`], for many answers.
pub(super) fn success_body<T: Serialize>(data: Option<T>) -> Bytes {
    HmdpAnswer { success: true, error_msg: None, data }.to_json()
}

/// An answer with this body.
pub(super) fn written(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, JSON)], body).into_response()
}

/// The content type and the body of [`failure`], for an answer with another status.
pub(super) fn failure_body(why: &str) -> (HeaderValue, Body) {
    (JSON, HmdpAnswer { success: false, error_msg: Some(why), data: None::<()> }.to_json().into())
}

/// An answer with `success: false`.
pub(super) fn failure(why: &str) -> Response {
    let (content_type, body) = failure_body(why);
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}
