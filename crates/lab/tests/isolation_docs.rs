//! The page on isolation levels, in both languages, against the lab: every timeline and the matrix are what
//! `seckill lab isolation` prints today.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::ValueEnum;
use ladder::Tables;
use seckill::http::Language;
use seckill_lab::isolation::{
    CASES, DatabaseKind, IsolationCase, IsolationCell, IsolationLevel, IsolationServer,
    isolation_matrix, play_cell, unplayed_cell,
};

use crate::course::timeline::printed;
use crate::kept::new_lab as lab;
use testkit::needs::needs_mariadb;

const PAGES: [&str; 2] = ["docs/ladder/isolation.md", "docs/ladder/isolation.zh-CN.md"];

/// A fenced block whose words after the fence begin with `text isolation`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IsolationBlock {
    words: Vec<String>,
    text: String,
}

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).unwrap()
}

fn blocks(page: &str) -> Vec<IsolationBlock> {
    let text = read(page);
    let mut parts = text.split("\n```text isolation ");
    parts.next();
    let blocks = parts.map(|part| {
        let (words, rest) = part.split_once('\n').unwrap();
        let (text, _) = rest.split_once("\n```").unwrap();
        let words = words.split_whitespace().map(str::to_owned).collect();
        IsolationBlock { words, text: text.to_owned() }
    });
    blocks.collect()
}

fn timelines() -> Vec<(IsolationBlock, &'static IsolationCase, DatabaseKind, IsolationLevel)> {
    let blocks = PAGES.into_iter().flat_map(blocks).filter(|block| block.words != ["matrix"]);
    let found = blocks.map(|block| {
        let [case, server, level] = &block.words[..] else { panic!("{block:?}") };
        let known = CASES.iter().find(|known| known.name == *case).expect(case);
        let server = DatabaseKind::from_str(server, false).unwrap();
        let level = IsolationLevel::from_str(level, false).unwrap();
        (block, known, server, level)
    });
    found.collect()
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
        let blocks = blocks(page);
        let matrix = blocks.iter().find(|block| block.words == ["matrix"]);
        let matrix = matrix.unwrap_or_else(|| panic!("{page} has no matrix"));
        assert!(matrix.text == claimed_matrix(), "{page}: the matrix is\n{}", claimed_matrix());
    }
}

#[test]
fn the_pages_on_isolation_show_the_same_and_name_every_lesson() {
    let [english, chinese] = PAGES.map(blocks);
    assert_eq!(english, chinese);
    let rungs = ["r01", "r02", "r03", "r04", "r05", "r18", "advisory_last", "advisory_twice"];
    for page in PAGES {
        let text = read(page);
        for known in CASES.iter() {
            let name = &known.name;
            let is_lesson = !rungs.iter().any(|rung| name.starts_with(rung));
            assert!(!is_lesson || text.contains(&format!("`{name}`")), "{page}: {name}");
        }
        assert!(text.lines().count() <= 400, "{page} is too long");
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
        let (Some(server), true) = (server, played.insert(block.words.clone())) else { continue };
        let claim = known.claim(kind, level).unwrap();
        let cell = play_cell(server, known, level, claim).await;
        let printed = printed(&cell, Language::English).join("\n");
        if printed != block.text {
            wrong.insert(format!("{:?}: the lab prints\n{printed}", block.words));
        }
    }
    lab.close().await.unwrap();
    assert!(played.len() >= 5, "only {} timelines", played.len());
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
