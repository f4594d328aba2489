//! Rust in colours: the compiler's own lexer says what is what.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};
use serde::Serialize;

/// Words that a reader wants to see as such.
const KEYWORDS: [&str; 33] = [
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "Self", "static", "struct", "true", "use", "while",
];

/// A piece of source code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceToken<'a> {
    /// What it is, where it is to be told apart.
    pub class: Option<&'static str>,
    /// The piece.
    pub text: &'a str,
}

/// The pieces of `source`, all of it.
pub fn tokens(source: &str) -> impl Iterator<Item = SourceToken<'_>> {
    let mut at = 0;
    tokenize(source, FrontmatterAllowed::No).map(move |token| {
        let begin = at;
        at += token.len as usize;
        let text = &source[begin..at];
        SourceToken { class: class(token.kind, text), text }
    })
}

/// The same by lines, without their ends.
pub fn lines(source: &str) -> Vec<Vec<SourceToken<'_>>> {
    let mut lines = vec![Vec::new()];
    for SourceToken { class, text } in tokens(source) {
        for (nth, part) in text.split('\n').enumerate() {
            if nth > 0 {
                lines.push(Vec::new());
            }
            if let (false, Some(line)) = (part.is_empty(), lines.last_mut()) {
                line.push(SourceToken { class, text: part });
            }
        }
    }
    // A file ends with a line's end.
    lines.pop_if(|line| line.is_empty());
    lines
}

fn class(kind: TokenKind, text: &str) -> Option<&'static str> {
    match kind {
        TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => Some("comment"),
        TokenKind::Ident if KEYWORDS.contains(&text) => Some("keyword"),
        TokenKind::Ident if text.starts_with(|c: char| c.is_ascii_uppercase()) => Some("type"),
        TokenKind::Literal { kind, .. } => match kind {
            LiteralKind::Int { .. } | LiteralKind::Float { .. } => Some("number"),
            _ => Some("string"),
        },
        TokenKind::Lifetime { .. } => Some("type"),
        _ => None,
    }
}
