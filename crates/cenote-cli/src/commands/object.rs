//! `cenote object`: puts, prints, lists and deletes objects of an object store.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cenote::memory::Memory;
use cenote::objects::{NewObject, ObjectInfo, ObjectSettings, Objects, Ttl};
use cenote::{Options, Pool, Put, parse_size};
use clap::Subcommand;
use serde_json::json;

use crate::bytes::{HexArg, add_to_json, escape, to_hex};
use crate::failure::Failure;
use crate::input;
use crate::output::Output;
use crate::pool::{PoolArg, on_pool, room};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a store
    Create {
        #[command(flatten)]
        store: StoreArg,
        /// Evict objects that nobody has viewed lately when there is no room
        #[arg(long)]
        evict: bool,
        /// Bytes that its objects may occupy; default: as many as the pool has
        #[arg(long, value_name = "SIZE", value_parser = |text: &str| parse_size(text))]
        quota: Option<u64>,
        /// Seconds that objects live which say nothing else; default: for ever
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u64>,
    },
    /// Make an object; makes the store too if there is none
    Put {
        #[command(flatten)]
        store: StoreArg,
        #[command(flatten)]
        object: ObjectArg,
        /// The file with the object's bytes; `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take the place of the object that has this id, if there is one
        #[arg(long)]
        replace: bool,
        /// Bytes that say what it is, kept beside it
        #[arg(long, value_name = "TEXT", default_value = "")]
        metadata: String,
        /// Seconds that it lives, or `never` for ever; default: what the store says
        #[arg(long, value_name = "SECONDS", value_parser = time_to_live)]
        ttl: Option<Ttl>,
    },
    /// Write an object's bytes to standard output
    Get {
        #[command(flatten)]
        store: StoreArg,
        #[command(flatten)]
        object: ObjectArg,
        /// If there is none, wait so many seconds for it
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        wait: u64,
    },
    /// Print the objects, in the order of their ids
    List {
        #[command(flatten)]
        store: StoreArg,
        /// Only those whose ids begin so
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        hex: HexArg,
    },
    /// Delete an object; views of it stay as they are
    Rm {
        #[command(flatten)]
        store: StoreArg,
        #[command(flatten)]
        object: ObjectArg,
    },
    /// Print what is known of an object
    Stat {
        #[command(flatten)]
        store: StoreArg,
        #[command(flatten)]
        object: ObjectArg,
    },
}

/// The store that is meant.
#[derive(clap::Args)]
struct StoreArg {
    #[command(flatten)]
    pool: PoolArg,
    /// The store's name
    #[arg(long = "store", value_name = "NAME", default_value = "objects")]
    name: String,
}

/// The object that is meant.
#[derive(clap::Args)]
struct ObjectArg {
    /// The object's id
    id: String,
    #[command(flatten)]
    hex: HexArg,
}

impl ObjectArg {
    fn id(&self) -> Result<Vec<u8>, Failure> {
        self.hex.decode("id", &self.id)
    }

    fn none(&self, store: &StoreArg) -> Failure {
        Failure::failed(format!(
            "there is no object {} in the store {:?}",
            self.id, store.name
        ))
    }
}

/// Does what is asked.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let store = match &args.action {
        Action::Create { store, .. }
        | Action::Put { store, .. }
        | Action::Get { store, .. }
        | Action::List { store, .. }
        | Action::Rm { store, .. }
        | Action::Stat { store, .. } => store,
    };
    let path = store.pool.existing()?;
    let bytes = match &args.action {
        Action::Put { file, .. } => {
            let file = (file.as_os_str() != "-").then_some(file.as_path());
            input::whole(file, (room(&path)?, "the pool has no room for a larger object"))?
        }
        _ => Vec::new(),
    };
    on_pool!(&path, &Options::default(), |pool| act(
        &pool,
        store,
        &args.action,
        &bytes,
        out
    )?);
    Ok(ExitCode::SUCCESS)
}

fn act<M: Memory>(
    pool: &Pool<M>,
    store: &StoreArg,
    action: &Action,
    bytes: &[u8],
    out: &Output,
) -> Result<(), Failure> {
    match action {
        Action::Create {
            evict, quota, ttl, ..
        } => {
            let settings = ObjectSettings {
                evict: *evict,
                quota: *quota,
                ttl_ms: ttl.map(|seconds| seconds.saturating_mul(1000)),
            };
            create(pool, store, &settings, out)
        }
        Action::Put {
            object,
            replace,
            metadata,
            ttl,
            ..
        } => {
            let objects = pool.objects(&store.name, &ObjectSettings::default())?;
            let new = NewObject {
                metadata: metadata.as_bytes(),
                ttl: ttl.unwrap_or_default(),
            };
            let done = put(&objects, object, bytes, &new, *replace)?;
            out.result(&json!({ "result": done, "bytes": bytes.len() }), |_| {
                done.to_owned()
            })
        }
        Action::Get { object, wait, .. } => {
            let objects = pool.existing_objects(&store.name)?;
            let view = objects.wait(&object.id()?, Duration::from_secs(*wait))?;
            let view = view.ok_or_else(|| object.none(store))?;
            let mut stdout = out.writer();
            let written = stdout.write_all(&view).and_then(|()| stdout.flush());
            written.map_err(Failure::stdout)
        }
        Action::List { prefix, hex, .. } => {
            let objects = pool.existing_objects(&store.name)?;
            list(&objects, &hex.decode("prefix", prefix)?, *hex, out)
        }
        Action::Rm { object, .. } => {
            let objects = pool.existing_objects(&store.name)?;
            match objects.delete(&object.id()?)? {
                true => out.result(&json!({ "result": "deleted" }), |_| "deleted".to_owned()),
                false => Err(object.none(store)),
            }
        }
        Action::Stat { object, .. } => {
            let objects = pool.existing_objects(&store.name)?;
            let info = objects.stat(&object.id()?)?.ok_or_else(|| object.none(store))?;
            out.result(&described(&info), |_| shown(&info))
        }
    }
}

/// A time to live as it is typed.
fn time_to_live(text: &str) -> Result<Ttl, String> {
    match text {
        "never" => Ok(Ttl::Never),
        seconds => match seconds.parse() {
            Ok(seconds @ 1..) => Ok(Ttl::After(Duration::from_secs(seconds))),
            _ => Err("whole seconds, at least 1, or `never`".to_owned()),
        },
    }
}

fn create<M: Memory>(
    pool: &Pool<M>,
    store: &StoreArg,
    settings: &ObjectSettings,
    out: &Output,
) -> Result<(), Failure> {
    if pool.names()?.contains(&store.name) {
        return Err(Failure::failed(format!(
            "the pool has something named {:?} already; nothing was made",
            store.name
        )));
    }
    let made = pool.objects(&store.name, settings)?;
    if made.settings() != settings {
        return Err(Failure::failed(format!(
            "another process has made {:?} just now, with other settings",
            store.name
        )));
    }
    out.result(&json!({ "result": "created", "settings": settings }), |_| {
        "created".to_owned()
    })
}

fn put<M: Memory>(
    objects: &Objects<M>,
    object: &ObjectArg,
    bytes: &[u8],
    new: &NewObject<'_>,
    replace: bool,
) -> Result<&'static str, Failure> {
    let id = object.id()?;
    if replace {
        return Ok(match objects.put_with(&id, bytes, new)? {
            Put::Replaced => "replaced",
            Put::Inserted => "inserted",
        });
    }
    match objects.insert_with(&id, bytes, new)? {
        true => Ok("inserted"),
        false => Err(Failure::failed(format!(
            "there is an object {}, which stays; --replace puts another one in its place",
            object.id
        ))),
    }
}

fn list<M: Memory>(objects: &Objects<M>, prefix: &[u8], hex: HexArg, out: &Output) -> Result<(), Failure> {
    let mut stdout = out.writer();
    let mut written = Ok(());
    objects.list(prefix, |info| {
        written = if out.json {
            writeln!(stdout, "{}", described(&info))
        } else {
            let mut line = Vec::new();
            match hex.hex {
                true => line.extend_from_slice(to_hex(&info.id).as_bytes()),
                false => escape(&info.id, true, &mut line),
            }
            line.extend_from_slice(format!("\t{}\n", info.size).as_bytes());
            stdout.write_all(&line)
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    written.and_then(|()| stdout.flush()).map_err(Failure::stdout)
}

/// An object for scripts.
fn described(info: &ObjectInfo) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    add_to_json(&mut object, "id", &info.id);
    object.insert("size".to_owned(), info.size.into());
    object.insert("created_ms".to_owned(), info.created_ms.into());
    object.insert("expires_ms".to_owned(), info.expires_ms.into());
    object.insert("was_viewed".to_owned(), info.was_viewed.into());
    add_to_json(&mut object, "metadata", &info.metadata);
    object.into()
}

/// The same for people.
fn shown(info: &ObjectInfo) -> String {
    let mut metadata = Vec::new();
    escape(&info.metadata, true, &mut metadata);
    let expires = match info.expires_ms {
        None => "never".to_owned(),
        Some(at) => format!("{} s after 1970", at / 1000),
    };
    format!(
        "size      {} bytes\nmade      {} s after 1970\nexpires   {expires}\nviewed    {}\nmetadata  {}",
        info.size,
        info.created_ms / 1000,
        if info.was_viewed { "yes" } else { "never" },
        String::from_utf8_lossy(&metadata),
    )
}
