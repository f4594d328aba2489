//! What the pages of the course are made by: their diagrams, Markdown, links and code, seen from outside.

use console::measure_text_width;
use course::chapter::CHAPTERS;
use course::diagram::{ArrowKind, DiagramColumn, DiagramEvent, SequenceDiagram};
use course::drawing::{in_words, svg, wrapped};
use course::link::address;
use course::markdown::{without_gaps, written};
use course::source_code::{SourceToken, lines};
use ladder::RUNGS;
use pulldown_cmark::Parser;
use seckill::http::Language;

use super::page::LANGUAGES;

/// The diagrams of the course, with the page of each.
fn diagrams() -> Vec<(String, SequenceDiagram)> {
    let mut found = Vec::new();
    for chapter in CHAPTERS.iter() {
        for language in LANGUAGES {
            let page = chapter.address(language);
            let blocks = chapter.markdown(language).split("```mermaid\n").skip(1);
            found.extend(blocks.map(|block| {
                let text = block.split("\n```").next().unwrap_or_default();
                (page.clone(), text.parse().unwrap_or_else(|error| panic!("{page}: {error}")))
            }));
        }
    }
    found
}

#[test]
fn every_diagram_of_the_course_is_drawn_and_told_in_words() {
    let diagrams = diagrams();
    assert!(diagrams.len() >= 80, "{}", diagrams.len());
    for (page, diagram) in diagrams {
        let svg = svg(&diagram).into_string();
        let of = |kind: &str| svg.matches(kind).count();
        let arrows =
            diagram.events.iter().filter(|it| matches!(it, DiagramEvent::Arrow { .. })).count();
        assert_eq!(of("<path"), arrows, "{page}");
        assert_eq!(of("<rect"), diagram.columns.len() + diagram.events.len() - arrows, "{page}");
        assert_eq!(in_words(&diagram).lines().count(), diagram.events.len(), "{page}");
    }
}

#[test]
fn a_text_is_broken_into_lines_that_fit_and_loses_nothing() {
    for (_, diagram) in diagrams() {
        for event in &diagram.events {
            let (DiagramEvent::Note { text, .. } | DiagramEvent::Arrow { text, .. }) = event;
            for columns in [18, 40] {
                let lines = wrapped(text, columns);
                // A mark may hang over the end.
                let widest = lines.iter().map(|line| measure_text_width(line)).max();
                assert!(widest <= Some(columns + 2), "{lines:?}");
                let spaceless = |text: &str| text.replace(' ', "");
                assert_eq!(spaceless(&lines.concat()), spaceless(text));
            }
        }
    }
    assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    assert_eq!(wrapped("券：卖完了", 6), ["券：卖", "完了"]);
    assert_eq!(wrapped("得到响应：ok", 8), ["得到响", "应：ok"]);
    assert_eq!(wrapped("unbreakable", 4), ["unbr", "eaka", "ble"]);
}

const DIAGRAM: &str = "sequenceDiagram\n    actor A\n    participant db as PostgreSQL\n    \
                       A->>db: reads<br/>it\n    A--)db: 券：<br/>一 #59; #lt;1#gt;\n    \
                       A-xdb: held\n    Note over A: waits\n    Note over A,db: over";

#[test]
fn what_is_written_is_read() {
    let column = |id: &str, name: &str, is_actor| DiagramColumn {
        id: id.to_owned(),
        name: name.to_owned(),
        is_actor,
    };
    let arrow =
        |kind, text: &str| DiagramEvent::Arrow { from: 0, to: 1, kind, text: text.to_owned() };
    let note = |last, text: &str| DiagramEvent::Note { first: 0, last, text: text.to_owned() };
    let expected = SequenceDiagram {
        columns: vec![column("A", "A", true), column("db", "PostgreSQL", false)],
        events: vec![
            arrow(ArrowKind::Done, "reads it"),
            arrow(ArrowKind::AboutTo, "券：一 ; <1>"),
            arrow(ArrowKind::Missed, "held"),
            note(0, "waits"),
            note(1, "over"),
        ],
    };
    assert_eq!(DIAGRAM.parse(), Ok(expected));
}

#[test]
fn a_line_that_is_not_ours_is_refused() {
    for (from, to) in [
        ("sequenceDiagram", "graph TD"),
        ("    actor A", "actor A"),
        ("    actor A", "    actor A\n    actor A"),
        (" as PostgreSQL", ""),
        ("A->>db", "A->>x"),
        ("A->>db", "A->>A"),
        ("A->>db", "A=>db"),
        (": waits", ""),
        (": waits", ": a;b"),
        (": waits", ": #amp;"),
        ("over A,db", "over db,A"),
        ("Note over A:", "loop A:"),
    ] {
        let changed = DIAGRAM.replace(from, to);
        assert_ne!(changed, DIAGRAM, "{from}");
        assert!(changed.parse::<SequenceDiagram>().is_err(), "{from} -> {to}");
    }
}

#[test]
fn the_lines_of_a_file_are_its_own() {
    for rung in RUNGS {
        let lines = lines(rung.source);
        let text =
            |line: &Vec<SourceToken<'_>>| line.iter().map(|token| token.text).collect::<String>();
        assert!(lines.iter().map(text).eq(rung.source.lines()), "{}", rung.id);
    }
}

#[test]
fn lines_of_chinese_are_joined_and_those_of_words_are_not() {
    for (markdown, expected) in [
        ("服务\n器", "<p>服务器</p>"),
        ("完了，\n**再来**", "<p>完了，<strong>再来</strong></p>"),
        ("一个\nRedis", "<p>一个\nRedis</p>"),
        ("一个\n`lock`", "<p>一个\n<code>lock</code></p>"),
        ("one\ntwo", "<p>one\ntwo</p>"),
    ] {
        let events = without_gaps(Parser::new(markdown).collect());
        assert_eq!(written(events).0.trim(), expected);
    }
}

#[test]
fn a_link_leads_to_what_is_served_and_to_nothing_else() {
    let [index, rung] = [&CHAPTERS[0], &CHAPTERS[1]];
    for (chapter, target, expected) in [
        (rung, "r02_row_lock.md", Some("/lab/course/r02_row_lock?lang=en")),
        (rung, "r02_row_lock.zh-CN.md", Some("/lab/course/r02_row_lock?lang=zh-CN")),
        (rung, "glossary.md#herd", Some("/lab/course/glossary?lang=en#herd")),
        (rung, "../ladder.zh-CN.md", Some("/lab/course?lang=zh-CN")),
        (
            index,
            "ladder/lab.md#every-interleaving",
            Some("/lab/course/lab?lang=en#every-interleaving"),
        ),
        (
            rung,
            "../../crates/ladder/src/r02_row_lock.rs",
            Some("/lab/course/r02_row_lock?lang=en#source"),
        ),
        (rung, "#the-code", Some("#the-code")),
        (rung, "http://127.0.0.1:8080/lab", Some("/lab?lang=en")),
        (rung, "https://redis.io/", Some("https://redis.io/")),
        (rung, "../locks.md", None),
        (rung, "../../crates/ladder/src/lib.rs", None),
        (rung, "../../crates/redisson-lock", None),
        (rung, "r99.md", None),
        (index, "../crates/ladder/src", None),
    ] {
        assert_eq!(address(target, chapter, Language::English).as_deref(), expected, "{target}");
    }
}
