//! Settings that are lists, with commas between their items.

use std::collections::HashSet;
use std::net::IpAddr;
use std::str::FromStr;

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
    }
}
