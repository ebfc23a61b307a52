//! A cluster's masters, as a client knows them: one leads, and those that stand by say which.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::Error;
use crate::control::{Request, Response};
use crate::credentials::Credentials;
use crate::session::{ANSWER, MasterConnection};

/// What a cluster's address begins with.
pub const SCHEME: &str = "cluster://";
/// The time between two attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// How long one of several masters may take to say whether it leads.
const PROBE: Duration = Duration::from_millis(500);
const STANDS_BY: &str = "it stands by";

/// Where a cluster's masters listen: one or more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Masters(Vec<SocketAddr>);

impl From<SocketAddr> for Masters {
    fn from(master: SocketAddr) -> Self {
        Self(vec![master])
    }
}

impl FromStr for Masters {
    type Err = String;

    /// `HOST:PORT,HOST:PORT`, with or without `cluster://` in front.
    fn from_str(text: &str) -> Result<Self, String> {
        let list = text.strip_prefix(SCHEME).unwrap_or(text).trim_end_matches('/');
        let mut masters = Vec::new();
        for one in list.split(',') {
            let found = one.to_socket_addrs().ok().and_then(|mut all| all.next());
            masters.push(found.ok_or_else(|| {
                format!("{one:?} is not the address of a master: {SCHEME}HOST:PORT, or {SCHEME}HOST:PORT,HOST:PORT")
            })?);
        }
        Ok(Self(masters))
    }
}

impl fmt::Display for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<String> = self.0.iter().map(SocketAddr::to_string).collect();
        f.write_str(&list.join(","))
    }
}

impl Masters {
    /// Some address of them.
    pub fn first(&self) -> SocketAddr {
        self.0[0]
    }

    /// Asks the leader, who may take so long to answer. A request that only reads, or that may be sent twice: if
    /// there are several masters, it is sent again for as long as none of them leads.
    ///
    /// Errors: [`Error::Master`], [`Error::NoLeader`].
    pub fn ask(
        &self,
        credentials: impl Into<Credentials>,
        request: &Request,
        timeout: Duration,
    ) -> Result<Response, Error> {
        Search::new(self, credentials)
            .ask(request, timeout)
            .map(|(response, _)| response)
    }
}

/// The search for the leader.
pub struct Search {
    masters: Masters,
    credentials: Credentials,
    /// The master whose turn it is.
    turn: usize,
    /// Where another one says that the leader is.
    hint: Option<SocketAddr>,
}

impl Search {
    /// One that begins with the first.
    pub fn new(masters: &Masters, credentials: impl Into<Credentials>) -> Self {
        Self {
            masters: masters.clone(),
            credentials: credentials.into(),
            turn: 0,
            hint: None,
        }
    }

    /// Whose turn it is.
    pub fn at(&self) -> SocketAddr {
        self.hint
            .unwrap_or(self.masters.0[self.turn % self.masters.0.len()])
    }

    /// Connects to the one whose turn it is, which says that it leads; one that stands by or does not answer is passed
    /// over the next time.
    ///
    /// What is sent over the connection reaches the master while it leads, or nobody. Without its answer the connection
    /// may be one that waits to be accepted, and what was sent come to the master when it leads again, after others.
    pub fn connect(&mut self) -> io::Result<MasterConnection> {
        let time = if self.has_others() { PROBE } else { ANSWER };
        let asked = MasterConnection::open(self.at(), &self.credentials).and_then(|mut connection| {
            connection.set_timeout(time)?;
            let response = connection.ask(&Request::Leads)?;
            connection.set_timeout(ANSWER)?;
            Ok((connection, response))
        });
        match asked {
            Ok((_, Response::Standby { leader })) => {
                self.redirected(leader);
                Err(io::Error::other(STANDS_BY))
            }
            Ok((connection, _)) => Ok(connection),
            Err(error) => {
                self.failed();
                Err(error)
            }
        }
    }

    /// The same for a request that may come late: a single master is not asked whether it leads, as it may take its
    /// time to begin.
    fn connect_to_ask(&mut self) -> io::Result<MasterConnection> {
        if self.has_others() {
            return self.connect();
        }
        MasterConnection::open(self.at(), &self.credentials).inspect_err(|_| self.failed())
    }

    /// Whether another one may lead.
    fn has_others(&self) -> bool {
        self.masters.0.len() > 1 || self.hint.is_some()
    }

    /// It does not answer.
    pub fn failed(&mut self) {
        if self.hint.take().is_none() {
            self.turn += 1;
        }
    }

    /// It stands by, and says where the leader is.
    pub fn redirected(&mut self, leader: Option<SocketAddr>) {
        let here = self.at();
        match leader.filter(|leader| *leader != here) {
            Some(leader) => self.hint = Some(leader),
            None => self.failed(),
        }
    }

    /// Asks the leader: see [`Masters::ask`]. Returns the connection as well.
    pub fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
    ) -> Result<(Response, MasterConnection), Error> {
        let begun = Instant::now();
        let is_one = self.masters.0.len() == 1;
        loop {
            let (master, was_told) = (self.at(), self.hint.is_some());
            let asked = self.connect_to_ask().and_then(|mut connection| {
                connection.set_timeout(timeout)?;
                Ok((connection.ask(request)?, connection))
            });
            let is_over = begun.elapsed() > timeout;
            match asked {
                Ok((Response::Standby { .. }, _)) if is_over => {
                    return Err(Error::NoLeader(self.masters.clone()));
                }
                Ok((Response::Standby { leader }, _)) => self.redirected(leader),
                Ok((response, connection)) => return Ok((response, connection)),
                Err(source) if source.to_string() == STANDS_BY => {
                    if is_over {
                        return Err(Error::NoLeader(self.masters.clone()));
                    }
                }
                Err(source) if is_over || (is_one && !was_told) => {
                    return Err(Error::Master { master, source });
                }
                Err(_) => {}
            }
            std::thread::sleep(AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_one_or_more() {
        let two: Masters = "cluster://127.0.0.1:1,127.0.0.2:2/".parse().unwrap();
        assert_eq!(two.to_string(), "127.0.0.1:1,127.0.0.2:2");
        assert_eq!("127.0.0.1:1".parse(), Ok(Masters::from(two.first())));
        for wrong in ["", "cluster://", "127.0.0.1", "127.0.0.1:1,", ",127.0.0.1:1"] {
            assert!(wrong.parse::<Masters>().is_err(), "{wrong}");
        }
    }

    /// The kernel completes a connection that no master has accepted.
    #[test]
    fn a_connection_is_one_to_a_master_that_leads() {
        let waits = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = Masters::from(waits.local_addr().unwrap());
        assert!(Search::new(&one, "").connect_to_ask().is_ok());
        let error = Search::new(&one, "").connect().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn a_search_follows_what_it_is_told() {
        let two: Masters = "127.0.0.1:1,127.0.0.1:2".parse().unwrap();
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut search = Search::new(&two, "");
        assert_eq!(search.at(), at(1));
        search.redirected(Some(at(9)));
        assert_eq!(search.at(), at(9));
        // One that says that it is the leader itself, and stands by.
        search.redirected(Some(at(9)));
        assert_eq!(search.at(), at(1));
        search.failed();
        assert_eq!(search.at(), at(2));
        search.redirected(None);
        assert_eq!(search.at(), at(1));
    }
}
