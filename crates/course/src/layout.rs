//! The page around a chapter: the contents, where one is, what comes before and after.

use ladder::{RUNGS, Rung};
use maud::{Markup, html};
use seckill::http::{Language, Texts};
use seckill::pages::Site;
use seckill::pages::page::HtmlPage;

use super::TEXTS;
use super::chapter::{CHAPTERS, Chapter};
use super::link::SOURCE_ANCHOR;
use super::markdown::{ChapterSection, RenderedChapter, rendered};
use super::{code_block, playing};

/// The page of a chapter.
pub(super) fn render(site: &Site, chapter: &Chapter, language: Language) -> String {
    let texts = TEXTS.of(language);
    let RenderedChapter { heading, body, mut sections } = rendered(chapter, language);
    if chapter.rung.is_some() {
        let (anchor, title) = (SOURCE_ANCHOR.to_owned(), texts["source"].to_owned());
        sections.push(ChapterSection { anchor, title });
    }
    let page = HtmlPage {
        language,
        title: &format!("{} · {}", chapter.title(language), texts["course"]),
        path: "/lab/course",
        styles: &["course.css"],
        libraries: &[],
        modules: &["course.js"],
        needs_scripts: false,
        texts,
        main: html! {
            div.course {
                (contents(chapter, &sections, language))
                article.chapter {
                    (head(chapter, &heading, language))
                    (body)
                    @if let Some(rung) = chapter.rung { (source(rung, language)) }
                    (neighbours(chapter, language))
                }
            }
        },
    };
    page.render(site)
}

/// All chapters, those of the rungs by part; below the one that is read, its sections.
fn contents(read: &Chapter, sections: &[ChapterSection], language: Language) -> Markup {
    let texts = TEXTS.of(language);
    let entry = |chapter: &Chapter, title: &str| {
        let is_read = chapter.name == read.name;
        html! {
            a href=(chapter.address(language)) aria-current=[is_read.then_some("page")] { (title) }
            @if is_read && !sections.is_empty() {
                ol.sections {
                    @for section in sections {
                        li { a href=(format!("#{}", section.anchor)) { (section.title) } }
                    }
                }
            }
        }
    };
    html! {
        details #contents.contents {
            summary { (texts["contents"]) }
            nav aria-label=(texts["contents"]) {
                (entry(&CHAPTERS[0], texts["index"]))
                @for part in ladder::parts() {
                    h2 { (part[0].part(language)) }
                    ol {
                        @for chapter in part.iter().filter_map(Chapter::of) {
                            li { (entry(chapter, &chapter.title(language))) }
                        }
                    }
                }
                h2 { (texts["beside"]) }
                ol {
                    @for chapter in Chapter::beside() {
                        li { (entry(chapter, &chapter.title(language))) }
                    }
                }
            }
        }
    }
}

/// The heading, and where in the course this is.
fn head(chapter: &Chapter, heading: &Markup, language: Language) -> Markup {
    let texts = TEXTS.of(language);
    html! {
        header {
            @if chapter.name.is_some() {
                p.place {
                    a href=(CHAPTERS[0].address(language)) { (texts["index"]) }
                    @if let Some(rung) = chapter.rung {
                        " › " (rung.part(language))
                        " · " (number(rung, texts))
                    }
                }
            }
            h1 { (heading) }
            @if let Some(rung) = chapter.rung {
                p.title { (rung.title(language).replace('`', "")) }
                p.play-rung {
                    a.primary href=(playing::rung_address(rung, language)) {
                        span aria-hidden="true" { "▶ " } (texts["play_rung"])
                    }
                    (playing::lessons(rung, language))
                }
            }
        }
    }
}

/// "rung 2 of 41".
fn number(rung: &Rung, texts: &Texts) -> String {
    let number = RUNGS.iter().take_while(|known| known.id != rung.id).count() + 1;
    let text = texts["number"].replace("{number}", &number.to_string());
    text.replace("{all}", &RUNGS.len().to_string())
}

/// The rung's file.
fn source(rung: &Rung, language: Language) -> Markup {
    html! {
        section.source aria-labelledby=(SOURCE_ANCHOR) {
            h2 id=(SOURCE_ANCHOR) { (TEXTS.of(language)["source"]) }
            p { code { "crates/ladder/src/" (rung.id) ".rs" } }
            (code_block::rust(rung.source))
        }
    }
}

/// The rungs before and after this one; after the index comes the first.
fn neighbours(chapter: &Chapter, language: Language) -> Markup {
    let texts = TEXTS.of(language);
    let at = CHAPTERS.iter().position(|known| known.name == chapter.name).unwrap_or_default();
    let rung_at = |at: Option<usize>| CHAPTERS.get(at?).filter(|chapter| chapter.rung.is_some());
    let is_in_line = chapter.rung.is_some() || chapter.name.is_none();
    let previous = rung_at(at.checked_sub(1)).filter(|_| is_in_line);
    let next = rung_at(Some(at + 1)).filter(|_| is_in_line);
    html! {
        nav.neighbours aria-label=(texts["index"]) {
            @if let Some(previous) = previous {
                a rel="prev" href=(previous.address(language)) {
                    span { "← " (texts["previous"]) } (previous.title(language))
                }
            }
            @if let Some(next) = next {
                a rel="next" href=(next.address(language)) {
                    span { (texts["next"]) " →" } (next.title(language))
                }
            }
        }
    }
}
