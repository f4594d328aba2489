//! The course as pages, below `/lab/course`: what stands in `docs/ladder`, and the files of the rungs. It plays nothing.
//!
//! `chapter` is what there is to read; `markdown` makes HTML of a chapter, with its `link`s, `code_block`s and
//! `diagram`s, which `drawing` draws, and `playing` says how to see a scenario; `layout` is the page around it.
//! `source_code` is Rust in colours, for all who show a rung's file.
//!
//! A page is rendered when somebody first reads it, and then kept. A build script could not render it: the
//! pages say what the ladder says of its rungs, and the build would compile the ladder twice.

pub mod chapter;
mod code_block;
pub mod diagram;
pub mod drawing;
mod layout;
pub mod link;
pub mod markdown;
mod playing;
pub mod source_code;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use seckill::http::TextFile;
use seckill::pages::page::{PageFiles, PageLanguage};
use seckill::pages::{self, Asset, MissingPage, Site};

use self::chapter::{CHAPTERS, Chapter};

/// The script of the pages, for the site that they are on.
pub const SCRIPT: Asset = ("course.js", pages::SCRIPT, include_bytes!("../web/course.js"));

/// Their style.
pub const STYLE: Asset = ("course.css", pages::STYLE, include_bytes!("../web/course.css"));

/// What stands around a chapter.
static TEXTS: TextFile = TextFile::new(include_str!("frame.toml"));

/// The pages of a site, each made for its first reader.
struct CoursePages {
    site: Arc<Site>,
    missing: MissingPage,
    files: Vec<OnceLock<PageFiles>>,
}

impl CoursePages {
    async fn answer(&self, nth: usize, language: PageLanguage, headers: &HeaderMap) -> Response {
        let chapter = &CHAPTERS[nth];
        let make = || PageFiles::new(|language| layout::render(&self.site, chapter, language));
        self.files[nth].get_or_init(make).answer(language, headers).await
    }
}

/// The index and all chapters.
pub fn routes<S: Clone + Send + Sync + 'static>(site: &Arc<Site>) -> Router<S> {
    let files = CHAPTERS.iter().map(|_| OnceLock::new()).collect();
    let missing = MissingPage::new(site);
    let pages = Arc::new(CoursePages { site: Arc::clone(site), missing, files });
    let of_index = Arc::clone(&pages);
    let index = async move |language: PageLanguage, headers: HeaderMap| {
        of_index.answer(0, language, &headers).await
    };
    let chapter = async move |Path(name): Path<String>,
                              RawQuery(query): RawQuery,
                              language: PageLanguage,
                              headers: HeaderMap| {
        match CHAPTERS.iter().position(|chapter| chapter.name == Some(name.as_str())) {
            Some(nth) => pages.answer(nth, language, &headers).await,
            None => match elsewhere(&name, query.as_deref()) {
                Some(redirect) => redirect.into_response(),
                None => pages.missing.answer(language, &headers).await,
            },
        }
    };
    Router::new().route("/lab/course", get(index)).route("/lab/course/{chapter}", get(chapter))
}

/// A rung may be named by the beginning of its name, as everywhere: its page is there under the whole of it.
fn elsewhere(name: &str, query: Option<&str>) -> Option<Redirect> {
    let path = ladder::find(name).ok().and_then(Chapter::of).map(Chapter::path)?;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Some(Redirect::temporary(&format!("{path}{query}")))
}
