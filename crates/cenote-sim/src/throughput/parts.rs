//! How a form of map is made, opened, and served.

use std::rc::Rc;

use cenote::Result;
use cenote::index::baseline::WordMap;
use cenote::index::baseline::messages::{Client, Server, Shape, part_name, part_of};
use cenote::pod::Worker;
use cenote_ycsb::{Workload, key_of_record};

use super::Plan;
use crate::exec::SimMemory;

/// What a run calls the map.
const NAME: &str = "map";

/// Makes something of a plan, as a worker.
type Make<const C: bool, T> = fn(&Plan, Rc<Worker<SimMemory<C>>>) -> Result<T>;

/// Executes requests until it is told to stop.
type Serve<const C: bool> = fn(&Plan, Rc<Worker<SimMemory<C>>>, &dyn Fn() -> bool) -> Result<()>;

/// A form of map.
pub struct Parts<const C: bool, W> {
    /// Makes the map, with its records in it unless they are what is measured.
    pub prepare: Make<C, ()>,
    /// Opens a thread's handle.
    pub open: Make<C, W>,
    /// What a server does.
    pub serve: Serve<C>,
}

/// A map that all threads share.
pub fn shared<const C: bool, W: WordMap<SimMemory<C>>>() -> Parts<C, W> {
    Parts {
        prepare: |plan, worker| {
            let map = W::open_or_create(worker, NAME, plan.guidelines, plan.records)?;
            if plan.workloads[0] == Workload::Load {
                return Ok(());
            }
            map.reserve(plan.records)?;
            (0..plan.records).try_for_each(|record| map.put_u64(key_of_record(record), record).map(drop))
        },
        open: |plan, worker| W::open_or_create(worker, NAME, plan.guidelines, plan.records),
        serve: |_, _, _| Ok(()),
    }
}

fn shape(plan: &Plan) -> Shape {
    Shape {
        clients: plan.clients(),
        servers: plan.servers(),
    }
}

/// Maps that servers have, each with a part of the keys.
pub fn behind_queues<const C: bool, W: WordMap<SimMemory<C>>>() -> Parts<C, Client<SimMemory<C>>> {
    Parts {
        prepare: |plan, worker| {
            let servers = plan.servers();
            let maps = (0..servers)
                .map(|place| W::open_or_create(worker.clone(), &part_name(NAME, place), plan.guidelines, 0));
            let maps: Vec<W> = maps.collect::<Result<_>>()?;
            if plan.workloads[0] == Workload::Load {
                return Ok(());
            }
            for map in &maps {
                // Parts differ in size.
                map.reserve(plan.records.div_ceil(servers.into()) * 2)?;
            }
            (0..plan.records)
                .map(key_of_record)
                .zip(0..)
                .try_for_each(|(key, value)| {
                    maps[part_of(key, servers) as usize].put_u64(key, value).map(drop)
                })
        },
        open: |plan, worker| Client::open(worker, NAME, shape(plan)),
        serve: |plan, worker, stop| {
            Server::<_, W>::open(worker, NAME, shape(plan), plan.guidelines, plan.records)?
                .serve_until(stop)
                .map(drop)
        },
    }
}
