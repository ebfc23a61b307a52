//! Requests to etcd, each with a timeout, and errors that name the endpoint.

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use etcd_client::{Client, Compare, CompareOp, ConnectOptions, Txn, TxnOp};

/// For requests that no lease waits for.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The part of a lease after which a renewal is not waited for any longer.
const RENEWAL: u32 = 3;

/// Why a request did not do what it was for.
pub enum Trouble {
    /// It is unknown whether it did; another endpoint may answer.
    Unanswered(String),
    /// The lease is gone, or another monitor's leads.
    Lost(String),
}

impl Trouble {
    /// What it was.
    pub fn why(self) -> String {
        match self {
            Self::Unanswered(why) | Self::Lost(why) => why,
        }
    }
}

/// A lease of etcd's.
pub struct Lease {
    id: i64,
    /// How long it lasts after a renewal.
    pub length: Duration,
    /// When its last renewal that was answered was sent.
    pub sent: Instant,
}

impl Lease {
    /// What etcd calls it.
    pub fn id(&self) -> i64 {
        self.id
    }
}

/// A member of an etcd cluster.
#[derive(Clone)]
pub struct Etcd {
    endpoint: String,
    client: Client,
}

impl Etcd {
    /// Prepares to speak with an endpoint.
    pub async fn connect(endpoint: &str) -> Result<Self, Trouble> {
        let options = ConnectOptions::new().with_connect_timeout(TIMEOUT);
        let client = within(endpoint, TIMEOUT, Client::connect([endpoint], Some(options))).await?;
        Ok(Self {
            endpoint: endpoint.to_owned(),
            client,
        })
    }

    /// Asks for a lease.
    pub async fn grant(&mut self, length: Duration) -> Result<Lease, Trouble> {
        let sent = Instant::now();
        let request = self.client.lease_grant(length.as_secs() as i64, None);
        let granted = within(&self.endpoint, TIMEOUT, request).await?;
        Ok(Lease {
            id: granted.id(),
            length: Duration::from_secs(granted.ttl().max(0) as u64),
            sent,
        })
    }

    /// Returns when etcd has elected the holder of the lease.
    pub async fn campaign(&mut self, key: &str, name: &str, lease: i64) -> Result<(), Trouble> {
        let elected = self.client.campaign(key, name, lease).await;
        elected.map(drop).map_err(|error| trouble(&self.endpoint, &error))
    }

    /// Renews a lease, by a stream of its own: so an answer is never that to an earlier request.
    pub async fn renew(&mut self, lease: &mut Lease) -> Result<(), Trouble> {
        let sent = Instant::now();
        let request = self.client.lease_keep_alive(lease.id);
        within(&self.endpoint, lease.length / RENEWAL, request).await?;
        lease.sent = sent;
        Ok(())
    }

    /// Renews a lease, and makes sure that it is the one that leads.
    pub async fn confirm(&mut self, key: &str, lease: &mut Lease) -> Result<(), Trouble> {
        self.renew(lease).await?;
        let request = self.client.leader(key);
        let leader = within(&self.endpoint, lease.length / RENEWAL, request).await?;
        match leader.kv() {
            Some(leads) if leads.lease() == lease.id => Ok(()),
            Some(leads) => Err(Trouble::Lost(format!(
                "etcd at {}: {} leads",
                self.endpoint,
                String::from_utf8_lossy(leads.value())
            ))),
            None => Err(Trouble::Lost(format!("etcd at {}: nobody leads", self.endpoint))),
        }
    }

    /// What a key holds, and when that was put there: an empty text and 0 if there is none.
    pub async fn read(&mut self, key: &str) -> Result<(String, i64), Trouble> {
        let found = within(&self.endpoint, TIMEOUT, self.client.get(key, None)).await?;
        Ok(found.kvs().first().map_or((String::new(), 0), |held| {
            (
                String::from_utf8_lossy(held.value()).into_owned(),
                held.mod_revision(),
            )
        }))
    }

    /// Puts a value in the place of one that was put there at a certain time; when, or `None` if another one is there.
    pub async fn exchange(&mut self, key: &str, since: i64, value: &str) -> Result<Option<i64>, Trouble> {
        let is_same = Compare::mod_revision(key, CompareOp::Equal, since);
        let exchange = Txn::new()
            .when([is_same])
            .and_then([TxnOp::put(key, value, None)]);
        let done = within(&self.endpoint, TIMEOUT, self.client.txn(exchange)).await?;
        let revision = done.header().map_or(0, |header| header.revision());
        Ok(done.succeeded().then_some(revision))
    }

    /// Gives a lease back, so that another monitor is elected at once.
    pub async fn revoke(&mut self, lease: i64, timeout: Duration) -> Result<(), Trouble> {
        let request = self.client.lease_revoke(lease);
        within(&self.endpoint, timeout, request).await.map(drop)
    }
}

/// What a request returns, if it does so in time.
async fn within<T>(
    endpoint: &str,
    timeout: Duration,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(timeout, request).await {
        Ok(done) => done.map_err(|error| trouble(endpoint, &error)),
        Err(_) => Err(Trouble::Unanswered(format!(
            "etcd at {endpoint}: no answer in {:.1} s",
            timeout.as_secs_f64()
        ))),
    }
}

fn trouble(endpoint: &str, error: &etcd_client::Error) -> Trouble {
    let at = |why: &str| format!("etcd at {endpoint}: {why}");
    match error {
        etcd_client::Error::LeaseKeepAliveError(_) => Trouble::Lost(at("the lease has ended")),
        etcd_client::Error::GRpcStatus(status) => {
            let why = match status.source() {
                Some(source) => root(source),
                None => status.message().to_owned(),
            };
            Trouble::Unanswered(at(&why))
        }
        other => Trouble::Unanswered(at(&root(other))),
    }
}

/// The error at the bottom says what it is about; those above say that something failed.
fn root(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
