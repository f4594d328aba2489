//! A timeline as a sequence diagram of Mermaid: a column for each actor, and for each store that the pause
//! points name. A solid arrow is something done, a dashed one something that is about to be done, a cross
//! a lock that is taken; what the lab does to the world goes across all columns.

use course::diagram::SequenceDiagram;
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
        format!("    participant {} as {}", id(*store, rung), escaped(&name))
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
        let text = escaped(&wrapped(&text, WIDTH));
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
        format!("    Note over {}: {}", self.across, escaped(&wrapped(text, WIDTH_ACROSS)))
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
    let chinese = language == Language::Chinese;
    let word = |english: &str, zh: &str| if chinese { zh.to_owned() } else { english.to_owned() };
    match store {
        PointStore::Database => "PostgreSQL".to_owned(),
        PointStore::Lock => match rung.lock {
            LockKind::Mutex => word("mutex", "进程内的锁"),
            LockKind::Redis(1) => word("lock in Redis", "Redis 里的锁"),
            LockKind::Redis(count) if chinese => format!("{count} 台 Redis 上的锁"),
            LockKind::Redis(count) => format!("lock on {count} Redis"),
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

/// In several lines, where it is long: broken at a space, or behind a mark of Chinese.
fn wrapped(text: &str, width: usize) -> String {
    let pieces = text.split_inclusive([' ', '，', '：', '；', '、']).collect();
    in_lines(pieces, width).join("<br/>")
}

/// As Mermaid reads it: `;` ends a statement, `#` begins the code of a character.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for part in text.split_inclusive("<br/>") {
        let (plain, line_break) = match part.strip_suffix("<br/>") {
            Some(plain) => (plain, "<br/>"),
            None => (part, ""),
        };
        for c in plain.chars() {
            match c {
                ';' => escaped += "#59;",
                '#' => escaped += "#35;",
                '"' => escaped += "#quot;",
                '<' => escaped += "#lt;",
                '>' => escaped += "#gt;",
                c => escaped.push(c),
            }
        }
        escaped += line_break;
    }
    escaped
}

/// What the pages of the course, which draw it, could not read of a region.
pub fn syntax_error(region: &[String]) -> Option<String> {
    let [fence, body @ .., end] = region else { return Some("too short".to_owned()) };
    assert_eq!([fence, end], ["```mermaid", "```"]);
    body.join("\n").parse::<SequenceDiagram>().err().map(|error| error.to_string())
}

#[test]
fn what_mermaid_would_misread_is_escaped() {
    let text = escaped("a; b <br/>#1 \"c\" <d>");
    assert_eq!(text, "a#59; b <br/>#35;1 #quot;c#quot; #lt;d#gt;");
    let region = |text: &str| {
        let lines = [
            "```mermaid",
            "sequenceDiagram",
            "    actor A",
            &format!("    Note over A: {text}"),
            "```",
        ];
        lines.map(str::to_owned)
    };
    assert_eq!(syntax_error(&region(&text)), None);
    assert!(syntax_error(&region("a; b")).is_some());
}

#[test]
fn a_long_text_goes_on_in_the_next_line() {
    assert_eq!(wrapped("one two three", 8), "one two<br/>three");
    assert_eq!(wrapped("最后确认一次：订单 1", 16), "最后确认一次：<br/>订单 1");
    assert_eq!(wrapped("unbreakable", 3), "unbreakable");
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
