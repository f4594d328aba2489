//! The scripts and styles of `web/`, and those that another program adds. Their addresses carry one
//! digest of all of them: a browser keeps a file for ever, and a module names its neighbours by their
//! plain names.

use axum::body::Bytes;
use axum::http::HeaderValue;
use ring::digest::{Context, SHA256};

use crate::http::static_file::StaticFile;

/// The media type of a script.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The media type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
/// The icon of every page.
pub(super) const ICON: &str = "icon.svg";

/// Name, media type and bytes of a file that a page may load.
pub type Asset = (&'static str, &'static str, &'static [u8]);

/// A file of `web/`.
macro_rules! web {
    ($name:literal, $content_type:expr) => {
        ($name, $content_type, include_bytes!(concat!("../../web/", $name)).as_slice())
    };
}

/// The files of the server's own pages.
const ASSETS: &[Asset] = &[
    web!("icon.svg", PICTURE),
    web!("style.css", STYLE),
    web!("page.js", SCRIPT),
    web!("words.js", SCRIPT),
    web!("api.js", SCRIPT),
    web!("format.js", SCRIPT),
    web!("live.js", SCRIPT),
    web!("states.js", SCRIPT),
    web!("login.js", SCRIPT),
    web!("question.js", SCRIPT),
    web!("session.js", SCRIPT),
    web!("my_orders.js", SCRIPT),
    web!("order_actions.js", SCRIPT),
    web!("app_payment.js", SCRIPT),
    web!("pay_url.js", SCRIPT),
    web!("orders.js", SCRIPT),
    web!("card.js", SCRIPT),
    web!("entry.js", SCRIPT),
    web!("storefront.js", SCRIPT),
    web!("sandbox.js", SCRIPT),
    web!("sandbox_words.js", SCRIPT),
    web!("board.css", STYLE),
    web!("board.js", SCRIPT),
    web!("board_audits.js", SCRIPT),
    web!("board_create.js", SCRIPT),
    web!("board_edit.js", SCRIPT),
    web!("board_fields.js", SCRIPT),
    web!("board_figures.js", SCRIPT),
    web!("board_line.js", SCRIPT),
    web!("board_form.js", SCRIPT),
    web!("board_login.js", SCRIPT),
    web!("board_money.js", SCRIPT),
    web!("board_orders.js", SCRIPT),
    web!("board_plot.js", SCRIPT),
    web!("board_points.js", SCRIPT),
    web!("board_promises.js", SCRIPT),
    web!("board_verdict.js", SCRIPT),
    web!("metrics.js", SCRIPT),
    web!("vendor/uplot.js", SCRIPT),
    web!("vendor/uplot.css", STYLE),
    web!("vendor/uplot-LICENSE.txt", TEXT),
    web!("vendor/lean-qr.js", SCRIPT),
    web!("vendor/lean-qr-LICENSE.txt", TEXT),
];

/// All files of a site.
#[derive(Debug)]
pub(super) struct Assets {
    /// Changes with every file.
    pub(super) version: String,
    files: Vec<(&'static str, StaticFile)>,
}

impl Assets {
    /// The server's own, and those that are `added`.
    pub(super) fn with(added: &[Asset]) -> Self {
        let mut digest = Context::new(&SHA256);
        let mut files = Vec::new();
        for (name, content_type, bytes) in ASSETS.iter().chain(added) {
            digest.update(name.as_bytes());
            digest.update(bytes);
            let content_type = HeaderValue::from_static(content_type);
            files.push((*name, StaticFile::new(content_type, Bytes::from_static(bytes))));
        }
        Self { version: hex::encode(&digest.finish().as_ref()[..8]), files }
    }

    /// The path of the asset of this name.
    pub(super) fn path(&self, name: &str) -> String {
        assert!(self.find(name).is_some(), "{name} is no asset");
        format!("/assets/{}/{name}", self.version)
    }

    pub(super) fn find(&self, name: &str) -> Option<&StaticFile> {
        self.files.iter().find_map(|(known, file)| (*known == name).then_some(file))
    }
}
