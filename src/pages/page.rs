//! What all pages share: the frame, the language, the policy.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderValue, header, request::Parts};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use url::form_urlencoded;

use super::assets::ICON;
use super::site::Site;
use crate::http::static_file::StaticFile;
use crate::http::{Language, TextFile, Texts};

/// A page loads what this program serves and nothing else. No script makes HTML of text: what a voucher
/// is called stays text (`require-trusted-types-for`).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// What stands on every page.
static TEXTS: TextFile = TextFile::new(include_str!("frame.toml"));

/// The language of a page: the one that `?lang=` names, else the browser's.
#[derive(Debug, Clone, Copy)]
pub struct PageLanguage(pub Language);

impl<S: Sync> FromRequestParts<S> for PageLanguage {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        let named = form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "lang").then(|| Language::named(&value))?);
        Ok(Self(named.unwrap_or_else(|| Language::preferred(&parts.headers))))
    }
}

/// What distinguishes a page from the others.
#[derive(Debug)]
pub struct HtmlPage<'a, T> {
    /// The language of all that follows.
    pub language: Language,
    /// The title of the window.
    pub title: &'a str,
    /// Where the page is, as the navigation names it.
    pub path: &'static str,
    /// Style sheets beside `style.css`: names of assets.
    pub styles: &'a [&'static str],
    /// Scripts that are no modules, in the order in which they run, before the module.
    pub libraries: &'a [&'static str],
    /// The page's modules: names of assets.
    pub modules: &'a [&'static str],
    /// Whether the page is nothing without them.
    pub needs_scripts: bool,
    /// What the module says; `page.js` exports them as `texts`.
    pub texts: &'a T,
    /// The content.
    pub main: Markup,
}

impl<'a> HtmlPage<'a, Texts> {
    /// A page that has its texts and no content yet.
    pub fn of(path: &'static str, language: Language, texts: &'a Texts) -> Self {
        let (styles, libraries, modules) = (&[], &[], &[]);
        let (title, main) = (texts["title"], html! {});
        Self { language, title, path, styles, libraries, modules, needs_scripts: true, texts, main }
    }
}

impl<T: Serialize> HtmlPage<'_, T> {
    /// The page as it is served.
    pub fn render(self, site: &Site) -> String {
        let frame = TEXTS.of(self.language);
        let page = html! {
            (DOCTYPE)
            html lang=(self.language.tag()) data-currency=(site.currency)
                data-decimals=(site.currency.decimals()) data-base=[site.base.below_root()] {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    link rel="icon" type="image/svg+xml" href=(site.asset(ICON));
                    @for style in ["style.css"].iter().chain(self.styles) {
                        link rel="stylesheet" href=(site.asset(style));
                    }
                    link rel="modulepreload" href=(site.asset("page.js"));
                    @for library in self.libraries {
                        script defer src=(site.asset(library)) {}
                    }
                    @for module in self.modules {
                        script type="module" src=(site.asset(module)) {}
                    }
                }
                body {
                    a.skip href="#main" { (frame["skip"]) }
                    (navigation(site, self.language, self.path))
                    main #main tabindex="-1" {
                        @if self.needs_scripts {
                            noscript { p.notice { (frame["scripts_needed"]) } }
                        }
                        (self.main)
                    }
                    script #texts type="application/json" { (json(self.texts)) }
                }
            }
        };
        page.into_string()
    }
}

fn navigation(site: &Site, language: Language, path: &str) -> Markup {
    let frame = TEXTS.of(language);
    html! {
        header.top {
            div {
                a.brand href=(site.base.address("/")) { "seckill" }
                nav aria-label="seckill" {
                    @for (target, [english, chinese]) in site.navigation {
                        a href=(site.base.address(target)) aria-current=[(path == *target).then_some("page")] {
                            (language.choose(english, chinese))
                        }
                    }
                    a href=(site.base.address("/docs/")) { (frame["api"]) }
                }
                a #language href=(format!("?lang={}", frame["other_tag"])) lang=(frame["other_tag"])
                    hreflang=(frame["other_tag"]) { (frame["other_language"]) }
            }
        }
    }
}

/// A value in a script element, where nothing must look like the element's end.
fn json(value: &impl Serialize) -> PreEscaped<String> {
    let Ok(json) = serde_json::to_string(value) else { unreachable!("texts are always JSON") };
    PreEscaped(json.replace('<', "\\u003c"))
}

/// A page in both languages, made once.
#[derive(Debug)]
pub struct PageFiles {
    english: StaticFile,
    chinese: StaticFile,
}

impl PageFiles {
    /// The page that `render` writes.
    pub fn new(render: impl Fn(Language) -> String) -> Self {
        let file = |language| {
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            StaticFile::new(html, render(language).into())
        };
        Self { english: file(Language::English), chinese: file(Language::Chinese) }
    }

    /// A route that answers with the page.
    pub fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        let files = Arc::new(self);
        get(move |language: PageLanguage, headers: HeaderMap| {
            let files = Arc::clone(&files);
            async move { files.answer(language, &headers).await }
        })
    }

    /// The page for a request with these headers.
    pub async fn answer(
        &self,
        PageLanguage(language): PageLanguage,
        headers: &HeaderMap,
    ) -> Response {
        let file = language.choose(&self.english, &self.chinese);
        let mut response = file.answer(headers).await;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(language.tag()));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding, accept-language"));
        response
    }
}
