//! How a database is reached: by a certificate of a private authority, by one of the client's own, by an
//! IPv6 address, by a name; and what is said where it is not.

#[allow(unused_imports)]
use crate::worlds::*;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use child_process::end_with_us;
use nix::sys::signal::Signal;
use private_stores::PostgresPrograms;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use testkit::closed_port::ClosedPort;
use testkit::needs::{needs, needs_ipv6};
use testkit::processes::{place, send};
use testkit::program::{Program, Ran};
use testkit::wait::eventually;

/// Nobody but local sessions enters without TLS and a certificate in the name of the role.
const WHO_ENTERS: &str = "local all all trust\nhostssl all all all cert\n";

fn needs_openssl() -> bool {
    let found = private_stores::on_search_path("openssl");
    needs("openssl", found.ok_or("no openssl: scripts/setup.sh pooler installs it")).is_some()
}

/// Makes what the test needs of a certificate authority, by OpenSSL: its own certificate, and pairs of
/// `NAME.crt` and `NAME.key` that it has signed.
struct Authority {
    directory: TempDir,
}

impl Authority {
    fn called(name: &str) -> Self {
        let authority = Self { directory: tempfile::tempdir().unwrap() };
        authority.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7 \
             -subj /CN={name} -keyout ca.key -out ca.crt"
        ));
        authority
    }

    /// A pair for the subject `name`. The names and addresses of a server make it one of version 3.
    fn sign(&self, file: &str, name: &str, extension: &str) {
        fs::write(self.directory.path().join("extension"), extension).unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} \
             -keyout {file}.key -out {file}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {file}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 7 \
             -extfile extension -out {file}.crt"
        ));
    }

    /// What many a server was given by a short recipe, and newer versions of OpenSSL no longer make unasked.
    fn sign_version_1(&self, file: &str) {
        let key = format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
                           -keyout {file}.key -out {file}.csr"
        );
        self.openssl(&key);
        let sign =
            |more: &str| format!("-in {file}.csr -key {file}.key -days 7 -out {file}.crt {more}");
        if !self.is_done_by(&sign("-x509 -x509v1").replace("-in", "req -in")) {
            self.openssl(&sign("").replace("-in", "x509 -req -in").replace("-key", "-signkey"));
        }
    }

    fn openssl(&self, arguments: &str) {
        assert!(self.is_done_by(arguments), "openssl {arguments}");
    }

    fn is_done_by(&self, arguments: &str) -> bool {
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(self.directory.path());
        command.output().unwrap().status.success()
    }

    fn path(&self, file: &str) -> String {
        self.directory.path().join(file).to_str().unwrap().to_owned()
    }
}

/// PostgreSQL with TLS on a TCP port.
struct TlsServer {
    port: u16,
    child: Child,
    _directory: TempDir,
}

impl TlsServer {
    /// With the pair `NAME.crt` and `NAME.key` of `authority`.
    async fn start(authority: &Authority, pair: &str, addresses: &str) -> Self {
        let (programs, directory) = (PostgresPrograms::find().unwrap(), place());
        programs.private_directory(directory.path()).unwrap();
        let data = directory.path().join("data");
        let mut initdb = programs.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.arg("--no-sync").arg("-D").arg(&data).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::write(data.join("pg_hba.conf"), WHO_ENTERS).unwrap();
        let of_data = fs::metadata(&data).unwrap();
        for (from, to) in [
            ("ca.crt", "ca.crt"),
            (&format!("{pair}.crt"), "server.crt"),
            (&format!("{pair}.key"), "server.key"),
        ] {
            fs::copy(authority.path(from), data.join(to)).unwrap();
            give(&data.join(to), &of_data);
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = programs.command("postgres");
        command.arg("-D").arg(&data).args(["-c", "fsync=off", "-c", "ssl=on"]);
        command.args(["-c", "ssl_ca_file=ca.crt", "-c", &format!("port={port}")]);
        command.args(["-c", &format!("listen_addresses={addresses}")]);
        command.arg("-c").arg(format!("unix_socket_directories={}", directory.path().display()));
        let log = File::create(directory.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        end_with_us(&mut command, Signal::SIGQUIT);
        let child = command.spawn().unwrap();
        let host = directory.path().to_str().unwrap().to_owned();
        let local = url::Url::parse_with_params(
            &format!("postgres://postgres@localhost:{port}/postgres"),
            [("host", &host)],
        )
        .unwrap();
        let server = Self { port, child, _directory: directory };
        eventually("the server answers", async || {
            PgConnection::connect(local.as_str()).await.is_ok()
        })
        .await;
        server
    }

    /// What `seckill migrate` says of an address with these parameters.
    async fn migrate(&self, host: &str, parameters: &str) -> Ran {
        let url = format!("postgres://postgres@{host}:{}/postgres?{parameters}", self.port);
        Program::alone().with("DATABASE_URL", &url).run(&["migrate"]).await
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        send(self.child.id(), Signal::SIGQUIT);
        let _ = self.child.wait();
    }
}

/// How this machine is reached from itself.
fn loopback() -> impl Iterator<Item = &'static str> {
    ["localhost", "127.0.0.1"].into_iter().chain(needs_ipv6().then_some("[::1]"))
}

/// PostgreSQL takes a key only from its own user, and from nobody else's eyes.
fn give(file: &Path, like: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(file, Some(like.uid()), Some(like.gid())).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_and_a_certificate_of_ones_own_are_named_in_the_address() {
    if !needs_openssl() {
        return;
    }
    let (authority, stranger) = (Authority::called("ours"), Authority::called("another"));
    authority.sign("server", "localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1");
    authority.sign("client", "postgres", "basicConstraints=CA:FALSE");
    stranger.sign("client", "postgres", "basicConstraints=CA:FALSE");
    let server = TlsServer::start(&authority, "server", "127.0.0.1,::1").await;
    let root = |authority: &Authority| format!("sslrootcert={}", authority.path("ca.crt"));
    let own = |authority: &Authority| {
        format!("sslcert={}&sslkey={}", authority.path("client.crt"), authority.path("client.key"))
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
        (format!("{checked}&sslcert={}", authority.path("client.crt")), "must be given together"),
        (format!("{checked}&sslcert=/nowhere.crt&sslkey=/nowhere.key"), "No such file"),
    ] {
        server.migrate("localhost", &parameters).await.refused(1, words);
    }
}

/// Of the two addresses of `localhost` the server listens at one; and its certificate is of the version that
/// cannot be checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_version_1_is_told_with_the_ways_out() {
    if !needs_openssl() {
        return;
    }
    let authority = Authority::called("ours");
    authority.sign_version_1("old");
    let server = TlsServer::start(&authority, "old", "127.0.0.1").await;
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

#[tokio::test]
async fn several_hosts_are_refused_before_anything_starts() {
    for url in ["postgres://a,b/d", "postgres://u:secret@a:1,b:2/d", "postgres:///d?host=a,b"] {
        let ran = Program::alone().with("DATABASE_URL", url).run(&["migrate"]).await;
        assert_eq!(ran.status, 2, "{ran:?}");
        assert!(
            ran.stderr.contains("names several hosts") && !ran.stderr.contains("secret"),
            "{ran:?}"
        );
    }
}
