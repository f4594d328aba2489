//! Settings that are lists, with commas between their items.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderValue;
use ipnet::IpNet;
use strum::VariantNames;

use crate::model::normalized_phone;

/// Phones, each once, as they are after login.
#[derive(Debug, Clone, Default)]
pub struct Phones(pub HashSet<String>);

impl Phones {
    /// Whether `phone`, however it is spelled, is one of them.
    pub fn has(&self, phone: &str) -> bool {
        let has = |phone: &str| self.0.contains(phone);
        has(phone) || normalized_phone(phone).is_some_and(|phone| has(&phone))
    }
}

impl FromStr for Phones {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let phone = |text: &str| {
            normalized_phone(text).ok_or_else(|| format!("{text:?} is not a phone number"))
        };
        items(text).map(phone).collect::<Result<_, _>>().map(Self)
    }
}

/// What buyers may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)] // docs/reference.md says when
pub enum Occasion {
    Offered,
    Paid,
    Refunded,
    Cancelled,
}

/// Some of it, with commas between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occasions(pub HashSet<Occasion>);

impl FromStr for Occasions {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let occasion = |word: &str| {
            let known = || format!("{word:?} is none of {}", Occasion::VARIANTS.join(", "));
            word.parse::<Occasion>().map_err(|_| known())
        };
        items(text).map(occasion).collect::<Result<_, _>>().map(Self)
    }
}

/// Prefixes of phones in E.164, such as country codes, that of most buyers first. `any` matches all.
#[derive(Debug, Clone)]
pub struct PhonePrefixes(Vec<String>);

impl PhonePrefixes {
    /// If text messages cost money, codes go to mainland China alone, unless other countries are named.
    pub fn china() -> Self {
        Self(vec!["86".to_owned()])
    }

    /// The longest prefix of `phone`, which is in its one form.
    pub fn of(&self, phone: &str) -> Option<&str> {
        let number = phone.strip_prefix('+').map_or_else(|| format!("86{phone}"), str::to_owned);
        let begins = self.0.iter().filter(|prefix| number.starts_with(prefix.as_str()));
        begins.max_by_key(|prefix| prefix.len()).map(String::as_str)
    }

    /// The same, unless it is the first prefix, which has no limit of its own.
    pub fn limited(&self, phone: &str) -> Option<&str> {
        self.of(phone).filter(|prefix| *prefix != self.0[0])
    }
}

impl fmt::Display for PhonePrefixes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "+{}", self.0.join(", +"))
    }
}

impl FromStr for PhonePrefixes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self(vec![String::new()]));
        }
        let prefix = |text: &str| {
            let digits = text.strip_prefix('+').unwrap_or(text);
            let is_prefix = (1..=7).contains(&digits.len())
                && !digits.starts_with('0')
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            let wrong = || {
                format!("{text:?} is no country code like 86, and no longer beginning of phones")
            };
            is_prefix.then(|| digits.to_owned()).ok_or_else(wrong)
        };
        let prefixes: Vec<String> = items(text).map(prefix).collect::<Result<_, _>>()?;
        if prefixes.is_empty() {
            return Err("name a country code, or any".to_owned());
        }
        Ok(Self(prefixes))
    }
}

/// Networks, or single addresses.
#[derive(Debug, Clone, Default)]
pub struct Networks(pub Vec<IpNet>);

impl FromStr for Networks {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let network = |text: &str| {
            text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(
                |_| format!("{text:?} is neither an address nor a network like 10.0.0.0/8"),
            )
        };
        items(text).map(network).collect::<Result<_, _>>().map(Self)
    }
}

/// Origins of web pages, as browsers write them.
#[derive(Debug, Clone, Default)]
pub struct Origins(pub Vec<HeaderValue>);

impl FromStr for Origins {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let origin = |text: &str| {
            let url = url::Url::parse(text).ok();
            let origin = url.map(|url| url.origin()).filter(url::Origin::is_tuple);
            // What a browser sends is compared byte by byte: no path, no capital letters.
            let is_origin = origin.is_some_and(|origin| origin.ascii_serialization() == text);
            let value = HeaderValue::from_str(text).ok().filter(|_| is_origin);
            value.ok_or_else(|| format!("{text:?} is no origin like https://shop.example"))
        };
        items(text).map(origin).collect::<Result<_, _>>().map(Self)
    }
}

/// Schemes of the addresses to which buyers are sent.
#[derive(Debug, Clone)]
pub struct UrlSchemes(Vec<String>);

/// What such an address names is a script or a document of whoever wrote it, or a file of the buyer.
const DANGEROUS_SCHEMES: [&str; 6] = ["about", "blob", "data", "file", "javascript", "vbscript"];

impl UrlSchemes {
    /// Whether `scheme`, in lower case, is one of them.
    pub fn contain(&self, scheme: &str) -> bool {
        self.0.iter().any(|known| known == scheme)
    }
}

impl FromStr for UrlSchemes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = |text: &str| {
            let is_scheme = text.starts_with(|first: char| first.is_ascii_lowercase())
                && text
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'-' | b'.'));
            if !is_scheme {
                return Err(format!("{text:?} is no scheme like https or weixin"));
            }
            if DANGEROUS_SCHEMES.contains(&text) {
                return Err(format!("no buyer is sent to an address that begins with {text}:"));
            }
            Ok(text.to_owned())
        };
        let schemes: Vec<String> = items(text).map(scheme).collect::<Result<_, _>>()?;
        if schemes.is_empty() {
            return Err("name a scheme, such as https".to_owned());
        }
        Ok(Self(schemes))
    }
}

/// The items of a list, which may be empty.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_a_phone_is_its_own() {
        let of = |prefixes: &str, phone: &str| {
            let prefixes = prefixes.parse::<PhonePrefixes>().ok()?;
            prefixes.of(phone).map(str::to_owned)
        };
        for (prefixes, phone, longest) in [
            ("86", "13800138000", Some("86")),
            ("86", "+447911123456", None),
            ("86,+44,447911", "+447911123456", Some("447911")),
            ("86,44,447911", "+447912123456", Some("44")),
            // A number of 11 digits is Chinese, whatever it begins with.
            ("138", "13800138000", None),
            ("any", "+447911123456", Some("")),
            ("any", "13800138000", Some("")),
        ] {
            assert_eq!(of(prefixes, phone).as_deref(), longest, "{prefixes}: {phone}");
        }
    }

    #[test]
    fn lists_may_be_empty_and_name_what_is_wrong_with_them() {
        let phones = |text: &str| text.parse::<Phones>().map(|phones| phones.0.len());
        assert_eq!((phones(""), phones(" , ")), (Ok(0), Ok(0)));
        assert_eq!(phones("13800138000, +8613800138000,+442071838750"), Ok(2));
        assert_eq!(phones("+008613800138000,13800138000,+4407911123456,+447911123456"), Ok(2));
        assert!(phones("13800138000,12").is_err_and(|error| error.contains("\"12\"")));
        let prefixes = |text: &str| text.parse::<PhonePrefixes>();
        for wrong in ["", ",", "0", "086", "+", "86x", "12345678", "all", "86,any"] {
            assert!(prefixes(wrong).is_err(), "{wrong}");
        }
        let schemes = |text: &str| text.parse::<UrlSchemes>();
        let few = schemes("https, weixin,ms-pay+v1.0");
        assert!(few.is_ok_and(|few| few.contain("ms-pay+v1.0") && !few.contain("http")));
        for wrong in [
            "",
            ",",
            "HTTPS",
            "https:",
            "weixin://",
            "+a",
            "a b",
            "wéi",
            "https,javascript",
            "data",
        ] {
            assert!(schemes(wrong).is_err(), "{wrong}");
        }
        let networks = |text: &str| text.parse::<Networks>().map(|networks| networks.0.len());
        assert_eq!((networks(""), networks("10.0.0.0/8, ::1")), (Ok(0), Ok(2)));
        assert!(networks("10.0.0.0/99").is_err());
        let origins = |text: &str| text.parse::<Origins>().map(|origins| origins.0.len());
        assert_eq!((origins(""), origins("https://a.example, http://b:81")), (Ok(0), Ok(2)));
        let wrong = ["*", "a.example", "https://a.example/", "https://A.example", "https://a:443"];
        for wrong in wrong {
            assert!(origins(wrong).is_err_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}
