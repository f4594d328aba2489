//! `/`: the vouchers, and buying one.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use maud::html;

use super::page::{HtmlPage, PageFiles, PageLanguage};
use super::texts::texts;
use crate::http::Language;

texts! {
    /// The texts of the page.
    Storefront {
        title: "Flash sales", "限时秒杀";
        nothing_yet: "No sale yet.", "暂无活动。";
    }
}

static PAGE: LazyLock<PageFiles> = LazyLock::new(|| PageFiles::new(render));

/// The page.
pub(super) async fn page(language: PageLanguage, headers: HeaderMap) -> Response {
    PAGE.answer(language, &headers).await
}

fn render(language: Language) -> String {
    let texts = Storefront::of(language);
    let main = html! {
        h1 { (texts.title) }
        ul #vouchers.vouchers {}
    };
    let page = HtmlPage {
        language,
        title: texts.title,
        path: "/",
        styles: &[],
        libraries: &[],
        module: "storefront.js",
        texts,
        main,
    };
    page.render()
}
