//! A page of Markdown, as tests ask it: where it leads, what it names, and what its tables say.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What a page has, in its order. Fenced blocks are left out.
#[derive(Default)]
pub struct MarkdownPage {
    /// The anchors of its headings, as GitHub makes them, and of elements with an `id`.
    pub anchors: BTreeSet<String>,
    /// Where links and pictures lead.
    pub links: Vec<String>,
    /// What stands between backquotes.
    pub quoted: Vec<String>,
    /// The cells of each row of a table as they are written, the heads included.
    pub rows: Vec<Vec<String>>,
}

impl MarkdownPage {
    pub fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            if let (Some(heading), Event::Text(words) | Event::Code(words)) = (&mut heading, &event)
            {
                heading.push_str(words);
            }
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.add_anchor(&heading.take().unwrap()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Code(words) => page.quoted.push(words.into_string()),
                Event::Start(Tag::TableHead | Tag::TableRow) => page.rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    page.rows.last_mut().unwrap().push(text[range].trim().to_owned());
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let names = html.split(" id=\"").skip(1);
                    page.anchors
                        .extend(names.map(|name| name.split('"').next().unwrap().to_owned()));
                }
                _ => {}
            }
        }
        page
    }

    /// A heading that is there already gets a number.
    fn add_anchor(&mut self, heading: &str) {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let again = (1..).map(|nth| format!("{anchor}-{nth}"));
        let mut names = [anchor.clone()].into_iter().chain(again);
        self.anchors.extend(names.find(|name| !self.anchors.contains(name)));
    }
}

#[test]
fn a_page_is_read_as_github_shows_it() {
    let page = MarkdownPage::of(
        "# A run of `check`, step by step\n\n## 运行\n### What if...\n## 运行\n```sh\n# no `no`\n```\n\
         [a](b.md#c) `[x](y)` ![p](q.png) <a id=\"z\"></a>\n\n| a | `b` |\n| --- | --- |\n| 1 | [c](d) `e\\|f` |\n",
    );
    let anchors = ["a-run-of-check-step-by-step", "what-if", "z", "运行", "运行-1"];
    assert_eq!(page.anchors, anchors.map(str::to_owned).into());
    assert_eq!(page.links, ["b.md#c", "q.png", "d"]);
    assert_eq!(page.quoted, ["check", "[x](y)", "b", "e|f"]);
    assert_eq!(page.rows, [["a", "`b`"], ["1", "[c](d) `e\\|f`"]]);
}
