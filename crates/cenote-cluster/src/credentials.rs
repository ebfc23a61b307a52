//! What a process shows to the others of its cluster, and demands of them.

#[cfg(feature = "tls")]
use crate::tls::Identity;

/// A cluster's token, and a certificate if connections are encrypted (feature `tls`).
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The token.
    pub token: String,
    /// With one, all connections of this process are TLS, and those without are refused.
    #[cfg(feature = "tls")]
    pub identity: Option<Identity>,
}

impl Credentials {
    /// Whether connections are TLS.
    pub fn encrypts(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.identity.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

impl From<&str> for Credentials {
    fn from(token: &str) -> Self {
        token.to_owned().into()
    }
}

impl From<String> for Credentials {
    fn from(token: String) -> Self {
        Self {
            token,
            #[cfg(feature = "tls")]
            identity: None,
        }
    }
}

impl From<&String> for Credentials {
    fn from(token: &String) -> Self {
        token.clone().into()
    }
}

impl From<&Credentials> for Credentials {
    fn from(credentials: &Credentials) -> Self {
        credentials.clone()
    }
}
