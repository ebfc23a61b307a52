//! Where in the library virtual time goes: each operation's time, by the functions on its call stack.
//!
//! The call stack is taken, as addresses, when the operation's time is charged; functions are looked up when the run is
//! over. That takes some microseconds of real time for each operation, and no virtual time.

use std::collections::HashMap;

use serde::Serialize;

use super::op::Kind;

/// Frames of a stack that are kept, from the innermost.
const FRAMES: usize = 48;
/// Where the library's files are.
const LIBRARY: &str = "crates/cenote/src/";
/// The layer that operations are charged in: not where time goes, but how.
const MEMORY: &str = "memory/";

/// Times of stacks, by what was being measured.
#[derive(Default)]
pub struct Regions {
    /// Where the sums of a stack are.
    stacks: HashMap<(u32, Box<[usize]>), usize>,
    sums: Vec<Sums>,
    /// Where each thread waits, if it waited last: waits follow each other in loops, and their stack is taken once.
    waited: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    ps: u64,
    times: u64,
    /// What of it sync operations took, and fences.
    sync_ps: u64,
    fences_ps: u64,
}

/// A function of the library, and the time of the operations that it asked memory for itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Region {
    /// Its file and its name.
    pub function: String,
    /// Nanoseconds in the mean of an operation on the map.
    pub ns: f64,
    /// The same with all that it calls.
    pub with_callees_ns: f64,
    /// Operations on memory.
    pub accesses: f64,
    /// Of its own time, the share of sync operations: loads, stores and exchanges past the caches.
    pub sync: f64,
    /// The share of fences.
    pub fences: f64,
}

/// What a run reports of its regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profiled {
    /// The functions, the one that takes most time itself first.
    pub regions: Vec<Region>,
    /// Stacks with their picoseconds, a line each, outermost function first: what flame graph tools read.
    #[serde(skip)]
    pub folded: Vec<String>,
}

impl Regions {
    /// An operation of this kind took a thread so long, for what is being measured.
    pub fn add(&mut self, thread: u32, measured: u32, kind: Kind, ps: u64) {
        let thread = thread as usize;
        self.waited.resize(self.waited.len().max(thread + 1), None);
        let place = match self.waited[thread] {
            Some(place) if kind == Kind::Wait => place,
            _ => self.place(measured),
        };
        self.waited[thread] = (kind == Kind::Wait).then_some(place);
        let sums = &mut self.sums[place];
        sums.ps += ps;
        sums.times += 1;
        match kind {
            Kind::Load | Kind::Store | Kind::StoreSeqCst | Kind::FetchLine => sums.sync_ps += ps,
            Kind::CompareExchange | Kind::FetchModify => sums.sync_ps += ps,
            Kind::Fence => sums.fences_ps += ps,
            _ => {}
        }
    }

    /// Where the sums of the present stack are.
    fn place(&mut self, measured: u32) -> usize {
        let mut stack = Vec::with_capacity(FRAMES);
        backtrace::trace(|frame| {
            stack.push(frame.ip() as usize);
            stack.len() < FRAMES
        });
        let place = *self
            .stacks
            .entry((measured, stack.into()))
            .or_insert(self.sums.len());
        if place == self.sums.len() {
            self.sums.push(Sums::default());
        }
        place
    }

    /// What came of it, for the mean of so many operations on the map.
    pub fn profiled(&self, measured: u32, operations: u64) -> Profiled {
        let mut names = Names::default();
        let mut own: HashMap<String, (Sums, u64)> = HashMap::new();
        let mut folded: HashMap<String, u64> = HashMap::new();
        for ((of, stack), &place) in &self.stacks {
            if *of != measured {
                continue;
            }
            let sums = self.sums[place];
            let functions = names.library_functions(stack);
            let Some(innermost) = functions.first() else {
                continue;
            };
            let (mine, _) = own.entry(innermost.clone()).or_default();
            mine.ps += sums.ps;
            mine.times += sums.times;
            mine.sync_ps += sums.sync_ps;
            mine.fences_ps += sums.fences_ps;
            for (n, function) in functions.iter().enumerate() {
                if !functions[..n].contains(function) {
                    own.entry(function.clone()).or_default().1 += sums.ps;
                }
            }
            let line: Vec<&str> = functions.iter().rev().map(String::as_str).collect();
            *folded.entry(line.join(";")).or_default() += sums.ps;
        }
        let mean = |ps: u64| ps as f64 / 1e3 / operations.max(1) as f64;
        let mut regions: Vec<Region> = own
            .into_iter()
            .map(|(function, (sums, with_callees))| Region {
                function,
                ns: mean(sums.ps),
                with_callees_ns: mean(with_callees),
                accesses: sums.times as f64 / operations.max(1) as f64,
                sync: sums.sync_ps as f64 / sums.ps.max(1) as f64,
                fences: sums.fences_ps as f64 / sums.ps.max(1) as f64,
            })
            .collect();
        regions.sort_by(|one, other| {
            let by_time = other.ns.total_cmp(&one.ns);
            by_time.then_with(|| one.function.cmp(&other.function))
        });
        let mut folded: Vec<String> = folded
            .into_iter()
            .map(|(line, ps)| format!("{line} {ps}"))
            .collect();
        folded.sort_unstable();
        Profiled { regions, folded }
    }
}

/// Functions of addresses.
#[derive(Default)]
struct Names {
    /// The library's functions at an address, innermost first: several where calls were inlined.
    known: HashMap<usize, Vec<String>>,
}

impl Names {
    /// The library's functions on a stack above its memory layer, innermost first.
    fn library_functions(&mut self, stack: &[usize]) -> Vec<String> {
        let mut functions: Vec<String> = Vec::new();
        for (n, &address) in stack.iter().enumerate() {
            // All but the innermost are addresses of the instruction behind the call; the outermost may be none.
            let address = address.saturating_sub(usize::from(n > 0));
            let here = self.known.entry(address).or_insert_with(|| resolve(address));
            for function in here {
                if functions.last() != Some(function) {
                    functions.push(function.clone());
                }
            }
        }
        functions
    }
}

/// The library's functions at an address, by the line tables of the program: `index/ordered/find.rs: lookup`.
fn resolve(address: usize) -> Vec<String> {
    let mut functions = Vec::new();
    backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
        let file = symbol
            .filename()
            .and_then(|file| in_library(file.to_str()?).map(str::to_owned));
        let function = symbol
            .name()
            .and_then(|name| plain(&format!("{name:#}")).map(str::to_owned));
        if let (Some(file), Some(function)) = (file, function) {
            functions.push(format!("{file}: {function}"));
        }
    });
    functions
}

/// The path of a file within the library, if it is one of its, above the memory layer.
fn in_library(file: &str) -> Option<&str> {
    let (_, within) = file.rsplit_once(LIBRARY)?;
    (!within.starts_with(MEMORY)).then_some(within)
}

/// The name of a function, without the path and what its types are made of; none for a closure, whose time is that of
/// where it is.
fn plain(name: &str) -> Option<&str> {
    // A path is there where the program has more than line tables.
    let without_types = name.split('<').find(|part| !part.is_empty())?;
    let last = without_types.trim_end_matches("::").rsplit("::").next()?;
    (!last.is_empty() && !last.starts_with('{')).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for (name, wanted) in [
            ("post<cenote_sim::exec::backend::SimMemory<false>>", Some("post")),
            ("{closure#0}<cenote_sim::exec::backend::SimMemory<false>>", None),
            (
                "cenote::pod::commit::publish::publish::<cenote::memory::Coherent>",
                Some("publish"),
            ),
            ("add", Some("add")),
            ("", None),
        ] {
            assert_eq!(plain(name), wanted, "{name}");
        }
        assert_eq!(
            in_library("/home/me/cenote/crates/cenote/src/pod/alloc/heap.rs"),
            Some("pod/alloc/heap.rs")
        );
        assert_eq!(in_library("crates/cenote/src/memory/cells.rs"), None);
        assert_eq!(in_library("crates/cenote-sim/src/exec/run.rs"), None);
    }
}
