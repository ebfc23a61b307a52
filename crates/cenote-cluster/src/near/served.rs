//! A node's side: it lends modules to a connection, and has worker threads execute what comes.

use std::io;
use std::time::Duration;

use cenote_near::device::Skiplist;
use cenote_near::modules::{Modules, ModulesError, Threads};

use super::wire::{CHUNK, Refusal, Request, Response, take_frame};
use crate::node::Node;
use crate::stream::Stream;

/// The time between two responses of a node that executes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Modules of a connection, at most.
const MODULES_MAX: u32 = 1 << 16;
/// Bytes that a module has at least, whatever it is asked to have.
const MODULE_LEAST: u64 = 4 << 10;
/// Bytes of answers to a batch, at most, or twice the memory that is lent if that is more.
const ANSWERS_MAX: usize = 64 << 20;
/// Bytes of commands that wait to be executed, at most, or the memory that is lent if that is more.
const WAITING_MAX: usize = 1 << 30;

/// Memory that a node has lent to a connection's modules. It has it back when this is dropped.
struct Lent<'n> {
    node: &'n Node,
    bytes: u64,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.node.take_back(self.bytes);
    }
}

/// The modules of a connection, and what waits for them.
struct Opened<'n> {
    /// None if they were lost.
    modules: Option<Threads<Skiplist>>,
    waiting: Vec<Vec<u8>>,
    bytes: usize,
    lent: Lent<'n>,
}

impl Opened<'_> {
    /// Adds commands to those that wait for a module; else why not.
    fn add(&mut self, module: u32, bytes: Vec<u8>) -> Result<(), Refusal> {
        self.bytes += bytes.len();
        let Some(waiting) = self.waiting.get_mut(module as usize) else {
            return Err(Refusal::NoSuchModule { module });
        };
        // What makes a map anew is no more than the memory that it fills.
        let most = WAITING_MAX.max(self.lent.bytes as usize);
        if self.bytes > most {
            return Err(Refusal::BatchTooLong { most: most as u64 });
        }
        match waiting.is_empty() {
            true => *waiting = bytes,
            false => waiting.extend(bytes),
        }
        Ok(())
    }
}

/// Answers a host until it ends the connection, or asks for what cannot be done.
pub(crate) async fn serve(node: &Node, mut stream: Stream) -> io::Result<()> {
    stream.find_lost_peers()?;
    let mut opened = None;
    let outcome = converse(node, &mut stream, &mut opened).await;
    if let Some(Opened {
        modules,
        waiting,
        lent,
        ..
    }) = opened
    {
        // Not here: it takes long to give much memory back, and the event loop has heartbeats to answer.
        let _ = tokio::task::spawn_blocking(move || drop((modules, waiting))).await;
        drop(lent);
    }
    outcome
}

async fn converse<'n>(
    node: &'n Node,
    stream: &mut Stream,
    opened: &mut Option<Opened<'n>>,
) -> io::Result<()> {
    let mut arrived = Vec::new();
    loop {
        let mut taken = 0;
        while let Some(request) =
            take_frame(&arrived, &mut taken, Request::decode).map_err(io::Error::other)?
        {
            if let Err(last) = answer(node, stream, opened, request).await? {
                return send(stream, &last).await;
            }
        }
        arrived.drain(..taken);
        if stream.read_buf(&mut arrived).await? == 0 {
            return Ok(());
        }
    }
}

async fn send(stream: &mut Stream, response: &Response) -> io::Result<()> {
    let mut out = Vec::new();
    response.encode(&mut out);
    stream.write_all(&out).await
}

/// Does what is asked for; else the last response on the connection.
async fn answer<'n>(
    node: &'n Node,
    stream: &mut Stream,
    opened: &mut Option<Opened<'n>>,
    request: Request,
) -> io::Result<Result<(), Response>> {
    let refused = |why| Ok(Err(Response::Refused(why)));
    match (request, opened.take()) {
        (Request::Open { modules, bytes, seed }, None) => match open(node, modules, bytes, seed) {
            Ok(new) => {
                *opened = Some(new);
                send(stream, &Response::Opened).await.map(Ok)
            }
            Err(why) => refused(why),
        },
        (Request::Commands { module, bytes }, Some(mut modules)) => {
            let added = modules.add(module, bytes);
            *opened = Some(modules);
            match added {
                Ok(()) => Ok(Ok(())),
                Err(why) => refused(why),
            }
        }
        (Request::Run, Some(mut modules)) => {
            let outcome = run(stream, &mut modules).await;
            *opened = Some(modules);
            outcome
        }
        (Request::Open { .. }, Some(modules)) => {
            *opened = Some(modules);
            refused(Refusal::HasModules)
        }
        (Request::Commands { .. } | Request::Run, None) => refused(Refusal::NoModules),
    }
}

fn open(node: &Node, modules: u32, bytes: u64, seed: u64) -> Result<Opened<'_>, Refusal> {
    if modules == 0 || modules > MODULES_MAX {
        return Err(Refusal::ModuleCount {
            asked: modules,
            most: MODULES_MAX,
        });
    }
    if !node.has_own_memory() {
        return Err(Refusal::MemoryInFile);
    }
    let bytes = bytes.max(MODULE_LEAST);
    let all = u64::from(modules).saturating_mul(bytes);
    if !node.lend(all) {
        return Err(Refusal::NoRoom {
            modules,
            bytes,
            free: node.free(),
        });
    }
    let lent = Lent { node, bytes: all };
    // A scan of all that a module has is less than its memory.
    let answers_max = (ANSWERS_MAX / modules as usize).max(2 * bytes as usize);
    let programs = (1..=u64::from(modules))
        .map(|module| {
            let seed = seed ^ module.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Skiplist::new(bytes, seed).with_answers_max(answers_max)
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Opened {
        modules: Some(Threads::new(programs, threads).map_err(failed)?),
        waiting: vec![Vec::new(); modules as usize],
        bytes: 0,
        lent,
    })
}

/// A round. The event loop goes on meanwhile, and the host is told once a second that it is under way.
async fn run(stream: &mut Stream, opened: &mut Opened<'_>) -> io::Result<Result<(), Response>> {
    let count = opened.waiting.len();
    let batches = std::mem::replace(&mut opened.waiting, vec![Vec::new(); count]);
    opened.bytes = 0;
    let lost = || Ok(Err(Response::Refused(Refusal::Lost)));
    let Some(mut modules) = opened.modules.take() else {
        return lost();
    };
    let mut round = tokio::task::spawn_blocking(move || {
        let outcome = modules.round(batches);
        (modules, outcome)
    });
    // Memory that was lent is not given back before modules have come to rest: so this waits for them, also if the host
    // is lost.
    let mut is_sent = Ok(());
    let outcome = loop {
        match tokio::time::timeout(INTERVAL, &mut round).await {
            Ok(outcome) => break outcome,
            Err(_) if is_sent.is_ok() => is_sent = send(stream, &Response::Running).await,
            Err(_) => {}
        }
    };
    let Ok((modules, outcome)) = outcome else {
        return lost();
    };
    let (totals, memory) = (modules.counters(), modules.memory_bytes());
    opened.modules = Some(modules);
    is_sent?;
    let answers = match outcome {
        Ok(answers) => answers,
        Err(error) => return Ok(Err(of_error(error))),
    };
    for (module, answers) in (0..).zip(answers) {
        for chunk in answers.chunks(CHUNK) {
            let bytes = chunk.to_vec();
            send(stream, &Response::Answers { module, bytes }).await?;
        }
    }
    let ran = Response::Ran {
        chases: totals.chases,
        memory,
    };
    send(stream, &ran).await.map(Ok)
}

fn failed(error: ModulesError) -> Refusal {
    Refusal::Failed {
        why: error.to_string(),
    }
}

fn of_error(error: ModulesError) -> Response {
    match error {
        ModulesError::Malformed { module, cause } => Response::Malformed {
            module: module as u32,
            at: cause.at as u64,
        },
        other => Response::Refused(failed(other)),
    }
}
