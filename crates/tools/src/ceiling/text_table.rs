//! A table, for people and for Markdown.

use comfy_table::{CellAlignment, Table, presets};

/// Title, columns and rows. The first column is text, and so are those that `text` names.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    pub(super) title: String,
    pub(super) columns: Vec<&'static str>,
    pub(super) text: Vec<&'static str>,
    pub(super) rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), ..Self::default() }
    }

    /// Further columns that are text.
    pub(super) fn with_text(mut self, columns: &[&'static str]) -> Self {
        self.text = columns.to_vec();
        self
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn is_text(&self, column: usize) -> bool {
        column == 0 || self.columns.get(column).is_some_and(|name| self.text.contains(name))
    }

    /// For a terminal.
    pub(super) fn plain(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.columns.iter().map(|name| name.to_uppercase()));
        for row in &self.rows {
            table.add_row(row);
        }
        for column in (0..self.columns.len()).filter(|column| !self.is_text(*column)) {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{}\n{}", self.title, table.trim_fmt())
    }

    /// For a document.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let names: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let rules: Vec<String> = (0..self.columns.len())
            .map(|column| if self.is_text(column) { "---" } else { "---:" }.to_owned())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("### {}\n\n{}{}{rows}", self.title, line(&names), line(&rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_a_table_in_both_ways() {
        let mut text_table = TextTable::new("Things", &["thing", "a second", ""]).with_text(&[""]);
        text_table.row(["one", "4,011", "met"].map(str::to_owned));
        assert_eq!(
            text_table.markdown(),
            "### Things\n\n| thing | a second |  |\n| --- | ---: | --- |\n| one | 4,011 | met |\n"
        );
        let plain = text_table.plain();
        assert!(plain.starts_with("Things\n") && plain.contains("4,011"), "{plain}");
    }
}
