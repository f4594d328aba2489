//! A timeline as a sequence diagram of Mermaid: a column for each actor, and for each store that the pause
//! points name. A solid arrow is something done, a dashed one something that is about to be done, a cross
//! a lock that is taken; what the lab does to the world goes across all columns.

use course::diagram::{DiagramEvent, SequenceDiagram};
use course::drawing::in_lines;
use ladder::{Capability, LockKind, Point, PointStore, Rung};
use seckill::http::Language;
use seckill_lab::told::{Event, FailedPart, Failure, InWords};
use seckill_lab::{Cell, TimelineLine};

/// Columns of a text after which it goes on in the next line.
const WIDTH: usize = 40;

/// The same of a text across all columns.
const WIDTH_ACROSS: usize = 72;

/// The fenced block.
pub fn region(cell: &Cell, language: Language) -> Vec<String> {
    let rung = ladder::find(cell.of.rung).unwrap();
    let columns = Columns::of(cell, rung);
    let mut lines = vec!["```mermaid".to_owned(), "sequenceDiagram".to_owned()];
    lines.extend(columns.actors.iter().map(|actor| format!("    actor {actor}")));
    lines.extend(columns.stores.iter().map(|store| {
        let name = name(*store, rung, language);
        format!("    participant {} as {name}", id(*store, rung))
    }));
    lines.extend(cell.timeline.iter().map(|line| columns.event(line, rung, language)));
    let verdict = format!("{} {}", cell.of.invariant, cell.outcome_in(language));
    lines.push(columns.across(&verdict));
    lines.push("```".to_owned());
    lines
}

struct Columns<'a> {
    actors: Vec<&'a str>,
    stores: Vec<PointStore>,
    across: String,
}

impl<'a> Columns<'a> {
    fn of(cell: &'a Cell, rung: &Rung) -> Self {
        let mut actors: Vec<&str> = Vec::new();
        for actor in cell.timeline.iter().filter_map(|line| line.actor.as_deref()) {
            if !actors.contains(&actor) {
                actors.push(actor);
            }
        }
        let touched = |store: &PointStore| {
            cell.timeline
                .iter()
                .any(|line| line.event.point().and_then(Point::store) == Some(*store))
        };
        let all = [PointStore::Lock, PointStore::Redis, PointStore::Queue, PointStore::Database];
        let mut stores: Vec<PointStore> = all.into_iter().filter(touched).collect();
        stores.dedup_by_key(|store| id(*store, rung));
        let last = stores.last().map(|store| id(*store, rung)).or(actors.last().copied());
        let across = match (actors.first(), last) {
            (Some(first), Some(last)) if *first != last => format!("{first},{last}"),
            (first, _) => first.copied().unwrap_or_default().to_owned(),
        };
        Self { actors, stores, across }
    }

    fn event(&self, line: &TimelineLine, rung: &Rung, language: Language) -> String {
        let text = without_reason(&line.event).in_words(language);
        let Some(actor) = &line.actor else { return self.across(&text) };
        let text = written(&text, WIDTH);
        match line.event.point().and_then(|point| Some((point, point.store()?))) {
            Some((point, store)) => {
                let arrow = match point {
                    Point::Missed => "-x",
                    point if point.is_before_the_step() => "--)",
                    _ => "->>",
                };
                format!("    {actor}{arrow}{}: {text}", id(store, rung))
            }
            None => format!("    Note over {actor}: {text}"),
        }
    }

    fn across(&self, text: &str) -> String {
        format!("    Note over {}: {}", self.across, written(text, WIDTH_ACROSS))
    }
}

/// "comes to no answer: the lock: …" without the operating system's words.
fn without_reason(event: &Event) -> Event {
    match event.clone() {
        Event::Failed { failure: Failure { part, .. } } => {
            Event::Failed { failure: Failure { part, reason: String::new() } }
        }
        event => event,
    }
}

/// In a rung that works with one Redis alone the stream is there, too.
fn id(store: PointStore, rung: &Rung) -> &'static str {
    let apart = rung.can(Capability::QueueInMemory) || rung.can(Capability::Relay);
    match store {
        PointStore::Database => "db",
        PointStore::Lock => "lock",
        PointStore::Queue if apart => "queue",
        PointStore::Redis | PointStore::Queue => "redis",
    }
}

fn name(store: PointStore, rung: &Rung, language: Language) -> String {
    let word = |english: &str, chinese: &str| language.choose(english, chinese).to_owned();
    match store {
        PointStore::Database => "PostgreSQL".to_owned(),
        PointStore::Lock => match rung.lock {
            LockKind::Mutex => word("mutex", "进程内的锁"),
            LockKind::Redis(1) => word("lock in Redis", "Redis 里的锁"),
            LockKind::Redis(count) => {
                word("lock on # Redis", "# 台 Redis 上的锁").replace('#', &count.to_string())
            }
            LockKind::Database => word("lock in PostgreSQL", "PostgreSQL 里的锁"),
            LockKind::ZooKeeper => word("queue in ZooKeeper", "ZooKeeper 里的队列"),
            _ => word("lock", "锁"),
        },
        PointStore::Queue if rung.can(Capability::QueueInMemory) => {
            word("queue in memory", "内存队列")
        }
        PointStore::Queue if rung.can(Capability::Relay) => {
            word("outbox, stream", "发件箱、Stream")
        }
        PointStore::Redis | PointStore::Queue => "Redis".to_owned(),
    }
}

/// In several lines where it is long, broken at a space or behind a mark of Chinese; and as Mermaid reads it: `;` ends a
/// statement, `#` begins the code of a character.
fn written(text: &str, width: usize) -> String {
    let pieces = text.split_inclusive([' ', '，', '：', '；', '、']).collect();
    let escaped = |letter| match letter {
        ';' => "#59;".to_owned(),
        '#' => "#35;".to_owned(),
        '"' => "#quot;".to_owned(),
        '<' => "#lt;".to_owned(),
        '>' => "#gt;".to_owned(),
        letter => letter.to_string(),
    };
    let lines = in_lines(pieces, width).into_iter();
    let lines: Vec<String> = lines.map(|line| line.chars().map(escaped).collect()).collect();
    lines.join("<br/>")
}

#[test]
fn a_text_is_broken_where_it_is_long_and_escaped_where_mermaid_would_misread_it() {
    for (text, width, expected) in [
        ("one two three", 8, "one two<br/>three"),
        ("最后确认一次：订单 1", 16, "最后确认一次：<br/>订单 1"),
        ("unbreakable", 3, "unbreakable"),
        ("a; b #1 \"c\" <d>", 40, "a#59; b #35;1 #quot;c#quot; #lt;d#gt;"),
    ] {
        let written = written(text, width);
        assert_eq!(written, expected);
        // The pages of the course, which draw it, read what was written.
        let diagram = format!("sequenceDiagram\n    actor A\n    Note over A: {written}");
        let note = DiagramEvent::Note { first: 0, last: 0, text: text.to_owned() };
        assert_eq!(diagram.parse::<SequenceDiagram>().unwrap().events, [note]);
    }
}

#[test]
fn the_words_of_an_operating_system_are_left_out() {
    let failed = |reason: &str| {
        let failure = Failure { part: FailedPart::Lock, reason: reason.to_owned() };
        Event::Failed { failure }
    };
    assert_eq!(failed("x: y").to_string(), "comes to no answer: the lock: x: y");
    assert_eq!(without_reason(&failed("x: y")).to_string(), "comes to no answer: the lock");
    assert_eq!(without_reason(&Event::LeaseEnds), Event::LeaseEnds);
}
