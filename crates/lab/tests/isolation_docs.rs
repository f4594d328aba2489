//! The page on isolation levels, in both languages, against the registry. Its timelines are compared where every cell is
//! played: in `lab_isolation`.

use std::collections::BTreeMap;

use seckill_lab::MatrixPlace;
use seckill_lab::isolation::{
    CASES, DatabaseKind, IsolationCell, IsolationLevel, isolation_matrix, unplayed_cell,
};

use crate::course::page::{self, Block};

const PAGES: [&str; 2] = ["docs/ladder/isolation.md", "docs/ladder/isolation.zh-CN.md"];

/// The blocks of a page that name a cell or the matrix.
fn blocks(page: &str) -> Vec<Block> {
    let blocks = page::blocks(page).into_iter();
    blocks.filter(|block| block.info().starts_with(&["text", "isolation"])).collect()
}

/// The timelines of a page, by the names of their cells: "write_skew postgres serializable".
pub fn timelines() -> BTreeMap<String, Block> {
    let blocks = blocks(PAGES[0]).into_iter().filter(|block| !is_matrix(block));
    blocks.map(|block| (block.info()[2..].join(" "), block)).collect()
}

fn is_matrix(block: &Block) -> bool {
    block.info()[2..] == ["matrix"]
}

/// All cells as the registry claims them.
fn claimed() -> Vec<IsolationCell> {
    let mut cells = Vec::new();
    for known in CASES.iter() {
        for kind in DatabaseKind::ALL {
            for level in IsolationLevel::ALL {
                let Some(claim) = known.claim(kind, level) else { continue };
                let cell = unplayed_cell(known, kind, level, claim, (claim.outcome, None));
                cells.push(IsolationCell { errors: Some(claim.errors.to_owned()), ..cell });
            }
        }
    }
    cells
}

#[test]
fn the_matrix_of_isolation_levels_is_that_of_the_registry() {
    let claimed = isolation_matrix(&claimed());
    for page in PAGES {
        let matrix = blocks(page).into_iter().find(is_matrix);
        let matrix = matrix.unwrap_or_else(|| panic!("{page} has no matrix"));
        assert!(matrix.text() == claimed, "{page}: the matrix is\n{claimed}");
    }
}

#[test]
fn the_pages_on_isolation_show_the_same_and_name_every_lesson() {
    let shown = |page| -> Vec<_> {
        blocks(page).into_iter().map(|block| (block.info, block.lines)).collect()
    };
    let [english, chinese] = PAGES.map(shown);
    assert_eq!(english, chinese);
    let (timelines, claimed) = (timelines(), claimed());
    assert!(timelines.len() >= 5, "only {} timelines", timelines.len());
    for (name, block) in timelines {
        assert!(claimed.iter().any(|cell| cell.of.name() == name), "{}: {name}", block.place);
    }
    let rungs = ["r01", "r02", "r03", "r04", "r05", "r18", "advisory_last", "advisory_twice"];
    for page in PAGES {
        let text = page::read(page);
        for known in CASES.iter() {
            let name = &known.name;
            let is_lesson = !rungs.iter().any(|rung| name.starts_with(rung));
            assert!(!is_lesson || text.contains(&format!("`{name}`")), "{page}: {name}");
        }
    }
}
