//! The pages of the course: every link leads somewhere, in both languages, and they are read in a real browser.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use ladder::RUNGS;
use serde_json::json;
use testkit::shop::api_client::Client;
use testkit::shop::private_server::PrivateServer;
use testkit::shop::web_driver::{DESKTOP, PHONE};

use crate::lab_page::Game;
use crate::lab_player::{Played, options};

/// What a page may weigh, with all that it loads, as it is transferred.
pub const MAX_BYTES: usize = 100_000;

const LANGUAGES: [&str; 2] = ["en", "zh-CN"];

/// The addresses of all pages, without a language.
fn paths() -> Vec<String> {
    let beside = [
        "lab",
        "interleavings",
        "glossary",
        "isolation",
        "asynchronous",
        "messages",
        "efficiency_or_correctness",
        "bots",
    ];
    let names = RUNGS.iter().map(|rung| rung.id).chain(beside);
    let pages = names.map(|name| format!("/lab/course/{name}"));
    ["/lab/course".to_owned()].into_iter().chain(pages).collect()
}

/// The values of an attribute in a page that our own program wrote.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let begins = format!(" {name}=\"");
    let values = html.split(begins.as_str()).skip(1);
    values.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// A page without its code and its scripts.
fn prose(html: &str) -> String {
    let without = |html: String, name: &str| {
        let (begins, ends) = (format!("<{name}"), format!("</{name}>"));
        let mut parts = html.split(&begins);
        let first = parts.next().unwrap().to_owned();
        first + &parts.filter_map(|part| Some(part.split_once(&ends)?.1)).collect::<String>()
    };
    ["script", "pre", "code"].into_iter().fold(html.to_owned(), without)
}

/// What `%E6%89%93` stands for.
fn decoded(anchor: &str) -> String {
    let pairs = url::form_urlencoded::parse(anchor.as_bytes());
    pairs.map(|(name, _)| name.into_owned()).collect()
}

/// How many bytes a page or a file takes compressed, and its text.
pub async fn transferred(api: &Client, path: &str) -> (usize, String) {
    let request = api.request("GET", path).header("accept-encoding", "gzip");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    assert_eq!(answer.headers()["content-encoding"], "gzip", "{path}");
    let bytes = answer.bytes().await.unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    (bytes.len(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_and_anchor_of_every_page_is_there_in_both_languages() {
    let played = Played::new(options().await).await;
    let (mut ids, mut links) = (BTreeMap::new(), BTreeSet::new());
    for language in LANGUAGES {
        for path in paths() {
            let address = format!("{path}?lang={language}");
            let answer = played.api.get(&address).await;
            answer.is(200);
            assert_eq!(answer.header("content-language"), Some(language), "{address}");
            // The policy allows no style that stands in the page.
            assert!(!answer.text.contains(" style="), "{address}");
            assert!(!answer.text.contains("<!--") && !answer.text.contains(".md\""), "{address}");
            // Marks of Markdown that were not read as such.
            let prose = prose(&answer.text);
            let mark = prose.lines().find(|line| line.contains("**") || line.contains('`'));
            assert_eq!(mark, None, "{address}");
            let of_page: Vec<String> =
                attributes(&answer.text, "id").into_iter().map(str::to_owned).collect();
            let unique: BTreeSet<&String> = of_page.iter().collect();
            assert_eq!(unique.len(), of_page.len(), "{address}: {of_page:?}");
            for link in attributes(&answer.text, "href") {
                let link = link.replace("&amp;", "&");
                if link.starts_with('/') {
                    links.insert((address.clone(), link));
                } else if link.starts_with('#') {
                    links.insert((address.clone(), format!("{address}{link}")));
                } else {
                    let is_known = ["?lang=", "https://", "http://", "data:,"]
                        .iter()
                        .any(|it| link.starts_with(it));
                    assert!(is_known && !link.contains("127.0.0.1"), "{address}: {link}");
                }
            }
            ids.insert(address, of_page);
        }
    }
    assert!(links.len() > 5_000, "{}", links.len());
    // Pages that are not the course's are there where everything is served.
    let whole = PrivateServer::start().await;
    let http = reqwest::Client::new();
    let (mut dead, mut others) = (Vec::new(), BTreeMap::new());
    for (page, link) in &links {
        let (address, anchor) = link.split_once('#').unwrap_or((link, ""));
        let is_there = match ids.get(address) {
            Some(of_page) => anchor.is_empty() || of_page.contains(&decoded(anchor)),
            // Another page; none of them is asked for an anchor.
            None => {
                if !others.contains_key(address) {
                    let url = format!("http://{}{address}", whole.node.address);
                    others.insert(address, http.get(url).send().await.unwrap().status());
                }
                anchor.is_empty() && others[address] == 200
            }
        };
        if !is_there {
            dead.push(format!("{page}: {link}"));
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_there_for_those_who_add_a_slash_too() {
    let server = PrivateServer::start().await;
    let first = server.api.get("/").await;
    let linked = attributes(first.is(200).text.as_str(), "href").into_iter();
    let linked = linked.filter(|it| it.starts_with('/') && !it.contains(['.', '?']));
    let pages: BTreeSet<String> = linked.map(str::to_owned).chain(paths()).collect();
    for known in ["/watch", "/lab", "/shop", "/board", "/docs/", "/lab/course"] {
        assert!(pages.contains(known), "{known}: {pages:?}");
    }
    for path in &pages {
        let path = path.trim_end_matches('/');
        let shown = server.api.get(&format!("{path}/?lang=zh-CN")).await;
        let page = server.api.get(&format!("{path}?lang=zh-CN")).await;
        assert!(shown.is(200).text == page.is(200).text, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_course_is_light_and_a_page_that_is_not_there_is_not_found() {
    let played = Played::new(options().await).await;
    let mut assets = BTreeMap::new();
    for path in paths() {
        for language in LANGUAGES {
            let (mut bytes, page) =
                transferred(&played.api, &format!("{path}?lang={language}")).await;
            let loaded: BTreeSet<&str> = [attributes(&page, "href"), attributes(&page, "src")]
                .into_iter()
                .flatten()
                .collect();
            for asset in loaded.into_iter().filter(|path| path.starts_with("/assets/")) {
                if !assets.contains_key(asset) {
                    assets.insert(asset.to_owned(), transferred(&played.api, asset).await.0);
                }
                bytes += assets[asset];
            }
            assert!(bytes < MAX_BYTES, "{path} in {language}: {bytes} bytes");
        }
    }
    assert_eq!(assets.len(), 5, "{assets:?}");
    for path in ["/lab/course/nothing", "/lab/course/r", "/lab/course/..%2Flab"] {
        assert_eq!(played.api.get(path).await.status, 404, "{path}");
    }
    // A rung is found by the beginning of its name, as everywhere.
    let short = played.api.get("/lab/course/r05a?lang=zh-CN").await;
    short.is(200);
    assert_eq!(short.header("content-language"), Some("zh-CN"));
    played.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chapter_is_read_on_a_phone_and_its_diagram_scrolls_in_its_box() {
    let browser = Game::new(options().await, "en", PHONE).await;
    let page = format!("http://{}/lab/course", browser.played.api.address);
    for language in LANGUAGES {
        for name in ["", "/r02_row_lock", "/r24_expire_by_timer", "/lab", "/isolation", "/glossary"]
        {
            browser.open(&format!("{page}{name}?lang={language}")).await;
            for size in [(320, 640), PHONE] {
                browser.resize(size).await;
                browser.fits().await;
            }
        }
    }
    // Folded, the contents leave the page to the text; unfolded, they name every chapter.
    browser.open(&format!("{page}/r02_row_lock?lang=en")).await;
    browser.until("!document.querySelector('#contents').open").await;
    browser.click("#contents > summary").await;
    browser.until_shown("#contents a[href*=r27b]").await;
    browser.click("#contents > summary").await;

    let wider = "(box => box.scrollWidth > box.clientWidth && box.tabIndex === 0)\
        (document.querySelector('.diagram'))";
    browser.until(wider).await;
    assert_eq!(browser.count(".diagram svg .done path").await, 5);
    // Each text is inside the drawing, and those of a column inside their column.
    let outside = "[...document.querySelectorAll('.diagram svg')].flatMap(svg => {
        const all = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const box = text.getBoundingClientRect();
            const around = text.previousElementSibling?.matches('rect')
                ? text.previousElementSibling.getBoundingClientRect() : all;
            return box.left < around.left || box.right > around.right || box.bottom > all.bottom;
        }).map(text => text.textContent);
    })";
    for rung in ["r02_row_lock", "r13b_wakeup", "r20_lua_and_queue", "r24_expire_by_timer"] {
        for language in LANGUAGES {
            browser.open(&format!("{page}/{rung}?lang={language}")).await;
            assert_eq!(browser.value(outside).await, json!([]), "{rung} {language}");
        }
    }
    let said = "document.querySelector('.diagram svg').getAttribute('aria-label')";
    let said = browser.value(said).await;
    assert!(said.as_str().unwrap().contains("A → PostgreSQL"), "{said}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_course_leads_into_the_player_and_from_rung_to_rung_in_the_language_of_its_reader() {
    let browser = Game::new(options().await, "en", DESKTOP).await;
    let page = format!("http://{}/lab/course", browser.played.api.address);
    browser.open(&page).await;
    browser.click("article a[href*='/r02_row_lock']").await;
    browser.until_text("h1", "r02_row_lock").await;
    browser.until("document.querySelector('#contents').open").await;
    browser.until_text("#contents [aria-current]", "r02").await;
    // The language changes, the page stays, and so it goes on.
    browser.click("#language").await;
    browser.until("document.documentElement.lang === 'zh-CN'").await;
    browser.until_text("h1", "r02_row_lock").await;
    browser.until_text(".place", "多卖一张").await;
    browser.click(".neighbours [rel=next]").await;
    browser.until_text("h1", "r03_version_cas").await;
    assert_eq!(browser.value("document.documentElement.lang").await, "zh-CN");
    browser.until_text(".play-rung", "试试这一关").await;

    browser.open(&format!("{page}/r02_row_lock?lang=en")).await;
    // What the player does not have is a line to copy.
    browser.until_text(".command", "seckill lab replay r02_row_lock herd").await;
    browser.click(".play button").await;
    browser.until_text(".play [role=status]", "Copied").await;
    browser.click(".play a[href*='schedule=']").await;
    browser.until("location.pathname === '/lab'").await;
    browser.until_text("#verdict", "one_per_user").await;
    let address = browser.value("location.href").await.as_str().unwrap().to_owned();
    for part in ["rung=r02_row_lock", "users=1", "processes=1", "stock=2", "schedule=ABAB"] {
        assert!(address.contains(part), "{address}");
    }
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_course_has_contrast_by_day_and_by_night() {
    let browser = Game::new(options().await, "en", DESKTOP).await;
    let page = format!("http://{}/lab/course", browser.played.api.address);
    for name in ["", "/r02_row_lock", "/r11_lua_release", "/lab"] {
        browser.open(&format!("{page}{name}?lang=en")).await;
        browser.until("document.querySelector('#contents').open").await;
        browser.has_contrast(name).await;
    }
    browser.close().await;
}
