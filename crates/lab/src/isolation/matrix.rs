//! The matrix: a line a case, a column a server and level.

use super::case::CASES;
use super::cell::IsolationCell;
use super::server::{DatabaseKind, IsolationLevel};
use crate::report::Mark;

/// The matrix of these cells. What is not among them is shown as what makes no sense.
pub fn isolation_matrix(cells: &[IsolationCell]) -> String {
    let servers = DatabaseKind::ALL.into_iter();
    let servers: Vec<DatabaseKind> =
        servers.filter(|server| cells.iter().any(|cell| cell.server == *server)).collect();
    let levels = IsolationLevel::ALL.into_iter();
    let levels: Vec<IsolationLevel> =
        levels.filter(|level| cells.iter().any(|cell| cell.level == *level)).collect();
    let names: Vec<&str> = CASES
        .iter()
        .map(|case| case.name.as_str())
        .filter(|name| cells.iter().any(|cell| cell.case == *name))
        .collect();
    let mut columns =
        vec![["", ""].into_iter().chain(names.iter().copied()).map(str::to_owned).collect()];
    for server in servers {
        for level in &levels {
            let title = if *level == levels[0] { server.title() } else { "" };
            let mut column = vec![title.to_owned(), level.short().to_owned()];
            column.extend(names.iter().map(|name| {
                let is_it = |cell: &&IsolationCell| {
                    (cell.case, cell.server, cell.level) == (*name, server, *level)
                };
                cells.iter().find(is_it).map_or_else(|| Mark::Absent.sign().to_string(), sign)
            }));
            columns.push(column);
        }
    }
    lines(&columns)
}

/// Columns side by side, each as wide as its widest entry.
fn lines(columns: &[Vec<String>]) -> String {
    let width = |column: &Vec<String>| column.iter().map(|it| it.chars().count()).max();
    let widths: Vec<usize> = columns.iter().map(|column| width(column).unwrap_or(0) + 2).collect();
    let rows = columns.first().map_or(0, Vec::len);
    let line = |row: usize| {
        let entries = columns.iter().zip(&widths);
        let line: String =
            entries.map(|(column, width)| format!("{:<width$}", column[row])).collect();
        line.trim_end().to_owned()
    };
    (0..rows).map(line).collect::<Vec<_>>().join("\n")
}

/// `✓ 40001`, and `!` before what is not as claimed.
fn sign(cell: &IsolationCell) -> String {
    let wrong = if cell.is_wrong() { "!" } else { "" };
    format!("{wrong}{} {}", Mark::from(cell.observed).sign(), cell.errors).trim_end().to_owned()
}
