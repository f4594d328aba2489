//! A sequence diagram as SVG. Colours are classes of `course.css`. The server knows no font: a letter is taken
//! to be as wide as the widest of common ones are on average, and a text is broken into lines by that.

use std::fmt::Write;

use console::measure_text_width;
use maud::{Markup, html};

use super::diagram::{ArrowKind, DiagramEvent, SequenceDiagram};

/// Of a text of 13 px, in pixels: a letter; a Chinese one takes two.
const LETTER: usize = 7;
const LINE: usize = 18;
/// Between a box and its text, at each side; between two things.
const PADDING: usize = 7;
const GAP: usize = 9;
/// How wide a column may be, and how wide a diagram is to be if that suffices.
const COLUMN: [usize; 2] = [152, 186];
const WIDTH: usize = 760;
/// The heads of the columns.
const HEAD: usize = 32;

/// The drawing. Its name is the same in words, for those who cannot see it.
pub fn svg(diagram: &SequenceDiagram) -> Markup {
    let count = diagram.columns.len().max(1);
    let [least, most] = COLUMN;
    let mut drawing = Drawing { column: (WIDTH / count).clamp(least, most), y: HEAD + GAP };
    let events: Vec<Markup> =
        diagram.events.iter().map(|event| drawing.event(event, diagram)).collect();
    let (width, height) = (count * drawing.column, drawing.y + GAP);
    html! {
        svg role="img" aria-label=(in_words(diagram)) width=(width) height=(height)
            viewBox=(format!("0 0 {width} {height}")) {
            @for nth in 0..count {
                @let x = drawing.centre(nth);
                line.life x1=(x) x2=(x) y1=(HEAD) y2=(height) {}
            }
            @for (nth, column) in diagram.columns.iter().enumerate() {
                @let (x, width) = drawing.span(nth, nth);
                rect class=(class("head", nth, diagram)) x=(x) y="1" width=(width) height=(HEAD - 2) rx="8" {}
                text class=(class("name", nth, diagram)) x=(drawing.centre(nth)) y="21" { (column.name) }
            }
            @for event in &events { (event) }
        }
    }
}

/// The events as sentences.
pub fn in_words(diagram: &SequenceDiagram) -> String {
    let mut words = String::new();
    for event in &diagram.events {
        let name = |nth: &usize| diagram.columns[*nth].name.as_str();
        let _ = match event {
            DiagramEvent::Note { first, last, text } if first == last => {
                writeln!(words, "{}: {text}", name(first))
            }
            DiagramEvent::Note { text, .. } => writeln!(words, "{text}"),
            DiagramEvent::Arrow { from, to, text, .. } => {
                writeln!(words, "{} → {}: {text}", name(from), name(to))
            }
        };
    }
    words
}

/// A thing's class, and that of its actor: A and B look as they do in the player.
fn class(kind: &str, nth: usize, diagram: &SequenceDiagram) -> String {
    let column = &diagram.columns[nth];
    match column.name.as_str() {
        "A" if column.is_actor => format!("{kind} of-a"),
        "B" if column.is_actor => format!("{kind} of-b"),
        _ => kind.to_owned(),
    }
}

struct Drawing {
    /// The width of a column.
    column: usize,
    /// Where the next event begins.
    y: usize,
}

impl Drawing {
    const fn centre(&self, nth: usize) -> usize {
        nth * self.column + self.column / 2
    }

    /// Where a box over columns begins, and its width.
    const fn span(&self, first: usize, last: usize) -> (usize, usize) {
        (first * self.column + PADDING, (last - first + 1) * self.column - 2 * PADDING)
    }

    fn event(&mut self, event: &DiagramEvent, diagram: &SequenceDiagram) -> Markup {
        match event {
            DiagramEvent::Note { first, last, text } => {
                let (x, width) = self.span(*first, *last);
                let lines = wrapped(text, (width - 2 * PADDING) / LETTER);
                let (y, height) = (self.y, lines.len() * LINE + PADDING);
                self.y += height + GAP;
                let (kind, kind_of_text, middle) = if first == last {
                    ("note", "over-one", x + width / 2)
                } else {
                    ("across", "over-all", x + PADDING)
                };
                html! {
                    rect class=(class(kind, *first, diagram)) x=(x) y=(y) width=(width) height=(height) rx="5" {}
                    (texts(&lines, kind_of_text, middle, y + LINE - 3))
                }
            }
            DiagramEvent::Arrow { from, to, kind, text } => {
                let (begin, end) = (self.centre(*from), self.centre(*to));
                let (middle, width) = (begin.midpoint(end), begin.abs_diff(end));
                let lines = wrapped(text, (width - 2 * PADDING) / LETTER);
                let top = self.y;
                let y = top + lines.len() * LINE + 2;
                self.y = y + PADDING + GAP;
                html! {
                    (texts(&lines, "over-arrow", middle, top + LINE - 5))
                    g class=(class(arrow_class(*kind), *from, diagram)) {
                        line x1=(begin) x2=(end) y1=(y) y2=(y) {}
                        path d=(tip(*kind, end, y, begin < end)) {}
                    }
                }
            }
        }
    }
}

const fn arrow_class(kind: ArrowKind) -> &'static str {
    match kind {
        ArrowKind::Done => "done",
        ArrowKind::AboutTo => "about-to",
        ArrowKind::Missed => "missed",
    }
}

/// The end of an arrow: a head, or a cross before what it did not get.
fn tip(kind: ArrowKind, x: usize, y: usize, to_the_right: bool) -> String {
    let side = if to_the_right { '-' } else { ' ' };
    match kind {
        ArrowKind::Done => format!("M{x} {y}l{side}9 -5v10z"),
        ArrowKind::AboutTo => {
            format!("M{x} {y}m{side}9 -5l{} 5l{side}9 5", if to_the_right { 9 } else { -9 })
        }
        ArrowKind::Missed => format!(
            "M{x} {y}m{side}12 -5l{0} 10m{side}10 0l{0} -10",
            if to_the_right { 10 } else { -10 }
        ),
    }
}

fn texts(lines: &[String], class: &str, x: usize, y: usize) -> Markup {
    html! {
        @for (nth, line) in lines.iter().enumerate() {
            text class=(class) x=(x) y=(y + nth * LINE) { (line) }
        }
    }
}

/// In lines of so many columns, a Chinese letter taking two.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    in_lines(pieces(text, columns), columns)
}

/// The pieces in as few lines as have room for them.
pub fn in_lines(pieces: Vec<&str>, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces {
        let last = lines.len() - 1;
        let width = measure_text_width(&lines[last]) + measure_text_width(piece.trim_end());
        if width > columns && !lines[last].is_empty() {
            lines.push(piece.to_owned());
        } else {
            lines[last] += piece;
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// What stays in one line: a word with the space behind it, or a letter of Chinese with the marks behind it. A
/// word that is longer than a line is cut.
fn pieces(text: &str, columns: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    let mut last = ' ';
    for (at, letter) in text.char_indices() {
        let is_mark = matches!(letter, '，' | '。' | '：' | '；' | '、' | '）' | '”');
        let after_space = last == ' ' && letter != ' ';
        let is_chinese = |letter: char| measure_text_width(letter.encode_utf8(&mut [0; 4])) == 2;
        let beside_chinese = is_chinese(letter) || (is_chinese(last) && letter != ' ');
        let is_full = measure_text_width(&text[begin..at]) >= columns;
        let may_break = after_space || (beside_chinese && last != '（' && last != '“') || is_full;
        if at > begin && may_break && !is_mark && letter != ' ' {
            pieces.push(&text[begin..at]);
            begin = at;
        }
        last = letter;
    }
    pieces.push(&text[begin..]);
    pieces
}
