//! The certificate that a process of a cluster shows, and the authority that it trusts.

use std::path::{Path, PathBuf};

use cenote_cluster::Credentials;

use crate::failure::Failure;

/// The certificate in a cluster's folder.
const CERT: &str = "member.pem";
/// Its key.
const KEY: &str = "member.key";
/// That of the authority.
const CA: &str = "ca.pem";

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

/// What a program without TLS says.
#[cfg(not(feature = "tls"))]
fn without_tls(argument: &str) -> Failure {
    Failure::misuse(format!(
        "{argument}: this program was built without TLS; build it with the feature `tls`"
    ))
}

/// Makes an authority, and a certificate for all processes of a cluster, in files of its folder. The authority's key is
/// kept nowhere, so it signs no other.
#[cfg(feature = "tls")]
pub fn make_identity(folder: &Path) -> Result<(), Failure> {
    use cenote_cluster::tls::NAME;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::token::write_secret;

    let make = || {
        let (authority_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let ca = authority.self_signed(&authority_key)?.pem();
        let member = CertificateParams::new(vec![NAME.to_owned()])?;
        let member = member.signed_by(&key, &Issuer::new(authority, authority_key))?;
        Ok((member.pem(), key.serialize_pem(), ca))
    };
    let (cert, key, ca) =
        make().map_err(|error: rcgen::Error| Failure::failed(format!("making a certificate: {error}")))?;
    for (name, text) in [(CERT, cert), (KEY, key), (CA, ca)] {
        write_secret(&folder.join(name), &text)?;
    }
    Ok(())
}

/// Refuses to make one.
#[cfg(not(feature = "tls"))]
pub fn make_identity(_folder: &Path) -> Result<(), Failure> {
    Err(without_tls("--tls"))
}

impl TlsArgs {
    /// Those of a cluster's folder in which [`make_identity`] has made one.
    pub fn of_folder(folder: &Path) -> Self {
        Self {
            tls_cert: Some(folder.join(CERT)),
            tls_key: Some(folder.join(KEY)),
            tls_ca: Some(folder.join(CA)),
        }
    }

    /// Whether any were given.
    pub fn are_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// The same for another process.
    pub fn arguments(&self) -> Vec<String> {
        let files = [
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--tls-ca", &self.tls_ca),
        ];
        let given = files
            .iter()
            .filter_map(|(name, file)| Some((name, file.as_ref()?)));
        given
            .flat_map(|(name, file)| [(*name).to_owned(), file.display().to_string()])
            .collect()
    }

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
            Some(_) => Err(without_tls("--tls-cert")),
        }
    }
}
