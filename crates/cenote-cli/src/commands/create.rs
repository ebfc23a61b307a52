//! `cenote create`: makes a pool.

use std::path::PathBuf;
use std::process::ExitCode;

use cenote::pod::format::geometry::FRAME;
use cenote::{MemoryKind, Options, parse_size};
use serde::Serialize;

use crate::failure::Failure;
use crate::memory::{self, MemoryArgs};
use crate::output::{Output, bytes};
use crate::pool::{PoolArg, with_given};

/// What is reserved at once, unless another size or a smaller maximum is given.
const SIZE: u64 = 64 << 20;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Room that is reserved at once [default: 64MiB, or all that --max or the device allows]
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Room that it may grow to; only address space is reserved for it [default: 1TiB, or all that the device has]
    #[arg(long, value_parser = parse_size)]
    max: Option<u64>,
    /// Make a new pool of a device that holds something. Processes that have it open are lost
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Processes that may have it open at a time
    #[arg(long, value_name = "N", default_value_t = Options::default().processes)]
    processes: u32,
    /// Threads that may have maps open at a time
    #[arg(long, value_name = "N", default_value_t = Options::default().workers)]
    workers: u32,
    /// Names that it may have
    #[arg(long, value_name = "N", default_value_t = Options::default().names)]
    names: u32,
    /// Hosts that may share it, with ids from 0 on
    #[arg(long, value_name = "N", default_value_t = Options::default().hosts)]
    hosts: u32,
    /// Permissions of the file, in octal digits, whatever the umask. Where others than the owner and the group may
    /// write it, it is opened with --trust-owner only
    #[arg(long, default_value = "600", value_parser = octal)]
    mode: u32,
}

#[derive(Serialize)]
struct Created {
    path: PathBuf,
    kind: MemoryKind,
    size: u64,
    max: u64,
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions are octal digits up to 777, as in 600".to_owned()),
    }
}

/// Creates the pool.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.path();
    let kind = args.memory.kind();
    let options = with_given(&Options {
        processes: args.processes,
        workers: args.workers,
        names: args.names,
        hosts: args.hosts,
        mode: args.mode,
        overwrite: args.overwrite,
        ..Options::default()
    });
    if args.size == Some(0) {
        return Err(Failure::misuse(format!(
            "--size is 1 at least; what is given is rounded up to {}",
            bytes(FRAME)
        )));
    }
    if args.max.is_some_and(|max| max < FRAME) {
        return Err(Failure::misuse(format!("--max is {} at least", bytes(FRAME))));
    }
    let room = memory::device_room(kind, &path, &options)?;
    if room == Some(0) {
        return Err(Failure::failed(format!(
            "{}: the device is too small for a pool's tables; give fewer --processes, --workers and --names, or another device",
            path.display()
        )));
    }
    if let Some(room) = room
        && let Some(asked) = args.max.max(args.size).filter(|&asked| asked > room)
    {
        return Err(Failure::misuse(format!(
            "{}: the device has room for {} beside the pool's tables, not for {}; leave out --max and --size, or give less",
            path.display(),
            bytes(room),
            bytes(asked)
        )));
    }
    let max = args.max.or(room).unwrap_or(options.max);
    if args.size.is_some_and(|size| max < size) {
        return Err(Failure::misuse(
            "--max is less than --size; leave one of them out, or give --max more",
        ));
    }
    if room.is_none() && path.exists() {
        return Err(Failure::failed(format!(
            "{}: there is such a file already; remove it, or choose another name",
            path.display()
        )));
    }
    if room.is_none() && args.overwrite {
        return Err(Failure::misuse(format!(
            "{}: --overwrite is for devices, and this is none; leave it out",
            path.display()
        )));
    }
    let options = Options {
        size: args.size.unwrap_or(SIZE.min(max)),
        max,
        ..options
    };
    let stat = memory::create(kind, &path, &options)?;
    let created = Created {
        path,
        kind: stat.kind,
        size: stat.committed_bytes,
        max: stat.max_bytes,
    };
    out.result(&created, |created| {
        format!(
            "created {}: {} memory, {} reserved, grows to {}",
            created.path.display(),
            created.kind.name(),
            bytes(created.size),
            bytes(created.max)
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
