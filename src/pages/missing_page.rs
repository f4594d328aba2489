//! What people see who ask for a page that is not there. Programs hear a problem document.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, any};
use maud::html;

use super::page::{HtmlPage, PageFiles, PageLanguage};
use super::site::Site;
use crate::http::problem::Code;
use crate::http::{ApiError, Language};
use crate::texts;

texts! {
    /// What the page says.
    MissingPage {
        title: "There is no such page", "页面不存在";
        about: "The address may be mistyped, or the page is gone.", "地址可能有误，或者页面已经不在了。";
        start: "To the first page", "返回首页";
    }
}

/// Answers at every address that no other route has.
pub(super) fn route<S: Clone + Send + Sync + 'static>(site: &Site) -> MethodRouter<S> {
    let files = Arc::new(PageFiles::new(|language| render(site, language)));
    any(move |language: PageLanguage, headers: HeaderMap| {
        let files = Arc::clone(&files);
        async move {
            if !wants_html(&headers) {
                return ApiError::new(Code::NotFound).into_response();
            }
            let mut response = files.answer(language, &headers).await;
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    })
}

/// A browser that opens a page names HTML; a script, and a program, take anything.
fn wants_html(headers: &HeaderMap) -> bool {
    let types = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    types.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

fn render(site: &Site, language: Language) -> String {
    let texts = MissingPage::of(language);
    let page = HtmlPage {
        language,
        title: texts.title,
        path: "",
        styles: &[],
        libraries: &[],
        modules: &[],
        texts,
        main: html! {
            h1 { (texts.title) }
            p { (texts.about) }
            p { a href="/" { (texts.start) } }
        },
    };
    page.render(site)
}
