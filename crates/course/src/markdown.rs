//! A chapter's Markdown as HTML: headings with the anchors that GitHub gives them, links as they are served,
//! blocks as `code_block` shows them. Comments, which mark what `make course` writes, are left out.

use std::collections::BTreeMap;
use std::mem;

use console::measure_text_width;
use ladder::{Rung, Scenario};
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use seckill::http::Language;

use super::TEXTS;
use super::chapter::Chapter;
use super::{code_block, link};

/// What a reader sees of it, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChapterSection {
    pub(super) anchor: String,
    pub(super) title: String,
}

/// A chapter as HTML.
pub(super) struct RenderedChapter {
    /// What stands in its first heading.
    pub(super) heading: Markup,
    pub(super) body: Markup,
    /// Its headings of the second level.
    pub(super) sections: Vec<ChapterSection>,
}

/// The navigation of the repository's pages, which these pages have one of their own for.
const NAVIGATION: [&str; 2] = ["<!-- generated: nav -->", "<!-- end -->"];

/// Renders it.
pub(super) fn rendered(chapter: &Chapter, language: Language) -> RenderedChapter {
    let markdown = chapter.markdown(language);
    let [begin, end] = NAVIGATION;
    let (before, rest) = markdown.split_once(begin).unwrap_or((markdown, ""));
    let after = rest.split_once(end).map_or("", |(_, after)| after);
    let text = format!("{before}{after}");
    let mut writer = ChapterWriter::new(chapter, language);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        writer.take(event);
    }
    RenderedChapter {
        heading: written(writer.first_heading),
        body: written(without_gaps(writer.events)),
        sections: writer.sections,
    }
}

/// Without the ends of lines between two letters of Chinese: a browser would show each as a space.
pub fn without_gaps(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let is_chinese = |letter: Option<char>| {
        letter.is_some_and(|letter| measure_text_width(letter.encode_utf8(&mut [0; 4])) == 2)
    };
    let text = |event: &Event<'_>| match event {
        Event::Text(text) => Some(text.to_string()),
        // It has a frame, beside which a space is right.
        Event::Code(_) => Some(String::new()),
        _ => None,
    };
    let is_gap = |at: usize| {
        let before = events[..at].iter().rev().find_map(text);
        let after = events[at..].iter().find_map(text);
        let [before, after] = [before, after].map(Option::unwrap_or_default);
        is_chinese(before.chars().next_back()) && is_chinese(after.chars().next())
    };
    let gaps: Vec<bool> =
        (0..events.len()).map(|at| events[at] == Event::SoftBreak && is_gap(at)).collect();
    let kept = events.into_iter().zip(gaps).filter(|(_, is_gap)| !is_gap);
    kept.map(|(event, _)| event).collect()
}

/// The events as HTML.
pub fn written(events: Vec<Event<'_>>) -> Markup {
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events.into_iter());
    PreEscaped(html)
}

/// A heading that has begun.
struct OpenHeading {
    level: HeadingLevel,
    /// Where it stands among the events.
    at: usize,
    text: String,
}

struct ChapterWriter<'a> {
    chapter: &'a Chapter,
    language: Language,
    events: Vec<Event<'a>>,
    first_heading: Vec<Event<'a>>,
    sections: Vec<ChapterSection>,
    anchors: BTreeMap<String, usize>,
    heading: Option<OpenHeading>,
    /// The words after the fence of a block that has begun, and what stands in it.
    block: Option<(CowStr<'a>, String)>,
    /// Of the links that have begun, whether each leads anywhere.
    links: Vec<bool>,
    /// What the next diagram shows.
    shown: Option<(&'static Rung, Scenario)>,
}

impl<'a> ChapterWriter<'a> {
    fn new(chapter: &'a Chapter, language: Language) -> Self {
        Self {
            chapter,
            language,
            events: Vec::new(),
            first_heading: Vec::new(),
            sections: Vec::new(),
            anchors: BTreeMap::new(),
            heading: None,
            block: None,
            links: Vec::new(),
            shown: None,
        }
    }

    fn take(&mut self, event: Event<'a>) {
        if let (Event::Text(text) | Event::Code(text), Some(heading)) = (&event, &mut self.heading)
        {
            heading.text += text;
        }
        match event {
            Event::Text(text) if let Some((_, inside)) = &mut self.block => *inside += &text,
            Event::Html(html) | Event::InlineHtml(html) if html.starts_with("<!--") => {
                self.comment(&html)
            }
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            other => self.events.push(other),
        }
    }

    fn begin(&mut self, tag: Tag<'a>) {
        let tag = match tag {
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info,
                    CodeBlockKind::Indented => CowStr::Borrowed(""),
                };
                self.block = Some((info, String::new()));
                return;
            }
            Tag::Link { link_type, dest_url, title, id } => {
                let address = link::address(&dest_url, self.chapter, self.language);
                self.links.push(address.is_some());
                let Some(address) = address else { return };
                Tag::Link { link_type, dest_url: address.into(), title, id }
            }
            Tag::Heading { level, .. } => {
                self.heading =
                    Some(OpenHeading { level, at: self.events.len(), text: String::new() });
                tag
            }
            Tag::Table(columns) => {
                let label = TEXTS.of(self.language)["table"];
                self.push_html(&html! {
                    (PreEscaped(r#"<div class="table" tabindex="0" role="group" aria-label=""#)) (label)
                    (PreEscaped(r#"">"#))
                });
                // An alignment would be an inline style, which the page's policy forbids.
                Tag::Table(vec![pulldown_cmark::Alignment::None; columns.len()])
            }
            other => other,
        };
        self.events.push(Event::Start(tag));
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => {
                let Some((info, text)) = self.block.take() else { return };
                let shown = self.shown.take_if(|_| &*info == "mermaid");
                let block = code_block::html(&info, &text, shown, self.language);
                self.push_html(&block);
            }
            TagEnd::Link => {
                if self.links.pop() == Some(true) {
                    self.events.push(Event::End(tag));
                }
            }
            TagEnd::Heading(_) => self.end_heading(tag),
            TagEnd::Table => {
                self.events.push(Event::End(tag));
                self.events.push(Event::Html("</div>".into()));
            }
            other => self.events.push(Event::End(other)),
        }
    }

    /// The first heading of all stands where the page wants it; every other gets its anchor.
    fn end_heading(&mut self, tag: TagEnd) {
        let Some(OpenHeading { level, at, text }) = self.heading.take() else { return };
        let anchor = self.anchor(&text);
        if level == HeadingLevel::H1 {
            self.first_heading = self.events.split_off(at + 1);
            self.events.truncate(at);
            return;
        }
        if let Event::Start(Tag::Heading { id, .. }) = &mut self.events[at] {
            *id = Some(anchor.clone().into());
        }
        self.events.push(Event::End(tag));
        if level == HeadingLevel::H2 {
            self.sections.push(ChapterSection { anchor, title: text });
        }
    }

    /// As GitHub and mdBook make it: letters, digits, `-` and `_` stay; a second one of a name gets a number.
    fn anchor(&mut self, heading: &str) -> String {
        let lower = heading.to_lowercase();
        let letters = lower.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
        let name: String = letters.collect();
        let count = self.anchors.entry(name.clone()).or_default();
        let nth = mem::replace(count, *count + 1);
        if nth == 0 { name } else { format!("{name}-{nth}") }
    }

    /// A comment says what the diagram below it shows: `<!-- generated: diagram RUNG SCENARIO -->`.
    fn comment(&mut self, html: &str) {
        if let ["<!--", "generated:", "diagram", rung, scenario, "-->"] =
            html.split_whitespace().collect::<Vec<_>>()[..]
        {
            self.shown = code_block::played(rung, scenario);
        }
    }

    fn push_html(&mut self, html: &Markup) {
        self.events.push(Event::Html(html.0.clone().into()));
    }
}
