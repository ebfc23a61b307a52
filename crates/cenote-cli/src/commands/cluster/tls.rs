//! The certificate that a process of a cluster shows, and the authority that it trusts.

use std::path::PathBuf;

use cenote_cluster::Credentials;

use crate::failure::Failure;

/// Arguments for connections that are TLS: all three, or none.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// Encrypt connections, and show the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in who has a certificate of this authority, and nobody else
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// A token, and the certificate if there is one.
    #[cfg(feature = "tls")]
    pub fn credentials(&self, token: String) -> Result<Credentials, Failure> {
        let mut credentials = Credentials::from(token);
        if let (Some(cert), Some(key), Some(ca)) = (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            let files = cenote_cluster::tls::Files {
                cert: cert.clone(),
                key: key.clone(),
                ca: ca.clone(),
            };
            credentials.identity = Some(cenote_cluster::tls::Identity::load(&files)?);
        }
        Ok(credentials)
    }

    /// A token; with a certificate it is refused.
    #[cfg(not(feature = "tls"))]
    pub fn credentials(&self, token: String) -> Result<Credentials, Failure> {
        match self.tls_cert {
            None => Ok(token.into()),
            Some(_) => Err(Failure::misuse(
                "--tls-cert: this program was built without TLS; build it with the feature `tls`",
            )),
        }
    }
}
