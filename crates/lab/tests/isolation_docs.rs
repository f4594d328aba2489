//! The page on isolation levels, in both languages, against the lab: every timeline and the matrix are what
//! `seckill lab isolation` prints today.

use std::collections::BTreeSet;

use clap::ValueEnum;
use ladder::Tables;
use seckill::http::Language;
use seckill_lab::isolation::{
    CASES, DatabaseKind, IsolationCase, IsolationCell, IsolationLevel, IsolationServer,
    isolation_matrix, play_cell, unplayed_cell,
};

use crate::course::page::{self, Block};
use crate::course::timeline::printed;
use crate::kept::new_lab as lab;
use testkit::needs::needs_mariadb;

const PAGES: [&str; 2] = ["docs/ladder/isolation.md", "docs/ladder/isolation.zh-CN.md"];

/// The blocks of a page that name a cell or the matrix.
fn blocks(page: &str) -> Vec<Block> {
    let blocks = page::blocks(page).into_iter();
    blocks.filter(|block| block.info().starts_with(&["text", "isolation"])).collect()
}

fn timelines() -> Vec<(Block, &'static IsolationCase, DatabaseKind, IsolationLevel)> {
    let blocks = PAGES.into_iter().flat_map(blocks).filter(|block| !is_matrix(block));
    let found = blocks.map(|block| {
        let [_, _, case, server, level] = block.info()[..] else { panic!("{block:?}") };
        let known = CASES.iter().find(|known| known.name == case).expect(case);
        let server = DatabaseKind::from_str(server, false).unwrap();
        let level = IsolationLevel::from_str(level, false).unwrap();
        (block, known, server, level)
    });
    found.collect()
}

fn is_matrix(block: &Block) -> bool {
    block.info()[2..] == ["matrix"]
}

/// The matrix as the registry claims it.
fn claimed_matrix() -> String {
    let mut cells = Vec::new();
    for known in CASES.iter() {
        for kind in DatabaseKind::ALL {
            for level in IsolationLevel::ALL {
                let Some(claim) = known.claim(kind, level) else { continue };
                let observed = claim.outcome;
                let cell = unplayed_cell(known, kind, level, claim, (observed, None));
                let errors = Some(claim.errors.to_owned());
                cells.push(IsolationCell { errors, ..cell });
            }
        }
    }
    isolation_matrix(&cells)
}

#[test]
fn the_matrix_of_isolation_levels_is_that_of_the_registry() {
    for page in PAGES {
        let matrix = blocks(page).into_iter().find(is_matrix);
        let matrix = matrix.unwrap_or_else(|| panic!("{page} has no matrix"));
        assert!(matrix.text() == claimed_matrix(), "{page}: the matrix is\n{}", claimed_matrix());
    }
}

#[test]
fn the_pages_on_isolation_show_the_same_and_name_every_lesson() {
    let shown = |page| -> Vec<_> {
        blocks(page).into_iter().map(|block| (block.info, block.lines)).collect()
    };
    let [english, chinese] = PAGES.map(shown);
    assert_eq!(english, chinese);
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

#[tokio::test(flavor = "multi_thread")]
async fn every_timeline_of_isolation_is_what_the_lab_prints_today() {
    let lab = lab().await;
    let node = needs_mariadb().await;
    let postgres = IsolationServer::postgres(lab.database_url(Tables::Bare).unwrap());
    let maria = node.as_ref().map(|node| IsolationServer::mariadb(node.socket()));
    let (mut wrong, mut played) = (BTreeSet::new(), BTreeSet::new());
    for (block, known, kind, level) in timelines() {
        let server = match kind {
            DatabaseKind::Postgres => Some(&postgres),
            DatabaseKind::MariaDb => maria.as_ref(),
        };
        // The twins show the same.
        let (Some(server), true) = (server, played.insert(block.info.clone())) else { continue };
        let claim = known.claim(kind, level).unwrap();
        let cell = play_cell(server, known, level, claim).await;
        let printed = printed(&cell, Language::English).join("\n");
        if printed != block.text() {
            wrong.insert(format!("{}: the lab prints\n{printed}", block.place));
        }
    }
    lab.close().await.unwrap();
    assert!(played.len() >= 5, "only {} timelines", played.len());
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
