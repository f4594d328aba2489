//! Certificates of an authority that nobody else has, for servers with TLS.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Files of an authority, of a server at 127.0.0.1, ::1 and localhost, and of a client.
pub struct Certificates {
    directory: TempDir,
    /// For `redis-server`.
    arguments: Vec<String>,
}

impl Certificates {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // With a name each: one that has its issuer's name is taken for its own issuer.
        let named = |name: &str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let mut params = CertificateParams::new(hosts).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut authority = named(&format!("authority {}", uuid::Uuid::new_v4()), &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("ca.pem", &authority.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let own = named(name, &["127.0.0.1", "::1", "localhost"])
                .signed_by(&key, &authority)
                .unwrap();
            write(&format!("{name}.pem"), &own.pem());
            write(&format!("{name}.key"), &key.serialize_pem());
        }
        let file = |name: &str| directory.path().join(name).display().to_string();
        let arguments = [
            ("--tls-ca-cert-file", file("ca.pem")),
            ("--tls-cert-file", file("server.pem")),
            ("--tls-key-file", file("server.key")),
        ];
        let arguments = arguments.into_iter().flat_map(|(name, path)| [name.to_owned(), path]);
        Self { arguments: arguments.collect(), directory }
    }

    /// Of a server that also wants to see a certificate of its clients.
    pub fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// Whom a client has to believe.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// What a client shows, and the key to it.
    pub fn client(&self) -> [PathBuf; 2] {
        [self.file("client.pem"), self.file("client.key")]
    }

    /// Something else.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
