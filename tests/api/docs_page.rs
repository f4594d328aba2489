//! The page that describes the API, in a real browser that reaches nothing but us.

use super::pages::addresses;
use testkit::shop::api_client::Api;
use testkit::shop::web_driver::{Browser, NAMED, PHONE};

fn is_elsewhere(address: &str) -> bool {
    let ours = format!("http://{NAMED}");
    (address.contains("://") || address.starts_with("//")) && !address.starts_with(&ours)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_without_a_network_shows_the_operations() {
    let api = Api::shared().await;
    let browser = Browser::new("en", (1200, 2000)).await;
    // Not by a loopback name: for those Swagger UI leaves out what it fetches from elsewhere.
    let page = format!("http://{NAMED}:{}/docs/#/orders/buy", api.address.port());
    browser.open(&page).await;
    browser.until_text("body", "Try it out").await;
    let dom = browser.value("document.documentElement.outerHTML").await;
    let dom = dom.as_str().unwrap();
    let shown = dom.replace('\u{200b}', "").replace("<wbr>", "");
    for path in ["/api/vouchers/{id}/orders", "/api/login-codes", "/api/orders/{id}", "/healthz"] {
        assert!(shown.contains(&format!("data-path=\"{path}\"")), "{path} is not shown in {dom}");
    }
    assert!(shown.contains("Buys one voucher for the user of the token"), "{dom}");
    assert!(!shown.contains("Failed to load"), "{dom}");
    // Nothing that a browser loads by itself comes from elsewhere; a link is no load.
    let elsewhere: Vec<_> = addresses(dom, "src").filter(|it| is_elsewhere(it)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(!dom.contains("validator.swagger.io"));
    // Nor has the page asked for anything that its policy forbids.
    browser.close().await;
}

#[tokio::test]
async fn a_file_comes_compressed_to_a_client_that_takes_it() {
    let api = Api::shared().await;
    let path = "/docs/swagger-ui.css";
    let whole = api.get(path).await;
    let taking_gzip = api.request("GET", path).header("accept-encoding", "br, gzip");
    let packed = taking_gzip.send().await.unwrap();
    let header = |name: &str| packed.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
    assert_eq!(header("content-encoding").as_deref(), Some("gzip"));
    assert_eq!(header("content-type").as_deref(), whole.header("content-type"));
    assert_eq!(header("vary").as_deref(), Some("accept-encoding"));
    let (packed, mut unpacked) = (packed.bytes().await.unwrap(), String::new());
    let mut decoder = flate2::read::GzDecoder::new(packed.as_ref());
    std::io::Read::read_to_string(&mut decoder, &mut unpacked).unwrap();
    assert!(packed.len() < whole.text.len() / 2);
    assert_eq!(unpacked, whole.text);
    assert_eq!(
        (whole.header("content-encoding"), whole.header("vary")),
        (None, Some("accept-encoding"))
    );
    for file in [path, "/docs/", "/api/openapi.json"] {
        assert!(api.get(file).await.header("cache-control").unwrap().starts_with("max-age="));
    }
}

#[tokio::test]
async fn the_page_and_what_it_names_are_served_by_us() {
    let api = Api::shared().await;
    let script = api.get("/docs/swagger-initializer.js").await;
    assert!(script.is(200).text.contains("\"persistAuthorization\": false"), "it keeps a token");
    let page = api.get("/docs").await;
    page.is(200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let named: Vec<_> = addresses(&page.text, "src").chain(addresses(&page.text, "href")).collect();
    assert!(named.len() >= 4, "{}", page.text);
    for name in named {
        assert!(!is_elsewhere(name), "{name}");
        let address = match name.strip_prefix("./") {
            Some(name) => format!("/docs/{name}"),
            None => name.trim_start_matches("..").to_owned(),
        };
        let file = api.get(&address).await;
        assert!(!file.is(200).text.is_empty(), "{name}");
        let is_a_library = name.contains("swagger-ui");
        assert!(is_a_library || !file.text.contains("://"), "{name}: {}", file.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_shows_it_and_there_is_a_way_back() {
    let api = Api::shared().await;
    let browser = Browser::new("en", PHONE).await;
    browser.open(&format!("http://{}/docs/", api.address)).await;
    browser.until_shown("[data-path='/api/login-codes']").await;
    let fits = "innerWidth === 390 && document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.value(fits).await, true);
    browser.click("nav a").await;
    browser.until_text("h1", "Shop").await;
    browser.close().await;
}
