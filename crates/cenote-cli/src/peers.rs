//! Arguments by which agents relay notifications of event counts to other hosts.

use std::net::SocketAddr;

use cenote::store::Peers;

/// Where this agent listens, and the agents that it notifies.
#[derive(clap::Args)]
pub struct PeerArgs {
    /// A UDP address of this host's, IP:PORT, on which agents of other hosts say when something has happened in a
    /// group: its members on this host are notified at once, and not only with the next heartbeat
    #[arg(long, value_name = "ADDRESS", requires = "peer")]
    listen: Option<SocketAddr>,
    /// The address on which the agent of another host listens; once for each host
    #[arg(long, value_name = "ADDRESS", requires = "listen")]
    peer: Vec<SocketAddr>,
}

impl PeerArgs {
    /// What was said of it, if anything.
    pub fn peers(self) -> Option<Peers> {
        let listen = self.listen?;
        Some(Peers {
            listen,
            tell: self.peer,
        })
    }
}
