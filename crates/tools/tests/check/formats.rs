//! What a file can say of a purchase: steps, limits, places, items, closed vouchers; and one buyer who tries it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use load::template::Values;
use seckill_tools::check::read::SourceText;
use seckill_tools::check::target::CheckTarget;
use testkit::processes::place;
use testkit::redis_nodes::Certificates;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::shop::{CLOSED, Design, Shop};
use super::{check, said, with};

/// Books of which nobody has to wait long.
const QUIET: &str = "quiet = \"20ms\"\n";
const ROUNDS: [&str; 2] = ["--rounds", "2"];

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}: {text}");
    text.replace(from, to)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_of_several_requests_hands_on_what_each_answer_gives() {
    for (take, path) in [
        ("take = { code = \"/code\" }", "/pay?code={code}"),
        (
            "take = { code = { header = \"location\", after = \"code=\", until = \"&\" } }",
            "/pay?code={code}",
        ),
        ("take = { code = { cookie = \"cart\" } }", "/pay?code={code}"),
        ("take = { next = { header = \"location\" } }", "{next}"),
    ] {
        let shop = Shop::start(Design::Right).await;
        let place = place();
        let step = format!(
            "[[step]]\npath = \"/checkout/{{voucher}}\"\nheaders = {{ user = \"{{user}}\" }}\n{take}\n"
        );
        let text = replaced(
            &shop.file(&step, QUIET),
            "path = \"/buy/{voucher}\"",
            &format!("path = \"{path}\""),
        );
        let (output, result) = check(place.path(), &text, &ROUNDS).await;
        let result = result.unwrap_or_else(|| panic!("{take}: {output:?}"));
        assert_eq!(result["holds"], true, "{take}: {result:#}");
        // Refused at the first step, and served by the last.
        let outcomes = result["outcomes"].as_object().unwrap();
        assert!(outcomes["sold_out"].as_u64() > Some(20), "{outcomes:?}");
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_ten_is_judged_as_ten_and_none_is_no_promise() {
    for (design, limit, broken, listed) in [
        (Design::TenEach, "10", &[][..], true),
        (Design::ElevenEach, "10", &["one_per_user"], true),
        (Design::TenEach, "1", &["one_per_user"], true),
        (Design::DuplicatesWide, "\"none\"", &[], false),
    ] {
        let shop = Shop::start(design).await;
        let place = place();
        let text = shop.file(&format!("per_user = {limit}"), QUIET);
        let (output, result) = check(place.path(), &text, &ROUNDS).await;
        let result = result.unwrap_or_else(|| panic!("{design:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), broken, "{design:?}: {result:#}");
        assert_eq!(with(&result, "unknown"), [""; 0], "{design:?}: {result:#}");
        let names: Vec<_> = result["promises"].as_array().unwrap().iter().collect();
        assert_eq!(names.iter().any(|it| it["promise"] == "one_per_user"), listed, "{result:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_ask_after_each_of_their_orders_by_its_id() {
    let shop = Shop::start(Design::Queues).await;
    let place = place();
    let text = replaced(&shop.file("", QUIET), "status = 202", "status = 202\norder = \"/ticket\"")
        + "[later]\nrequest = { path = \"/orders/{order}\" }\n\
           [[later.answer]]\nis = \"ordered\"\nstatus = 201\norder = \"/id\"\n\
           [[later.answer]]\nis = \"accepted\"\nstatus = 202\n\
           [[later.answer]]\nis = \"sold_out\"\nstatus = 409\n";
    let (output, result) = check(place.path(), &text, &ROUNDS).await;
    let result = result.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(result["holds"], true, "{result:#}");
    let told = result["vouchers"][0]["told"].as_i64();
    assert_eq!(told, result["vouchers"][0]["stock"].as_i64(), "{result:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_voucher_that_sells_breaks_a_promise_of_its_own() {
    for (design, broken) in
        [(Design::Right, &[][..]), (Design::SellsAfterTheEnd, &["in_its_window"])]
    {
        let shop = Shop::start(design).await;
        let place = place();
        let text = shop.file(&format!("closed = [{CLOSED}]"), QUIET);
        let (output, result) = check(place.path(), &text, &ROUNDS).await;
        let result = result.unwrap_or_else(|| panic!("{design:?}: {output:?}"));
        assert_eq!(with(&result, "broken"), broken, "{design:?}: {result:#}");
        if !broken.is_empty() {
            assert!(
                said(&result, "in_its_window").contains("nothing may be sold now"),
                "{result:#}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_are_on_sale_already_are_taken_one_for_each_crowd() {
    let shop = Shop::start(Design::Right).await;
    for _ in 0..6 {
        shop.voucher(1).await;
    }
    let place = place();
    let sale = "request = { path = \"/vouchers\", body = '{\"stock\": {stock}}' }";
    // The database has counted from 1000.
    let text = replaced(&shop.file("", QUIET), sale, "vouchers = \"1000..1005\"");
    let (output, result) = check(place.path(), &text, &[]).await;
    let result = result.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(result["holds"], true, "{result:#}");
    assert_eq!(result["vouchers"].as_array().unwrap().len(), 6, "{result:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_gives_its_cookie_and_not_the_same_to_everybody() {
    let login = "[tokens.login]\nrequest = { path = \"/login\", body = '{\"user\": {user}}' }\n\
                 token = { cookie = \"sid\" }\n";
    let shop = Shop::start(Design::Right).await;
    let place = place();
    let text = shop.file("", &format!("{QUIET}{login}"));
    let text = replaced(&text, "{ user = \"{user}\" }", "{ cookie = \"sid={token}\" }");
    let (output, result) = check(place.path(), &text, &ROUNDS).await;
    let result = result.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(result["holds"], true, "{result:#}");
    let same = replaced(&text, "{\"user\": {user}}", "{\"all\": true, \"user\": {user}}");
    let (output, _) = check(place.path(), &same, &ROUNDS).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("gives the token of user 1: everybody would be one buyer"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_tries_the_file_and_is_shown_what_fits() {
    let shop = Shop::start(Design::Right).await;
    let step = "[[step]]\npath = \"/checkout/{voucher}\"\nheaders = { user = \"{user}\" }\n\
                take = { code = { cookie = \"cart\" } }\n";
    let login = "[tokens.login]\nrequest = { path = \"/login\", body = '{\"user\": {user}}' }\n\
                 token = { cookie = \"sid\" }\n";
    let text = shop.file(step, &format!("{QUIET}{login}"));
    let text = replaced(&text, "{ user = \"{user}\" }", "{ cookie = \"sid={token}\" }");
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
        let file = place.path().join("target.toml");
        std::fs::write(&file, text).unwrap();
        let program = env!("CARGO_BIN_EXE_seckill-tools");
        let output =
            Command::new(program).args(["check", "--trial"]).arg(&file).output().await.unwrap();
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!said.contains("sid=t1"), "{said}");
    }
}

#[tokio::test]
async fn a_preset_is_added_to_and_printed_as_it_is_read() {
    let text = "\u{feff}preset = \"hmdp\"\naddresses = [\"http://127.0.0.1:1\"]\nvoucher = 1\n\
                [tokens]\nlines = \"t\"\n[[answer]]\nis = \"refused\"\nstatus = 418\n";
    let place = place();
    let file = place.path().join("target.toml");
    std::fs::write(&file, text).unwrap();
    let source = SourceText::read(&file).unwrap();
    let printed = source.expanded().unwrap();
    let own = printed.find("418").unwrap();
    let of_preset = printed.find("库存不足").unwrap();
    assert!(own < of_preset && !printed.contains("preset"), "{printed}");
    let values = Values { user: "u", token: "t", taken: &[] };
    let mut calls = Vec::new();
    for source in [source, SourceText::of("printed", &printed)] {
        let target = CheckTarget::compile(source).await.unwrap();
        calls.push(target.purchase.for_voucher("1").call(&target.nodes[0], &values).unwrap());
        assert_eq!(target.purchase.rules.len(), 8, "{printed}");
    }
    assert_eq!((&calls[0].path, &calls[0].headers), (&calls[1].path, &calls[1].headers));
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
    let file = place.path().join("target.toml");
    let text =
        replaced(&shop.file("", QUIET), &format!("http://{a}"), &format!("https://localhost:{c}"));
    std::fs::write(
        &file,
        replaced(&text, &format!("http://{b}"), &format!("https://127.0.0.1:{d}")),
    )
    .unwrap();
    let run = async |trusted: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill-tools"));
        command.args(["check", "--users", "40", "--rounds", "1"]).arg(&file);
        command.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR").output().await.unwrap()
    };
    let output = run(&certificates.ca()).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = run(&place.path().join("none.pem")).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
