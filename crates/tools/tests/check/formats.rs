//! What a file can say of a purchase: steps, limits, places, items; and one buyer who tries it.

use std::net::SocketAddr;
use std::sync::Arc;

use testkit::processes::place;
use testkit::program::Ran;
use testkit::redis_nodes::Certificates;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::shop::{Design, LATER, Shop};
use super::{ONE_ROUND, QUIET, TWO_ROUNDS, check, command, replaced};

const LOGIN: &str = "[tokens.login]\nrequest = { path = \"/login\", body = '{\"user\": {user}}' }\n\
                     token = { cookie = \"sid\" }\n";

/// The file of a shop that knows buyers by the cookie of their login.
fn with_cookies(shop: &Shop, more: &str) -> String {
    let text = shop.file(more, &format!("{QUIET}{LOGIN}"));
    replaced(&text, "{ user = \"{user}\" }", "{ cookie = \"sid={token}\" }")
}

/// A step before the purchase, which takes something of its answer.
fn checkout(take: &str) -> String {
    format!(
        "[[step]]\npath = \"/checkout/{{voucher}}\"\nheaders = {{ user = \"{{user}}\" }}\n\
         take = {take}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_several_requests_hands_on_what_each_answer_gives() {
    for (take, path) in [
        ("{ code = \"/code\" }", "/pay?code={code}"),
        (
            "{ code = { header = \"location\", after = \"code=\", until = \"&\" } }",
            "/pay?code={code}",
        ),
        ("{ code = { cookie = \"cart\" } }", "/pay?code={code}"),
        ("{ next = { header = \"location\" } }", "{next}"),
    ] {
        let shop = Shop::start(Design::Right).await;
        let text = replaced(&shop.file(&checkout(take), QUIET), "/buy/{voucher}", path);
        let checked = check(&text, &TWO_ROUNDS).await;
        checked.is_judged(&[], &[]);
        // Refused at the first step, and served by the last.
        let outcomes = checked["outcomes"].as_object().unwrap();
        assert!(outcomes["sold_out"].as_u64() > Some(20), "{outcomes:?}");
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_promised_as_the_file_says_it_and_without_one_nothing_is() {
    for (design, limit, verdict) in [
        (Design::TenEach, "10", Some("holds")),
        (Design::TenEach, "1", Some("broken")),
        (Design::Duplicates(20), "\"none\"", None),
    ] {
        let shop = Shop::start(design).await;
        let checked = check(&shop.file(&format!("per_user = {limit}"), QUIET), &TWO_ROUNDS).await;
        let broken = if verdict == Some("broken") { &["one_per_user"][..] } else { &[] };
        checked.is_judged(broken, &[]);
        let is_of = |verdict: &&str| checked.with(verdict).contains(&"one_per_user");
        assert_eq!(["holds", "broken"].into_iter().find(is_of), verdict, "{checked:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_ask_after_each_of_their_orders_by_its_id() {
    let shop = Shop::start(Design::Queues).await;
    let text = replaced(&shop.file("", QUIET), "status = 202", "status = 202\norder = \"/ticket\"")
        + &replaced(LATER, "/mine/{voucher}", "/orders/{order}");
    let checked = check(&text, &TWO_ROUNDS).await;
    checked.is_judged(&[], &[]);
    let voucher = &checked["vouchers"][0];
    assert_eq!(voucher["told"], voucher["stock"], "{checked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_are_on_sale_already_are_taken_one_for_each_crowd() {
    let shop = Shop::start(Design::Right).await;
    let vouchers = [(); 6].map(|()| shop.voucher(1, &[]));
    let sale = "request = { path = \"/vouchers\", body = '{\"stock\": {stock}}' }";
    let listed = format!("vouchers = \"{}..{}\"", vouchers[0], vouchers[5]);
    let checked = check(&replaced(&shop.file("", QUIET), sale, &listed), &[]).await;
    checked.is_judged(&[], &[]);
    assert_eq!(checked["vouchers"].as_array().unwrap().len(), 6, "{checked:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_gives_its_cookie_and_not_the_same_to_everybody() {
    let shop = Shop::start(Design::Right).await;
    let text = with_cookies(&shop, "");
    check(&text, &TWO_ROUNDS).await.is_judged(&[], &[]);
    let same = replaced(&text, "{\"user\": {user}}", "{\"all\": true, \"user\": {user}}");
    let checked = check(&same, &TWO_ROUNDS).await;
    checked.is_refused("gives the token of user 1: everybody would be one buyer");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_tries_the_file_and_is_shown_what_fits() {
    let shop = Shop::start(Design::Right).await;
    let text = with_cookies(&shop, &checkout("{ code = { cookie = \"cart\" } }"));
    let right = replaced(&text, "\"/buy/{voucher}\"", "\"/pay?code={code}\"");
    let wrong = replaced(&text, "\"/buy/{voucher}\"", "\"/pey?code={code}\"");
    for (text, status, words) in [
        (
            &right,
            0,
            &[
                "Login of user 1",
                "sid={token}",
                "{code} is c",
                "fits the rule",
                ": ordered",
                "1 users, 0 left",
                "the file says how to buy here",
            ][..],
        ),
        (&wrong, 2, &["<- 404", "fits no rule", "nothing was bought"]),
    ] {
        let place = place();
        let ran = Ran::from(command(place.path(), text).arg("--trial").output().await.unwrap());
        assert_eq!(ran.status, status, "{ran:?}");
        for word in words {
            assert!(ran.stdout.contains(word), "{word}: {ran:?}");
        }
        assert!(!ran.stdout.contains("sid=t1"), "{ran:?}");
    }
}

/// Ends TLS in front of a server. Returns its port.
async fn behind_tls(certificates: &Certificates, server: SocketAddr) -> u16 {
    let file = |name: &str| certificates.ca().with_file_name(name);
    let chain = CertificateDer::pem_file_iter(file("server.pem")).unwrap().map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(chain.collect(), key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outside = acceptor.accept(stream).await?;
                let mut inside = TcpStream::connect(server).await?;
                copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_behind_tls_is_judged_where_its_certificate_is_trusted() {
    let certificates = Certificates::new();
    let shop = Shop::start(Design::Right).await;
    let [a, b] = shop.addresses;
    let (c, d) = (behind_tls(&certificates, a).await, behind_tls(&certificates, b).await);
    let place = place();
    let plain = format!("\"http://{a}\", \"http://localhost:{}/\"", b.port());
    let secured = format!("\"https://localhost:{c}\", \"https://127.0.0.1:{d}\"");
    let text = replaced(&shop.file("", QUIET), &plain, &secured);
    let mut command = command(place.path(), &text);
    command.args(["--users", "40"]).args(ONE_ROUND).env_remove("SSL_CERT_DIR");
    for (trusted, status) in [(certificates.ca(), 0), (place.path().join("none.pem"), 2)] {
        let output = command.env("SSL_CERT_FILE", trusted).output().await.unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
}
