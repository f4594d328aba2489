//! Pages as they are served: what a browser is told of them, what they weigh.

use testkit::shop::api_client::{Answer, Api};

/// The addresses in `attribute` of a page.
pub fn addresses<'a>(page: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("{attribute}=\"");
    let parts: Vec<&str> = page.split(&start).skip(1).collect();
    parts.into_iter().map(|rest| rest.split('"').next().unwrap())
}

async fn page(api: &Api, path: &str, language: &str) -> Answer {
    let answer = api.send(api.request("GET", path).header("accept-language", language)).await;
    answer.is(200);
    answer
}

#[tokio::test]
async fn a_page_comes_in_the_language_of_its_reader_with_a_strict_policy() {
    let api = Api::shared().await;
    for (path, accepted, language) in [
        ("/", "en", "en"),
        ("/", "zh", "zh-CN"),
        ("/?lang=en", "zh", "en"),
        ("/?lang=zh-CN", "en", "zh-CN"),
        ("/?lang=%ff&x", "zh", "zh-CN"),
        ("/?lang=", "fr", "en"),
    ] {
        let answer = page(&api, path, accepted).await;
        assert_eq!(answer.header("content-language"), Some(language), "{path} {accepted}");
        assert!(answer.text.contains(&format!("<html lang=\"{language}\"")));
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        // Nor does it contain what such a policy refuses.
        let scripts = answer.text.matches("<script").count();
        let inert = answer.text.matches("type=\"application/json\"").count();
        assert_eq!(scripts, answer.text.matches(" src=\"/assets/").count() + inert);
        assert!(!answer.text.contains("<style") && !answer.text.contains(" style="));
    }
}

/// Not on the board: administrators are named in the settings.
#[tokio::test]
async fn the_shop_alone_says_that_the_first_login_makes_an_account() {
    for (path, says_it) in [("/", true), ("/board", false)] {
        let answer = page(&Api::shared().await, path, "en").await;
        assert_eq!(answer.text.contains("The first login makes an account"), says_it, "{path}");
        assert!(answer.text.contains("11 digits, or with + and the country code"), "{path}");
    }
}

#[tokio::test]
async fn an_asset_is_kept_for_ever_under_its_version_and_not_at_all_under_another() {
    let api = Api::shared().await;
    let page = page(&api, "/", "en").await;
    let assets: Vec<_> = addresses(&page.text, "src")
        .chain(addresses(&page.text, "href"))
        .filter(|address| address.starts_with("/assets/"))
        .collect();
    assert!(assets.len() >= 3, "{assets:?}");
    for asset in assets {
        let kept = api.get(asset).await;
        assert!(!kept.is(200).text.is_empty());
        assert_eq!(kept.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let (name, version) =
            (asset.splitn(4, '/').last().unwrap(), asset.split('/').nth(2).unwrap());
        assert!(version.len() == 16, "{asset}");
        let of_another_release = api.get(&format!("/assets/0123456789abcdef/{name}")).await;
        assert_eq!(of_another_release.header("cache-control"), Some("no-store"));
        assert_eq!(of_another_release.text, kept.text);
    }
    for nothing in ["/assets/0/none.js", "/assets/0/../mod.rs", "/assets/0/%2e%2e/style.css"] {
        api.get(nothing).await.problem(404, "not_found");
    }
    let posted = api.send(api.request("POST", "/")).await;
    posted.problem(405, "method_not_allowed");
}

/// What a first visit transfers: the page and all that it names, and what those name.
#[tokio::test]
async fn the_shop_weighs_less_than_60_kilobytes() {
    let api = Api::shared().await;
    let packed = async |path: &str| {
        let request = api.request("GET", path).header("accept-encoding", "gzip");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["content-encoding"], "gzip", "{path}");
        answer.bytes().await.unwrap().len()
    };
    let page = page(&api, "/", "en").await.text;
    let mut found: Vec<String> = addresses(&page, "src")
        .chain(addresses(&page, "href"))
        .filter(|address| address.starts_with("/assets/"))
        .map(str::to_owned)
        .collect();
    let mut weight = packed("/").await;
    let mut seen = 0;
    while let Some(asset) = found.get(seen).cloned() {
        seen += 1;
        weight += packed(&asset).await;
        let directory = asset.rsplit_once('/').unwrap().0;
        let text = api.get(&asset).await.text;
        for line in text.lines().filter(|line| line.starts_with("import ")) {
            let name = line.split('"').nth(1).unwrap().trim_start_matches("./");
            let imported = format!("{directory}/{name}");
            if !found.contains(&imported) {
                found.push(imported);
            }
        }
    }
    println!("{weight} bytes in {} files", seen + 1);
    assert!(seen >= 6 && weight < 60_000, "{weight} bytes in {} files: {found:?}", seen + 1);
}

#[tokio::test]
async fn where_no_page_is_people_see_one_and_programs_get_a_problem() {
    let api = Api::shared().await;
    let of_a_browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for (language, title) in [("en", "There is no such page"), ("zh", "页面不存在")] {
        let request = api.request("GET", "/nothing").header("accept", of_a_browser);
        let answer = api.send(request.header("accept-language", language)).await;
        assert!(answer.is(404).text.contains(&format!("<h1>{title}</h1>")), "{}", answer.text);
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(answer.text.contains("<a href=\"/\">"), "{}", answer.text);
    }
    for accepted in ["*/*", "application/json", "application/problem+json, text/plain"] {
        let request = api.request("GET", "/nothing").header("accept", accepted);
        api.send(request).await.problem(404, "not_found");
    }
    api.get("/nothing").await.problem(404, "not_found");
    // Some programs name HTML first, and mean nothing by it.
    for path in ["/api/nothing", "/api/vouchers/1/nothing"] {
        let request = api.request("GET", path).header("accept", of_a_browser);
        api.send(request).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn every_page_is_there_for_those_who_add_a_slash_too() {
    let api = Api::shared().await;
    let first = page(&api, "/", "en").await.text;
    let linked = addresses(&first, "href").filter(|it| it.starts_with('/') && !it.contains('.'));
    let pages: Vec<_> = linked.chain(["/sandbox/payments/1.2.3"]).collect();
    assert!(pages.contains(&"/board") && pages.contains(&"/docs/"), "{pages:?}");
    for path in pages {
        let path = path.trim_end_matches('/');
        let [with, without] = ["/?lang=zh-CN", "?lang=zh-CN"].map(|end| format!("{path}{end}"));
        let shown = page(&api, &with, "en").await.text;
        assert!(shown == page(&api, &without, "en").await.text, "{path}");
    }
    api.get("/nothing/").await.problem(404, "not_found");
    api.get("/api/vouchers/").await.problem(404, "not_found");
}

#[tokio::test]
async fn every_page_has_an_icon_and_so_has_the_address_that_browsers_guess() {
    let api = Api::shared().await;
    let page = page(&api, "/", "en").await.text;
    let link = page.split("<link rel=\"icon\"").nth(1).unwrap();
    for path in [addresses(link, "href").next().unwrap(), "/favicon.ico"] {
        let icon = api.get(path).await;
        assert!(icon.is(200).text.starts_with("<svg "), "{path}");
        assert_eq!(icon.header("content-type"), Some("image/svg+xml"));
    }
}
