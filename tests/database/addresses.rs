//! How a database is reached: by a certificate of a private authority, by one of the client's own, by an
//! IPv6 address, by a name; and what is said where it is not.

use std::fs;
use std::net::TcpListener;

use faults::PostgresNode;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use testkit::closed_port::ClosedPort;
use testkit::needs::needs_ipv6;
use testkit::program::{Program, Ran};
use testkit::redis_nodes::Certificates;
use testkit::wait::eventually;

/// Nobody but local sessions enters without TLS and the certificate of the client.
const WHO_ENTERS: &str = "local all all trust\nhostssl all all all cert map=certificates";
const WHO_IS_WHO: &str = "certificates client postgres";

/// A certificate for a hundred years that `openssl x509 -req -signkey` made without extensions, and its key, which protects nothing.
const VERSION_1: &str = include_str!("version_1.pem");

/// PostgreSQL with TLS on a TCP port.
struct TlsServer {
    port: u16,
    _node: PostgresNode,
}

impl TlsServer {
    /// With the certificate of an authority, the server's own, and its key.
    async fn start([authority, certificate, key]: [&str; 3], addresses: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port_setting, listen) =
            (format!("port={port}"), format!("listen_addresses={addresses}"));
        let settings = vec![port_setting, listen, "ssl_ca_file=ca.crt".to_owned()];
        let node = PostgresNode::primary_with(None, settings).await.unwrap();
        let local = format!("{}&port={port}", node.url());
        let mut session = PgConnection::connect(&local).await.unwrap();
        for (file, text) in [
            ("ca.crt", authority),
            ("server.crt", certificate),
            ("server.key", key),
            ("pg_hba.conf", WHO_ENTERS),
            ("pg_ident.conf", WHO_IS_WHO),
        ] {
            // The server writes it: it takes a key only from its own user, and from nobody else's eyes.
            let write = format!(
                "copy (select regexp_split_to_table('{text}', '\\n')) to program 'umask 77; cat > {file}'"
            );
            session.execute(AssertSqlSafe(write)).await.unwrap();
        }
        session.execute("alter system set ssl = on").await.unwrap();
        session.execute("select pg_reload_conf()").await.unwrap();
        eventually("the server has TLS", async || {
            let mut session = PgConnection::connect(&local).await.unwrap();
            let ssl: String = sqlx::query_scalar("show ssl").fetch_one(&mut session).await.unwrap();
            ssl == "on"
        })
        .await;
        Self { port, _node: node }
    }

    /// What `seckill migrate` says of an address with these parameters.
    async fn migrate(&self, host: &str, parameters: &str) -> Ran {
        let url = format!("postgres://postgres@{host}:{}/postgres?{parameters}", self.port);
        Program::alone().with("DATABASE_URL", &url).run(&["migrate"]).await
    }
}

/// How this machine is reached from itself.
fn loopback() -> impl Iterator<Item = &'static str> {
    ["localhost", "127.0.0.1"].into_iter().chain(needs_ipv6().then_some("[::1]"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_and_a_certificate_of_ones_own_are_named_in_the_address() {
    let (authority, stranger) = (Certificates::new(), Certificates::new());
    let read = |file: &str| fs::read_to_string(authority.file(file)).unwrap();
    let files = ["ca.pem", "server.pem", "server.key"].map(read);
    let server = TlsServer::start(files.each_ref().map(String::as_str), "127.0.0.1,::1").await;
    let root = |authority: &Certificates| format!("sslrootcert={}", authority.ca().display());
    let own = |authority: &Certificates| {
        let [certificate, key] = authority.client();
        format!("sslcert={}&sslkey={}", certificate.display(), key.display())
    };
    let checked = format!("sslmode=verify-full&{}", root(&authority));
    for host in loopback() {
        let ran = server.migrate(host, &format!("{checked}&{}", own(&authority))).await;
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{host}: {ran:?}");
    }
    // Nothing is checked of the server, but it still asks for a certificate.
    let ran = server.migrate("localhost", &format!("sslmode=require&{}", own(&authority))).await;
    assert_eq!(ran.status, 0, "{ran:?}");

    // A server that lets nobody in is no matter of waiting.
    for (parameters, words) in [
        (checked.clone(), "requires a valid client certificate"),
        ("sslmode=disable".to_owned(), "no encryption"),
    ] {
        server.migrate("localhost", &parameters).await.refused(2, words);
    }
    for (parameters, words) in [
        (format!("{checked}&{}", own(&stranger)), "UnknownCA"),
        (format!("sslmode=verify-full&{}", own(&authority)), "UnknownIssuer"),
        (format!("sslmode=verify-full&{}&{}", root(&stranger), own(&authority)), "UnknownIssuer"),
        (
            format!("{checked}&sslcert={}", authority.file("client.pem").display()),
            "must be given together",
        ),
        (format!("{checked}&sslcert=/nowhere.crt&sslkey=/nowhere.key"), "No such file"),
    ] {
        server.migrate("localhost", &parameters).await.refused(1, words);
    }
}

/// Of the two addresses of `localhost` the server listens at one; and its certificate is of the version that
/// cannot be checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_version_1_is_told_with_the_ways_out() {
    let server = TlsServer::start([VERSION_1; 3], "127.0.0.1").await;
    // As nearly everybody's address is: TLS where the server has it.
    let ran = server.migrate("localhost", "").await;
    ran.refused(1, "a certificate of X.509 version 1");
    assert!(ran.stderr.contains("sslmode=disable") && ran.stderr.contains("version 3"), "{ran:?}");
}

#[tokio::test]
async fn a_closed_port_is_told_with_the_address() {
    let closed = ClosedPort::take();
    let port = closed.number;
    for host in loopback() {
        let url = format!("postgres://postgres@{host}:{port}/postgres");
        let ran = Program::alone().with("DATABASE_URL", &url).run(&["voucher", "list"]).await;
        let place = format!("connection refused by {}:{port}", host.trim_matches(['[', ']']));
        ran.refused(1, &place);
    }
}
