//! Whether what a page says can be read.

use serde_json::json;

use super::web_driver::{Browser, DESKTOP, PHONE};

/// The screens on which a page is looked at: a small phone, too.
pub const SCREENS: [(u32, u32); 3] = [DESKTOP, (320, 640), PHONE];

/// How many of the elements that are pressed or filled in can be seen and have no name.
const UNNAMED: &str =
    "[...document.querySelectorAll('button, a, input, select, textarea')].filter(it =>
    it.checkVisibility({ visibilityProperty: true })
        && !(it.innerText || it.textContent || it.labels?.length)).length";

/// The texts whose contrast to what is behind them is below 4.5 (WCAG 2.1, AA).
const POOR_CONTRAST: &str = "(() => {
    const channels = (color) => color.match(/[\\d.]+/g).map(Number);
    const luminance = ([r, g, b]) => [r, g, b].map((value) => value / 255)
        .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = channels(getComputedStyle(at).backgroundColor);
            if (color[3] !== 0) return color;
        }
        return [255, 255, 255];
    };
    const poor = [];
    for (const element of document.querySelectorAll('body *')) {
        const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!text || !element.checkVisibility() || element.tagName === 'SCRIPT') continue;
        const [a, b] = [channels(getComputedStyle(element).color), behind(element)].map(luminance);
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) poor.push(element.className + ': ' + contrast.toFixed(2));
    }
    return poor;
})()";

impl Browser {
    /// By day and by night there is contrast between what is read and what is behind it.
    pub async fn has_contrast(&self, what: &str) {
        for scheme in ["dark", "light"] {
            self.prefers(scheme).await;
            assert_eq!(self.value(POOR_CONTRAST).await, json!([]), "{what} {scheme}");
        }
    }

    /// What is read has contrast, what is pressed has a name, and nothing is wider than the page on any screen. The last one
    /// is a phone's.
    pub async fn is_readable(&self, what: &str) {
        self.has_contrast(what).await;
        for size in SCREENS {
            self.resize(size).await;
            self.fits().await;
        }
        assert_eq!(self.value(UNNAMED).await, 0, "{what}");
    }

    /// Waits until nothing is wider than the page.
    pub async fn fits(&self) {
        let page = "document.documentElement";
        self.until(&format!("{page}.scrollWidth <= {page}.clientWidth")).await;
    }
}
