//! Elections outside the pool that decide which monitor may lead: by etcd, in builds with the feature `etcd`.
//!
//! `docs/protocols/hosts.md` has the protocol.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(not(feature = "etcd"))]
mod without;

#[cfg(feature = "etcd")]
pub use etcd::Election;
#[cfg(not(feature = "etcd"))]
pub use without::Election;

/// Arguments.
#[derive(clap::Args)]
pub struct ElectionArgs {
    /// Lead only while elected by etcd, at these addresses of its members, as in 10.0.0.1:2379,10.0.0.2:2379
    #[arg(long, value_name = "ENDPOINT", value_delimiter = ',', value_parser = endpoint, hide = cfg!(not(feature = "etcd")))]
    etcd: Vec<String>,
    /// The key of the election in etcd; default: cenote/monitor/ and the id of the pool
    #[cfg(feature = "etcd")]
    #[arg(long, value_name = "KEY", requires = "etcd", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    etcd_key: Option<String>,
    /// How long etcd keeps a leader that it does not hear from; etcd lengthens what is too short for it
    #[cfg(feature = "etcd")]
    #[arg(long, value_name = "SECONDS", requires = "etcd", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=600))]
    etcd_lease: u16,
}

/// The URL of an endpoint.
fn endpoint(text: &str) -> Result<String, String> {
    if text.starts_with("https://") {
        return Err("etcd over TLS is not supported; HOST:PORT or http://HOST:PORT is".to_owned());
    }
    let address = text.strip_prefix("http://").unwrap_or(text);
    let address = address.strip_suffix('/').unwrap_or(address);
    let is_host = |host: &str| {
        !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-_[]:".contains(c))
    };
    match address.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(format!("http://{address}"))
        }
        _ => Err("an endpoint of etcd is HOST:PORT or http://HOST:PORT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn endpoints_are_hosts_with_ports() {
        for (text, url) in [
            ("127.0.0.1:2379", "http://127.0.0.1:2379"),
            (
                "http://etcd-1.example.net:2379/",
                "http://etcd-1.example.net:2379",
            ),
            ("[::1]:2379", "http://[::1]:2379"),
        ] {
            assert_eq!(endpoint(text).as_deref(), Ok(url));
        }
        for text in [
            "",
            "etcd",
            ":2379",
            "etcd:0",
            "etcd:port",
            "etcd:2379/v3",
            "a b:1",
            "ftp://a:1",
            "http://u@a:1",
        ] {
            assert!(endpoint(text).is_err(), "{text}");
        }
        assert!(endpoint("https://etcd:2379").is_err_and(|why| why.contains("TLS")));
    }
}
