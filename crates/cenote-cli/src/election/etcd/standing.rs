//! Reports of an election: in the monitor's health, and on standard error when something is wrong.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::complaint::complain;
use crate::output::Output;

/// How far a monitor has come in its election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It asks for a lease.
    #[default]
    Begins,
    /// It has a lease, and others are before it.
    Campaigns,
    /// It is elected.
    Elected,
}

#[derive(Default, Serialize)]
struct Report {
    key: String,
    endpoint: String,
    stage: Stage,
    /// What was wrong last, if nothing has gone well since.
    trouble: Option<String>,
    /// What has been said on standard error since something went well.
    #[serde(skip)]
    said: BTreeSet<String>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub struct Standing(Mutex<Report>);

impl Standing {
    fn told(&self) -> MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is asked of this endpoint, for the election under this key.
    pub fn asks(&self, key: &str, endpoint: &str) {
        let mut told = self.told();
        key.clone_into(&mut told.key);
        endpoint.clone_into(&mut told.endpoint);
    }

    /// It went well.
    pub fn reached(&self, stage: Stage, out: &Output) {
        let mut told = self.told();
        told.stage = stage;
        told.trouble = None;
        if !std::mem::take(&mut told.said).is_empty() {
            warn(&format!("etcd at {} answers again", told.endpoint), out);
        }
    }

    /// Something went wrong that is tried again, and has changed nothing so far.
    pub fn is_troubled(&self, why: &str) {
        self.told().trouble = Some(why.to_owned());
    }

    /// This monitor may not lead, and begins anew.
    pub fn failed(&self, why: String, out: &Output) {
        let mut told = self.told();
        let was_elected = told.stage == Stage::Elected;
        told.stage = Stage::Begins;
        if told.said.insert(why.clone()) || was_elected {
            warn(
                &format!("{why}; this monitor may not lead, and goes on trying"),
                out,
            );
        }
        told.trouble = Some(why);
    }

    /// All of it.
    pub fn status(&self, may_lead: bool) -> serde_json::Value {
        let mut status = serde_json::json!(&*self.told());
        status["may_lead"] = may_lead.into();
        status
    }
}

fn warn(text: &str, out: &Output) {
    match out.json {
        true => complain!("{}", serde_json::json!({ "warning": text })),
        false => complain!("cenote: {text}"),
    }
}
