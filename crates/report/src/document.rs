//! A page in one file: to look at without a network, and to send to a colleague.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// What all pages have: colours as variables, so that light, dark and paper are one page; headings, verdicts, tables.
const STYLE: &str = include_str!("style.css");

/// Whether scripts may run on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// None, whatever stands on it.
    Forbidden,
    /// Those that the page brings along.
    Own,
}

impl Scripts {
    /// Nothing is ever loaded.
    const fn policy(self) -> &'static str {
        match self {
            Self::Forbidden => "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
            Self::Own => {
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
            }
        }
    }
}

/// What distinguishes a page from the others.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Of the window.
    pub title: &'a str,
    /// Beside the style of all pages.
    pub style: &'a str,
    /// Whether it has scripts.
    pub scripts: Scripts,
}

impl Document<'_> {
    /// The page with this body.
    #[must_use]
    pub fn page(self, body: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                (self.head())
                body { (body) }
            }
        };
        page.into_string()
    }

    /// Its head.
    #[must_use]
    fn head(self) -> Markup {
        html! {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(self.scripts.policy());
                link rel="icon" href="data:,";
                title { (self.title) }
                style { (PreEscaped(STYLE)) (PreEscaped(self.style)) }
            }
        }
    }
}
