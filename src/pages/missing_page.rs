//! What people see who ask for a page that is not there. Programs get a problem document.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, any};
use maud::html;

use super::page::{HtmlPage, PageFiles, PageLanguage};
use super::site::Site;
use crate::http::problem::Code;
use crate::http::{ApiError, Language, TextFile, accepted};

/// What the page says.
static TEXTS: TextFile = TextFile::new(include_str!("missing_page.toml"));

/// What answers if no page has the address.
#[derive(Debug, Clone)]
pub struct MissingPage(Arc<PageFiles>);

impl MissingPage {
    /// Of this site.
    pub fn new(site: &Site) -> Self {
        Self(Arc::new(PageFiles::new(|language| render(site, language))))
    }

    /// The answer to a request with these headers.
    pub async fn answer(&self, language: PageLanguage, headers: &HeaderMap) -> Response {
        if !wants_html(headers) {
            return ApiError::new(Code::NotFound).into_response();
        }
        let mut response = self.0.answer(language, headers).await;
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}

/// Answers at every address that no other route has.
pub(super) fn route<S: Clone + Send + Sync + 'static>(site: &Site) -> MethodRouter<S> {
    let missing = MissingPage::new(site);
    any(move |language: PageLanguage, method: Method, uri: Uri, headers: HeaderMap| {
        let missing = missing.clone();
        async move {
            // Some programs say that they take HTML, and mean nothing by it.
            if uri.path().starts_with("/api") {
                return ApiError::new(Code::NotFound).into_response();
            }
            match without_slash(&uri).filter(|_| method.is_safe()) {
                Some(address) => Redirect::permanent(&address).into_response(),
                None => missing.answer(language, &headers).await,
            }
        }
    })
}

/// Where the page is of somebody who adds a slash. After two slashes at its beginning an address names another server.
fn without_slash(uri: &Uri) -> Option<String> {
    let path = uri.path().strip_suffix('/')?.trim_matches(['/', '\\']);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("/{path}{query}"))
}

/// A browser that opens a page names HTML; a script, and a program, take anything.
fn wants_html(headers: &HeaderMap) -> bool {
    accepted(headers, header::ACCEPT).any(|(kind, _)| kind.eq_ignore_ascii_case("text/html"))
}

fn render(site: &Site, language: Language) -> String {
    let texts = TEXTS.of(language);
    let page = HtmlPage {
        // It keeps the language that was chosen.
        modules: &["page.js"],
        needs_scripts: false,
        main: html! {
            h1 { (texts["title"]) }
            p { (texts["about"]) }
            p { a href=(site.base.address("/")) { (texts["start"]) } }
        },
        ..HtmlPage::of("", language, texts)
    };
    page.render(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_slash_leads_to_the_same_server_without_it() {
        for (address, leads_to) in [
            ("/lab/", Some("/lab")),
            ("/lab/course/?lang=zh-CN", Some("/lab/course?lang=zh-CN")),
            ("/lab//", Some("/lab")),
            ("//", Some("/")),
            ("//evil.example/", Some("/evil.example")),
            ("/\\evil.example/", Some("/evil.example")),
            ("/lab", None),
            ("/lab?from=/board/", None),
        ] {
            let Ok(uri) = address.parse() else { unreachable!("{address}") };
            assert_eq!(without_slash(&uri).as_deref(), leads_to, "{address}");
        }
    }
}
