//! In which language a client is answered.

use axum::http::{HeaderMap, header};

use super::accepted;

/// Languages that titles are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The default.
    English,
    /// Simplified.
    Chinese,
}

impl Language {
    /// As in `Content-Language` (RFC 5646).
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// What is in this language.
    pub const fn choose<T: Copy>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }

    /// The language that a tag names, as `?lang=` of the pages has it.
    pub fn named(tag: &str) -> Option<Self> {
        match tag.split('-').next()?.to_ascii_lowercase().as_str() {
            "en" => Some(Self::English),
            "zh" => Some(Self::Chinese),
            _ => None,
        }
    }

    /// Chinese when `Accept-Language` weighs it above English, English otherwise.
    pub fn preferred(headers: &HeaderMap) -> Self {
        let ranges = accepted(headers, header::ACCEPT_LANGUAGE);
        let known = ranges.filter_map(|(tag, weight)| Some((Self::named(tag)?, weight)));
        // The first of equals wins, as it stands in the header.
        let best = known.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Self::English, |(language, _)| language)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_language_is_the_one_that_weighs_most() {
        let language = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static(text));
            Language::preferred(&headers)
        };
        assert_eq!(Language::preferred(&HeaderMap::new()), Language::English);
        for chinese in
            ["zh", "zh-Hans-CN", "zh-CN,zh;q=0.9,en;q=0.8", "fr, zh-TW;q=0.5", "en;q=0.1,ZH"]
        {
            assert_eq!(language(chinese), Language::Chinese, "{chinese}");
        }
        for english in
            ["en", "fr", "*", "zhuang", "en, zh", "en-GB,zh;q=0.9", "zh;q=0", "zh;q=x", ";;,,"]
        {
            assert_eq!(language(english), Language::English, "{english}");
        }
    }
}
