//! The currency of prices.

use std::fmt;
use std::str::FromStr;

/// Currencies without smaller units, and with three decimals (ISO 4217); all others have two.
const NO_DECIMALS: [&str; 16] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV",
    "XAF", "XOF", "XPF",
];
const THREE_DECIMALS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// A currency by its code of three letters (ISO 4217). Amounts are kept in its smallest unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Currency(String);

impl Default for Currency {
    fn default() -> Self {
        Self("CNY".to_owned())
    }
}

impl FromStr for Currency {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        is_code
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| format!("{text:?} is no code of ISO 4217 like CNY, EUR or JPY"))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Currency {
    /// How many digits an amount has behind the point.
    pub fn decimals(&self) -> u32 {
        match self.0.as_str() {
            code if NO_DECIMALS.contains(&code) => 0,
            code if THREE_DECIMALS.contains(&code) => 3,
            _ => 2,
        }
    }

    /// `amount` of the smallest unit, which is not negative, in whole units: `80.00`.
    pub fn decimal(&self, amount: i64) -> String {
        let (unit, digits) = (10_i64.pow(self.decimals()), self.decimals() as usize);
        match digits {
            0 => amount.to_string(),
            _ => format!("{}.{:0digits$}", amount / unit, amount % unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_the_decimals_of_its_currency() {
        let written = |code: &str, amount| code.parse().map(|it: Currency| it.decimal(amount));
        for (code, amount, text) in [
            ("CNY", 0, "0.00"),
            ("CNY", 5, "0.05"),
            ("CNY", 100, "1.00"),
            ("EUR", 1_000_000_000_000, "10000000000.00"),
            ("JPY", 8000, "8000"),
            ("KWD", 999, "0.999"),
            ("KWD", 1000, "1.000"),
        ] {
            assert_eq!(written(code, amount).as_deref(), Ok(text), "{code}");
        }
        for wrong in ["", "cny", "CN", "CNYX", "¥", "CN1"] {
            assert!(
                wrong.parse::<Currency>().is_err_and(|error| error.contains("ISO 4217")),
                "{wrong}"
            );
        }
    }
}
