//! Words for values, in both languages, side by side: what happened is a value until somebody reads it, and nobody
//! reads a sentence back.
//!
//! `event` is what happens in a replay, `witness` what shows that a promise is broken, `ladder_words` what the
//! ladder's own values are called.

mod event;
mod failure;
mod ladder_words;
mod witness;

pub use event::{AtPoint, Event};
pub use failure::{FailedPart, Failure, LockServer};
pub use witness::{NotInstalled, Witness};

use std::time::Duration;

use serde::{Serialize, Serializer};

use ladder::Invariant;
use seckill::http::Language;

/// What can be said in either language.
pub trait InWords {
    /// Its words.
    fn in_words(&self, language: Language) -> String;
}

/// Variants with their English and their Chinese words, whose holes are their fields: an enum of its own, or, with
/// `of`, one that stands elsewhere.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis $name:ident {
        $($variant:ident $({ $($field:ident: $type:ty),+ })? => $english:literal, $chinese:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis enum $name {
            $(#[doc = $english] $variant $({ $(#[doc = stringify!($field)] $field: $type),+ })?),+
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let english = ::seckill::http::Language::English;
                formatter.pad(&$crate::told::InWords::in_words(self, english))
            }
        }

        $crate::told::words! {
            of $name { $($variant $({ $($field),+ })? => $english, $chinese;)+ }
        }
    };
    (of $name:ident {
        $($variant:ident $(($($only:ident),+))? $({ $($field:ident),+ })? => $english:literal, $chinese:literal;)+
    }) => {
        impl $crate::told::InWords for $name {
            fn in_words(&self, language: ::seckill::http::Language) -> String {
                match self {
                    $(Self::$variant $(($($only),+))? $({ $($field),+ })? => {
                        $($(let $only = $crate::told::InWords::in_words($only, language);)+)?
                        $($(let $field = $crate::told::InWords::in_words($field, language);)+)?
                        match language {
                            ::seckill::http::Language::English => format!($english),
                            ::seckill::http::Language::Chinese => format!($chinese),
                        }
                    })+
                }
            }
        }
    };
}
pub use words;

/// What programs read of it is English.
macro_rules! in_english {
    ($($name:ty)+) => {
        $(impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        })+
    };
}

in_english! { Event Witness }

/// What is the same in both languages.
macro_rules! plain {
    ($($type:ty)+) => {
        $(impl InWords for $type {
            fn in_words(&self, _language: Language) -> String {
                self.to_string()
            }
        })+
    };
}

plain! { i32 i64 u64 u8 usize char &'static str String Invariant }

impl<T: InWords> InWords for Box<T> {
    fn in_words(&self, language: Language) -> String {
        (**self).in_words(language)
    }
}

/// So long, in seconds.
impl InWords for Duration {
    fn in_words(&self, language: Language) -> String {
        let seconds = self.as_secs_f64();
        format!("{seconds}{}", language.choose(" s", " 秒"))
    }
}

/// Several of a kind, with a mark between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Several<T> {
    /// "A, B".
    Listed(Vec<T>),
    /// "A and B".
    Both(Vec<T>),
    /// Sentences: "a; b".
    Sentences(Vec<T>),
}

impl<T: InWords> InWords for Several<T> {
    fn in_words(&self, language: Language) -> String {
        let (all, english, chinese) = match self {
            Self::Listed(all) => (all, ", ", "、"),
            Self::Both(all) => (all, " and ", " 和 "),
            Self::Sentences(all) => (all, "; ", "；"),
        };
        let words: Vec<String> = all.iter().map(|one| one.in_words(language)).collect();
        words.join(language.choose(english, chinese))
    }
}
