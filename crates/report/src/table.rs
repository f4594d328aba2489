//! A table: columns of figures and of text, on a terminal and on a page.

use console::measure_text_width;
use maud::{Markup, html};

/// Rows below the names of their columns.
#[derive(Debug, Clone)]
pub struct Table {
    heads: Vec<String>,
    /// The columns of text, which begin at their left edge.
    text: Vec<usize>,
    rows: Vec<Vec<String>>,
    /// Between two columns on a terminal.
    space: usize,
}

impl Table {
    /// The first column is text, and so are those of these numbers; the others are figures.
    #[must_use]
    pub fn new(heads: &[&str], text: &[usize]) -> Self {
        let text = [&[0][..], text].concat();
        let heads = heads.iter().map(ToString::to_string).collect();
        Self { heads, text, rows: Vec::new(), space: 2 }
    }

    /// With so much space between two columns on a terminal.
    #[must_use]
    pub fn spaced(self, space: usize) -> Self {
        Self { space, ..self }
    }

    /// One more row; a single entry is a heading across all columns.
    pub fn add<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// On a terminal, without lines: each column as wide as its widest entry, whatever its colour.
    #[must_use]
    pub fn text(&self) -> String {
        let has_heads = self.heads.iter().any(|head| !head.is_empty());
        let rows: Vec<&Vec<String>> =
            has_heads.then_some(&self.heads).into_iter().chain(&self.rows).collect();
        let width = |column: usize| {
            let whole = rows.iter().filter(|row| row.len() == self.heads.len());
            whole.filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max()
        };
        let widths: Vec<usize> =
            (0..self.heads.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &&Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let room = " ".repeat(width.saturating_sub(measure_text_width(cell)));
                if self.text.contains(&column) { cell.clone() + &room } else { room + cell }
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(self.space)).trim_end().to_owned()
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// On a page.
    #[must_use]
    pub fn html(&self) -> Markup {
        let class = |column: usize| (!self.text.contains(&column)).then_some("number");
        html! {
            div.scroll {
                table {
                    thead { tr {
                        @for (column, head) in self.heads.iter().enumerate() {
                            th scope="col" class=[class(column)] { (head) }
                        }
                    } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, cell) in row.iter().enumerate() {
                                    td class=[class(column)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Without anything that a terminal obeys.
#[must_use]
pub fn escape(text: &str) -> String {
    let is_plain = |c: &char| {
        !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let escaped = |c: char| match is_plain(&c) {
        true => c.to_string(),
        false => c.escape_default().to_string(),
    };
    text.chars().map(escaped).collect()
}
