//! The matrix: a line a case, a column a server and level.

use super::case::CASES;
use super::cell::IsolationCell;
use super::server::{DatabaseKind, IsolationLevel};
use crate::Outcome;
use report::Table;

/// The matrix of these cells. What is not among them is shown as what makes no sense.
pub fn isolation_matrix(cells: &[IsolationCell]) -> String {
    let servers = DatabaseKind::ALL.into_iter();
    let servers: Vec<DatabaseKind> =
        servers.filter(|server| cells.iter().any(|cell| cell.of.server == *server)).collect();
    let levels = IsolationLevel::ALL.into_iter();
    let levels: Vec<IsolationLevel> =
        levels.filter(|level| cells.iter().any(|cell| cell.of.level == *level)).collect();
    let names: Vec<&str> = CASES
        .iter()
        .map(|case| case.name.as_str())
        .filter(|name| cells.iter().any(|cell| cell.of.case == *name))
        .collect();
    let columns: Vec<(DatabaseKind, IsolationLevel)> =
        servers.iter().flat_map(|server| levels.iter().map(|level| (*server, *level))).collect();
    let titles = columns.iter().map(|(server, level)| match *level == levels[0] {
        true => server.title(),
        false => "",
    });
    let heads: Vec<&str> = [""].into_iter().chain(titles).collect();
    let mut table = Table::new(&heads, &(1..heads.len()).collect::<Vec<_>>());
    table.add([""].into_iter().chain(columns.iter().map(|(_, level)| level.short())));
    for name in names {
        let signs = columns.iter().map(|(server, level)| {
            let is_it = |cell: &&IsolationCell| {
                (cell.of.case, cell.of.server, cell.of.level) == (name, *server, *level)
            };
            cells.iter().find(is_it).map_or_else(|| Outcome::Absent.sign().to_string(), sign)
        });
        table.add([name.to_owned()].into_iter().chain(signs));
    }
    table.text()
}

/// `✓ 40001`, and `!` before what is not as claimed.
fn sign(cell: &IsolationCell) -> String {
    let wrong = if cell.is_wrong() { "!" } else { "" };
    format!("{wrong}{} {}", cell.observed.sign(), cell.errors.as_deref().unwrap_or_default())
        .trim_end()
        .to_owned()
}
