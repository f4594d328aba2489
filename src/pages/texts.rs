//! What pages say, in both languages. A text that lacks one of them does not compile.

/// Declares the texts of a page: a struct with one field a text, which a template reads, and which
/// [`HtmlPage`](super::page::HtmlPage) hands on to the page's script.
#[macro_export]
macro_rules! texts {
    ($(#[$about:meta])* $name:ident { $($key:ident: $english:literal, $chinese:literal;)+ }) => {
        $(#[$about])*
        #[derive(Debug, serde::Serialize)]
        pub(super) struct $name {
            $(pub(super) $key: &'static str,)+
        }

        impl $name {
            /// The texts in `language`.
            pub(super) const fn of(language: $crate::http::Language) -> &'static Self {
                match language {
                    $crate::http::Language::English => &Self { $($key: $english,)+ },
                    $crate::http::Language::Chinese => &Self { $($key: $chinese,)+ },
                }
            }
        }
    };
}
