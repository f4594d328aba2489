//! The pages of one server: its own, and what another program adds to them.

use maud::Markup;

use super::assets::{Asset, Assets};
use crate::http::Language;

/// A path, and its name in English and in Chinese.
pub type NavigationEntry = (&'static str, [&'static str; 2]);

/// The server's own navigation.
const NAVIGATION: [NavigationEntry; 2] = [("/", ["Sales", "抢购"]), ("/board", ["Board", "看板"])];

/// What another program adds to the pages.
#[derive(Debug, Default, Clone)]
pub struct SiteAdditions {
    /// Files that its pages load.
    pub assets: Vec<Asset>,
    /// The navigation, in place of the server's own, which has the shop and the board.
    pub navigation: Option<Vec<NavigationEntry>>,
    /// Where the shop is, where another page is the first one; otherwise it is at `/`.
    pub shop: Option<&'static str>,
    /// Modules that the shop loads beside its own: names of assets.
    pub shop_modules: Vec<&'static str>,
    /// Additions to the board.
    pub board: Option<BoardAdditions>,
    /// Whether there is a page on which buyers pay.
    pub has_sandbox: bool,
}

/// What the board of a demonstration has beside the server's own.
#[derive(Debug, Clone, Copy)]
pub struct BoardAdditions {
    /// What stands above everything else.
    pub top: fn(Language) -> Markup,
    /// The phone of the demonstration's administrator, for the login.
    pub admin_phone: Option<&'static str>,
}

/// All that the pages of one server share.
#[derive(Debug)]
pub struct Site {
    pub(super) assets: Assets,
    pub(super) navigation: Vec<NavigationEntry>,
    /// Where the shop is.
    pub(super) shop: &'static str,
    pub(super) shop_modules: Vec<&'static str>,
    pub(super) board: Option<BoardAdditions>,
    pub(super) has_sandbox: bool,
}

impl Site {
    /// The server's own pages, and what is added to them.
    #[must_use]
    pub fn with(added: SiteAdditions) -> Self {
        let SiteAdditions { assets, navigation, shop, shop_modules, board, has_sandbox } = added;
        Self {
            assets: Assets::with(&assets),
            navigation: navigation.unwrap_or_else(|| NAVIGATION.to_vec()),
            shop: shop.unwrap_or("/"),
            shop_modules,
            board,
            has_sandbox,
        }
    }
}
