//! Settings that are lists, with commas between their items.

use std::collections::HashSet;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderValue;
use ipnet::IpNet;

use crate::model::normalized_phone;

/// Phones, each once, as they are after login.
#[derive(Debug, Clone, Default)]
pub struct Phones(pub HashSet<String>);

impl FromStr for Phones {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let phone = |text: &str| {
            normalized_phone(text).ok_or_else(|| format!("{text:?} is not a phone number"))
        };
        items(text).map(phone).collect::<Result<_, _>>().map(Self)
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

/// The items of a list, which may be empty.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_empty_and_name_what_is_wrong_with_them() {
        let phones = |text: &str| text.parse::<Phones>().map(|phones| phones.0.len());
        assert_eq!((phones(""), phones(" , ")), (Ok(0), Ok(0)));
        assert_eq!(phones("13800138000, +8613800138000,+442071838750"), Ok(2));
        assert!(phones("13800138000,12").is_err_and(|error| error.contains("\"12\"")));
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
