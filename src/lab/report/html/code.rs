//! Rust in colours: the compiler's own lexer says what is what.

use maud::{Markup, html};
use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// Words that a reader wants to see as such.
const KEYWORDS: [&str; 33] = [
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "Self", "static", "struct", "true", "use", "while",
];

pub(super) fn highlighted(source: &str) -> Markup {
    let mut at = 0;
    let tokens = tokenize(source, FrontmatterAllowed::No).map(|token| {
        let begin = at;
        at += token.len as usize;
        (class(token.kind, &source[begin..at]), &source[begin..at])
    });
    html! {
        @for (class, text) in tokens {
            @match class {
                Some(class) => span.(class) { (text) },
                None => (text),
            }
        }
    }
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
