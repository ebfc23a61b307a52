//! Mutual TLS: each side of a connection shows a certificate that the cluster's authority has signed, and refuses one
//! who has none.
//!
//! TLS 1.3 alone. All certificates of a cluster are for one name, [`NAME`]: a certificate does not say what its owner
//! listens for, and its owner may do what any member may. The token is asked for as well.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::Error;

/// The name that all certificates of a cluster are for.
pub const NAME: &str = "cenote";

/// The files of an identity, all in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The certificate, and those between it and the authority's.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub ca: PathBuf,
}

/// Who a process is, and whom it trusts.
#[derive(Clone)]
pub struct Identity {
    /// When it connects.
    client: Arc<ClientConfig>,
    /// When it is connected to.
    server: Arc<ServerConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

fn wrong(path: &Path, why: impl fmt::Display) -> Error {
    Error::Identity(format!("{}: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let all: Vec<CertificateDer<'static>> = all
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(path, error))?;
    match all.is_empty() {
        true => Err(wrong(path, "there is no certificate in it")),
        false => Ok(all),
    }
}

impl Identity {
    /// Reads it.
    ///
    /// Errors: [`Error::Identity`] if a file cannot be read, or the certificate and the key do not belong together.
    pub fn load(files: &Files) -> Result<Self, Error> {
        let chain = certificates(&files.cert)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, error))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.ca)? {
            roots.add(certificate).map_err(|error| wrong(&files.ca, error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = [&rustls::version::TLS13];
        let unfit = |error: rustls::Error| wrong(&files.cert, error);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| wrong(&files.ca, error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(unfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        // Nobody resumes: connections last.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(unfit)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// The side of who connects.
    pub(crate) fn connect(&self) -> Result<ClientConnection, rustls::Error> {
        let name = ServerName::try_from(NAME).map_err(|error| rustls::Error::General(error.to_string()))?;
        ClientConnection::new(self.client.clone(), name)
    }

    /// The side of who is connected to.
    pub(crate) fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(self.server.clone())
    }
}
