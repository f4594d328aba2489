//! TLS: whom a client believes, and how it shows who it is.

use std::path::PathBuf;

/// The files of a TLS connection, all of them PEM. [`TlsFiles::named_in`] writes their names into a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that are believed, in place of the system's.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, and what stands between it and an authority.
    pub cert: Option<PathBuf>,
    /// The key to it.
    pub key: Option<PathBuf>,
}

#[cfg(feature = "tls")]
pub(super) use with_rustls::Tls;

#[cfg(feature = "tls")]
mod with_rustls {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use redis::{ClientTlsConfig, ConnectionAddr, TlsCertificates};

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::{TlsConnector, rustls};

    use super::TlsFiles;

    /// The settings of TLS connections to one Redis, read once.
    #[derive(Clone)]
    pub(in super::super) struct Tls {
        connector: TlsConnector,
        /// An address as the `redis` crate has it, with what it needs of the files.
        library: ConnectionAddr,
    }

    impl std::fmt::Debug for Tls {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("Tls")
        }
    }

    impl Tls {
        /// Reads the files. An error is a sentence.
        pub(in super::super) fn load(files: &TlsFiles) -> Result<Self, String> {
            let roots = match &files.ca {
                Some(path) => named_authorities(path)?,
                None => the_systems_authorities()?,
            };
            // Named: a program has no provider of its own until it says so.
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots);
            let config = match (&files.cert, &files.key) {
                (None, None) => config.with_no_client_auth(),
                (Some(cert), Some(key)) => {
                    let chain = certificates(cert)?;
                    let own = PrivateKeyDer::from_pem_file(key)
                        .map_err(|error| format!("no key in {}: {error}", key.display()))?;
                    config.with_client_auth_cert(chain, own).map_err(|error| {
                        let (cert, key) = (cert.display(), key.display());
                        format!("{key} is no key to the certificate {cert}: {error}")
                    })?
                }
                _ => {
                    return Err("a client's certificate needs its key, and a key its certificate"
                        .to_owned());
                }
            };
            let library = library_address(files)?;
            Ok(Self { connector: TlsConnector::from(Arc::new(config)), library })
        }

        /// TLS on this connection, with the server that has a certificate for `host`.
        pub(in super::super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
            &self,
            host: &str,
            stream: S,
        ) -> io::Result<TlsStream<S>> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            self.connector.connect(name, stream).await.map_err(|error| {
                io::Error::new(error.kind(), format!("no TLS connection to {host}: {error}"))
            })
        }

        /// The same server for a connection that the `redis` crate makes.
        pub(in super::super) fn for_library(&self, host: &str, port: u16) -> ConnectionAddr {
            // Its connections use the program's provider. Nothing is changed where the program has one.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let mut address = self.library.clone();
            if let ConnectionAddr::TcpTls { host: name, port: number, .. } = &mut address {
                (*name, *number) = (host.to_owned(), port);
            }
            address
        }
    }

    /// The files, read as the `redis` crate wants them.
    fn library_address(files: &TlsFiles) -> Result<ConnectionAddr, String> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let client_tls = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
            }
            _ => None,
        };
        let root_cert = files.ca.as_ref().map(read).transpose()?;
        let certificates = TlsCertificates { client_tls, root_cert };
        let client = redis::Client::build_with_tls("rediss://localhost", certificates);
        let client = client.map_err(|error| error.to_string())?;
        Ok(client.get_connection_info().addr().clone())
    }

    fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
        let told =
            |why: &dyn std::fmt::Display| format!("no certificate in {}: {why}", path.display());
        let read = CertificateDer::pem_file_iter(path).map_err(|error| told(&error))?;
        let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| told(&error))?;
        if all.is_empty() {
            return Err(told(&"it has none in PEM form"));
        }
        Ok(all)
    }

    fn named_authorities(path: &Path) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|error| {
                format!("{} has a certificate of no use: {error}", path.display())
            })?;
        }
        Ok(roots)
    }

    fn the_systems_authorities() -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        // One that cannot be read costs those it signed, and nobody else.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this system has no certificates of authorities".to_owned());
        }
        Ok(roots)
    }
}

/// A program without the feature `tls` has none.
#[cfg(not(feature = "tls"))]
#[derive(Debug, Clone)]
pub(super) enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    pub(super) fn load(_: &TlsFiles) -> Result<Self, String> {
        Err("this program was built without TLS (the feature `tls` of redis-link)".to_owned())
    }

    pub(super) async fn connect<S>(&self, _: &str, _: S) -> std::io::Result<S> {
        match *self {}
    }

    pub(super) fn for_library(&self, _: &str, _: u16) -> redis::ConnectionAddr {
        match *self {}
    }
}
