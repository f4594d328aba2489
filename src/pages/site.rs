//! What the pages of one server share.

use super::assets::{Asset, Assets};
use crate::model::Currency;

/// A path, and its name in English and in Chinese.
pub type NavigationEntry = (&'static str, [&'static str; 2]);

/// Where the shop of a server is.
const SHOP: &str = "/";
const NAVIGATION: &[NavigationEntry] = &[(SHOP, ["Shop", "商城"]), ("/board", ["Board", "看板"])];

/// What the pages of one server share.
#[derive(Debug)]
pub struct Site {
    pub(super) assets: Assets,
    pub(super) navigation: &'static [NavigationEntry],
    /// Where the shop is.
    pub(super) shop: &'static str,
    /// Of prices.
    pub(super) currency: Currency,
}

impl Default for Site {
    fn default() -> Self {
        Self::with(NAVIGATION, SHOP, &[])
    }
}

impl Site {
    /// Pages with this navigation, one of which is the shop, and which may load `assets` beside the server's own.
    #[must_use]
    pub fn with(
        navigation: &'static [NavigationEntry],
        shop: &'static str,
        assets: &[Asset],
    ) -> Self {
        Self { assets: Assets::with(assets), navigation, shop, currency: Currency::default() }
    }

    /// The same pages, with prices in `currency`.
    #[must_use]
    pub fn in_currency(self, currency: Currency) -> Self {
        Self { currency, ..self }
    }

    /// Where the asset of this name is.
    #[must_use]
    pub fn asset(&self, name: &str) -> String {
        self.assets.address(name)
    }
}
