//! Requests to etcd, each with a time, and errors that name the endpoint. A request that is not answered goes to the
//! next endpoint the next time.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};

/// For connecting to an endpoint.
const CONNECT: Duration = Duration::from_secs(2);

/// Why a request did not do what it was for.
#[derive(Debug)]
pub enum Trouble {
    /// It is unknown whether it did; another endpoint may answer.
    Unanswered(String),
    /// etcd refuses it, and would again.
    Refused(String),
    /// The lease is gone.
    Lost(String),
}

impl Trouble {
    /// What it was.
    pub fn why(self) -> String {
        match self {
            Self::Unanswered(why) | Self::Refused(why) | Self::Lost(why) => why,
        }
    }
}

/// An etcd, by the addresses of its members.
pub struct Etcd {
    endpoints: Vec<String>,
    /// The endpoint whose turn it is.
    turn: Cell<usize>,
    client: RefCell<Option<Client>>,
}

impl Etcd {
    /// One that has these members: one or more.
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            turn: Cell::new(0),
            client: RefCell::default(),
        }
    }

    /// How many members are known.
    pub fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// Sends a request to the endpoint whose turn it is, and waits for its answer for so long.
    pub async fn ask<T>(
        &self,
        time: Duration,
        request: impl AsyncFnOnce(&mut Client) -> Result<T, etcd_client::Error>,
    ) -> Result<T, Trouble> {
        let turn = self.turn.get();
        let endpoint = &self.endpoints[turn % self.endpoints.len()];
        let answer = match self.client(endpoint, time.min(CONNECT)).await {
            Ok(mut client) => within(endpoint, time, request(&mut client)).await,
            Err(trouble) => Err(trouble),
        };
        if matches!(answer, Err(Trouble::Unanswered(_))) && self.turn.get() == turn {
            self.turn.set(turn + 1);
            self.client.take();
        }
        answer
    }

    async fn client(&self, endpoint: &str, time: Duration) -> Result<Client, Trouble> {
        if let Some(client) = self.client.borrow().as_ref() {
            return Ok(client.clone());
        }
        let options = ConnectOptions::new().with_connect_timeout(time);
        let client = within(endpoint, time, Client::connect([endpoint], Some(options))).await?;
        self.client.replace(Some(client.clone()));
        Ok(client)
    }
}

/// What a request returns, if it does so in time.
async fn within<T>(
    endpoint: &str,
    time: Duration,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(time, request).await {
        Ok(done) => done.map_err(|error| trouble(endpoint, &error)),
        Err(_) => Err(Trouble::Unanswered(format!(
            "etcd at {endpoint}: no answer in {:.1} s",
            time.as_secs_f64()
        ))),
    }
}

/// Codes of gRPC that say that a request is wrong: an invalid argument, an exhausted resource, what is out of range.
const REFUSED: [i32; 3] = [3, 8, 11];

fn trouble(endpoint: &str, error: &etcd_client::Error) -> Trouble {
    let at = |why: &str| format!("etcd at {endpoint}: {why}");
    match error {
        etcd_client::Error::LeaseKeepAliveError(_) => Trouble::Lost(at("the lease has ended")),
        etcd_client::Error::GRpcStatus(status) => match status.source() {
            Some(source) => Trouble::Unanswered(at(&root(source))),
            None if REFUSED.contains(&(status.code() as i32)) => Trouble::Refused(at(status.message())),
            None if status.message().contains("lease not found") => Trouble::Lost(at("the lease has ended")),
            None => Trouble::Unanswered(at(status.message())),
        },
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
