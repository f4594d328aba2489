//! What the pages of one server share.

use super::assets::{Asset, Assets};
use crate::config::{BasePath, ServerArgs};
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
    /// Where below its host the server is.
    pub(super) base: BasePath,
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
        let (currency, base) = (Currency::default(), BasePath::default());
        Self { assets: Assets::with(assets), navigation, shop, currency, base }
    }

    /// The pages of a server with these settings.
    #[must_use]
    pub fn of(settings: &ServerArgs) -> Self {
        let (currency, base) = (settings.currency.clone(), settings.base_path.clone());
        Self { currency, base, ..Self::default() }
    }

    /// Where the asset of this name is.
    #[must_use]
    pub fn asset(&self, name: &str) -> String {
        self.base.address(&self.assets.path(name))
    }
}
