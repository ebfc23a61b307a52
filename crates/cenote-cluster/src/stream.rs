//! Connections as the cluster's processes use them: of TCP, or of TLS over it.
//!
//! | | who uses it |
//! |---|---|
//! | [`Seal`] | what encrypts and decrypts, wherever the bytes come from |
//! | [`Stream`] | who is connected to: nodes, masters |
//! | [`Outgoing`] | a client that asks a master, and waits |
//!
//! The network of nodes ([`crate::network`]) has a [`Seal`] of its own, as it sends and receives at any time.

use std::io::{self, Read, Write};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::credentials::Credentials;
use crate::wire::{Hello, Purpose, is_same_token};

/// How long a connection may take to greet.
const GREETING: Duration = Duration::from_secs(5);

fn refuse(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// What encrypts and decrypts the bytes of a connection.
pub enum Seal {
    /// Nothing.
    Plain,
    /// TLS.
    #[cfg(feature = "tls")]
    Tls(Box<rustls::Connection>),
}

impl Seal {
    /// That of who connects.
    pub async fn connect(stream: &mut TcpStream, credentials: &Credentials) -> io::Result<Self> {
        let mut seal = Self::of_client(credentials)?;
        seal.shake_hands(stream).await?;
        Ok(seal)
    }

    /// That of who is connected to.
    async fn accept(stream: &mut TcpStream, credentials: &Credentials) -> io::Result<Self> {
        let mut seal = Self::of_server(credentials)?;
        match seal.shake_hands(stream).await {
            Ok(()) => Ok(seal),
            Err(error) => Err(refuse(format!(
                "it shows no certificate of the cluster's authority: {error}"
            ))),
        }
    }

    #[cfg(feature = "tls")]
    fn of_client(credentials: &Credentials) -> io::Result<Self> {
        let Some(identity) = &credentials.identity else {
            return Ok(Self::Plain);
        };
        let tls = identity.connect().map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(tls.into())))
    }

    #[cfg(feature = "tls")]
    fn of_server(credentials: &Credentials) -> io::Result<Self> {
        let Some(identity) = &credentials.identity else {
            return Ok(Self::Plain);
        };
        let tls = identity.accept().map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(tls.into())))
    }

    #[cfg(not(feature = "tls"))]
    fn of_client(_: &Credentials) -> io::Result<Self> {
        Ok(Self::Plain)
    }

    #[cfg(not(feature = "tls"))]
    fn of_server(_: &Credentials) -> io::Result<Self> {
        Ok(Self::Plain)
    }

    #[cfg(not(feature = "tls"))]
    async fn shake_hands(&mut self, _: &mut TcpStream) -> io::Result<()> {
        Ok(())
    }

    #[cfg(feature = "tls")]
    async fn shake_hands(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let Self::Tls(tls) = self else {
            return Ok(());
        };
        // What is to be sent waits here for as long as the connection is slow.
        tls.set_buffer_limit(None);
        let mut received = Vec::new();
        loop {
            let mut out = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut out)?;
            }
            stream.write_all(&out).await?;
            if !tls.is_handshaking() {
                return Ok(());
            }
            received.clear();
            if stream.read_buf(&mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = &received[..];
            while !rest.is_empty() {
                tls.read_tls(&mut rest)?;
                if let Err(error) = tls.process_new_packets() {
                    // The other side is told why.
                    let mut out = Vec::new();
                    tls.write_tls(&mut out)?;
                    stream.write_all(&out).await?;
                    return Err(refuse(error.to_string()));
                }
            }
        }
    }

    /// Appends to `out` what has to be sent for `bytes`.
    pub fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => out.extend(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                tls.writer().write_all(bytes)?;
                while tls.wants_write() {
                    tls.write_tls(out)?;
                }
            }
        }
        Ok(())
    }

    /// Appends to `plain` what `received` says.
    pub fn open(&mut self, received: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => plain.extend(received),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let mut rest = received;
                loop {
                    match tls.reader().read_to_end(plain) {
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                        _ => {}
                    }
                    if rest.is_empty() {
                        break;
                    }
                    tls.read_tls(&mut rest)?;
                    tls.process_new_packets()
                        .map_err(|error| refuse(error.to_string()))?;
                }
            }
        }
        Ok(())
    }
}

/// A connection that somebody else has made.
pub struct Stream {
    tcp: TcpStream,
    seal: Seal,
    /// What was received and not been read.
    plain: Vec<u8>,
}

/// Reads a greeting, and fails unless who greets has what `credentials` demand. Returns what the connection is for,
/// too.
pub async fn greeted(mut tcp: TcpStream, credentials: &Credentials) -> io::Result<(Purpose, Stream)> {
    tcp.set_nodelay(true)?;
    let greet = async {
        let seal = Seal::accept(&mut tcp, credentials).await?;
        let mut stream = Stream {
            tcp,
            seal,
            plain: Vec::new(),
        };
        let mut head = [0; Hello::HEAD];
        stream.read_exact(&mut head).await?;
        let (purpose, len) = Hello::decode_head(head).map_err(|error| refuse(error.to_string()))?;
        let mut said = vec![0; len];
        stream.read_exact(&mut said).await?;
        match is_same_token(&said, credentials.token.as_bytes()) {
            true => Ok((purpose, stream)),
            false => Err(refuse("its token is not the cluster's")),
        }
    };
    tokio::time::timeout(GREETING, greet)
        .await
        .map_err(|_| refuse("it did not greet"))?
}

/// Reads a greeting of who wants what the cluster's processes say to each other, and nothing else.
pub async fn greeted_by_cluster(tcp: TcpStream, credentials: &Credentials) -> io::Result<Stream> {
    match greeted(tcp, credentials).await? {
        (Purpose::Cluster, stream) => Ok(stream),
        (Purpose::Modules, _) => Err(refuse("it asks for modules, which are at memory nodes")),
    }
}

/// A connection whose peer says nothing for so long is probed by the system.
const PROBED_AFTER: Duration = Duration::from_secs(10);
/// What was sent is acknowledged within this, or the peer is lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(55);
/// The time between two probes.
const PROBES: Duration = Duration::from_secs(5);

impl Stream {
    /// Has the system find out if the other side's machine is lost. Then the connection ends.
    pub fn find_lost_peers(&self) -> io::Result<()> {
        let probes = socket2::TcpKeepalive::new()
            .with_time(PROBED_AFTER)
            .with_interval(PROBES);
        let tcp = socket2::SockRef::from(&self.tcp);
        // While something is unacknowledged, the system sends no probes.
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
        tcp.set_tcp_keepalive(&probes)
    }

    /// Appends what arrives to `bytes`, and waits for some. 0 if the other side has ended.
    pub async fn read_buf(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        if matches!(self.seal, Seal::Plain) {
            return self.tcp.read_buf(bytes).await;
        }
        let mut received = Vec::new();
        // What came with the end of the handshake.
        self.seal.open(&[], &mut self.plain)?;
        while self.plain.is_empty() {
            received.clear();
            if self.tcp.read_buf(&mut received).await? == 0 {
                return Ok(0);
            }
            self.seal.open(&received, &mut self.plain)?;
        }
        let len = self.plain.len();
        bytes.append(&mut self.plain);
        Ok(len)
    }

    /// Reads so many bytes.
    pub async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        if matches!(self.seal, Seal::Plain) {
            return self.tcp.read_exact(bytes).await.map(drop);
        }
        let mut all = std::mem::take(&mut self.plain);
        while all.len() < bytes.len() {
            if self.read_buf(&mut all).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.plain = all.split_off(bytes.len());
        bytes.copy_from_slice(&all);
        Ok(())
    }

    /// Sends all of this.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if matches!(self.seal, Seal::Plain) {
            return self.tcp.write_all(bytes).await;
        }
        let mut out = Vec::new();
        self.seal.seal(bytes, &mut out)?;
        self.tcp.write_all(&out).await
    }
}

/// A connection to a master, which is waited for.
pub enum Outgoing {
    /// As it is.
    Plain(std::net::TcpStream),
    /// Encrypted.
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream>>),
}

impl Outgoing {
    /// One over a connection that was made.
    #[cfg(feature = "tls")]
    pub fn new(stream: std::net::TcpStream, credentials: &Credentials) -> io::Result<Self> {
        let Some(identity) = &credentials.identity else {
            return Ok(Self::Plain(stream));
        };
        let tls = identity.connect().map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(rustls::StreamOwned::new(tls, stream))))
    }

    /// One over a connection that was made.
    #[cfg(not(feature = "tls"))]
    pub fn new(stream: std::net::TcpStream, _: &Credentials) -> io::Result<Self> {
        Ok(Self::Plain(stream))
    }

    /// The connection below.
    pub fn tcp(&self) -> &std::net::TcpStream {
        match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Read for Outgoing {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}
