//! The page that describes the API, in a real browser that reaches nothing but us.

use crate::api_client::Api;
use crate::browser;

/// Not a loopback name: for those Swagger UI leaves out what it fetches from elsewhere.
const HOST: &str = "seckill.test";

/// The page as it stands when its scripts have done their work.
async fn rendered(api: &Api) -> String {
    let only_us =
        format!("--host-resolver-rules=MAP {HOST} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
    let url = format!("http://{HOST}:{}/docs/", api.address.port());
    browser::rendered(&url, &["--window-size=1200,2000", &only_us]).await
}

/// The values of `attribute` in `html`.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!("{attribute}=\"");
    html.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

fn is_elsewhere(address: &str) -> bool {
    let ours = format!("http://{HOST}");
    (address.contains("://") || address.starts_with("//")) && !address.starts_with(&ours)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_without_a_network_shows_the_operations() {
    let api = Api::new().await;
    let dom = rendered(&api).await;
    let shown = dom.replace('\u{200b}', "").replace("<wbr>", "");
    for path in ["/api/vouchers/{id}/orders", "/api/login-codes", "/api/orders/{id}", "/healthz"] {
        assert!(shown.contains(&format!("data-path=\"{path}\"")), "{path} is not shown in {dom}");
    }
    assert!(shown.contains("Buys one voucher for the user of the token"), "{dom}");
    assert!(!shown.contains("Failed to load"), "{dom}");
    // Nothing that a browser loads by itself comes from elsewhere; a link is no load.
    let elsewhere: Vec<_> = values(&dom, "src").into_iter().filter(|it| is_elsewhere(it)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(!dom.contains("validator.swagger.io"));
}

#[tokio::test]
async fn the_page_and_what_it_names_are_served_by_us() {
    let api = Api::new().await;
    let page = api.get("/docs").await;
    page.is(200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let mut named = values(&page.text, "src");
    named.extend(values(&page.text, "href"));
    assert!(named.len() >= 4, "{}", page.text);
    for name in named {
        assert!(!is_elsewhere(name), "{name}");
        let file = api.get(&format!("/docs/{}", name.trim_start_matches("./"))).await;
        assert!(!file.is(200).text.is_empty(), "{name}");
        let is_a_library = name.contains("swagger-ui");
        assert!(is_a_library || !file.text.contains("://"), "{name}: {}", file.text);
    }
}
