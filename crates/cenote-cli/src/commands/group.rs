//! `cenote group`: makes groups, joins them, and shows members and events.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cenote::group::{Event, Member, Status};
use cenote::memory::Memory;
use cenote::{GroupSize, Membership, Options, Pool};
use clap::Subcommand;

use crate::failure::Failure;
use crate::input;
use crate::output::Output;
use crate::pool::{PoolArg, on_pool};

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a group
    Create {
        #[command(flatten)]
        group: GroupArg,
        /// Members that it has room for, those that have left included
        #[arg(long, value_name = "N", default_value_t = GroupSize::default().members)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=GroupSize::default().members))]
        members: u64,
        /// Unread events that it has room for
        #[arg(long, value_name = "N", default_value_t = GroupSize::default().events)]
        #[arg(value_parser = clap::value_parser!(u64).range(3..=GroupSize::default().events))]
        events: u64,
    },
    /// Become a member, and print events until this command ends
    Join {
        #[command(flatten)]
        group: GroupArg,
        /// The member's name, up to 31 bytes; the same when it comes again
        #[arg(long, value_name = "NAME")]
        id: String,
        #[command(flatten)]
        until: Until,
    },
    /// Print events as they come, without being a member
    Watch {
        #[command(flatten)]
        group: GroupArg,
        #[command(flatten)]
        until: Until,
    },
    /// Print the members
    List {
        #[command(flatten)]
        group: GroupArg,
    },
}

/// The group that is meant.
#[derive(clap::Args)]
struct GroupArg {
    #[command(flatten)]
    pool: PoolArg,
    /// The group's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The group's secret; others can see the arguments of a command, so a file is better
    #[arg(long, value_name = "SECRET")]
    token: Option<String>,
    /// The file that holds the group's secret; a line end at its end does not count. `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
}

/// Bytes of a secret at most.
const SECRET_MAX: u64 = 64 << 10;

impl GroupArg {
    fn token(&self) -> Result<Vec<u8>, Failure> {
        let Some(path) = &self.token_file else {
            return Ok(self.token.clone().unwrap_or_default().into_bytes());
        };
        let file = (path.as_os_str() != "-").then_some(&**path);
        let mut bytes = input::whole(file, (SECRET_MAX, "no secret is longer"))?;
        while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            bytes.pop();
        }
        Ok(bytes)
    }
}

/// When to end.
#[derive(clap::Args)]
struct Until {
    /// End after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End if nothing happens for so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = text.parse().ok();
    wanted
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("seconds are a number of 0 or more".to_owned())
}

/// Does what is asked.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let group = match &args.action {
        Action::Create { group, .. }
        | Action::Join { group, .. }
        | Action::Watch { group, .. }
        | Action::List { group } => group,
    };
    let (path, token) = (group.pool.existing()?, group.token()?);
    on_pool!(&path, &Options::default(), |pool| act(
        &pool,
        &args.action,
        &token,
        out
    )?);
    Ok(ExitCode::SUCCESS)
}

fn act<M: Memory>(pool: &Pool<M>, action: &Action, token: &[u8], out: &Output) -> Result<(), Failure> {
    match action {
        Action::Create {
            group,
            members,
            events,
        } => {
            let size = GroupSize {
                members: *members,
                events: *events,
            };
            pool.group_of_size(&group.name, token, size)?;
            out.result(&serde_json::json!({ "group": group.name }), |_| {
                format!("the group {:?} is there", group.name)
            })
        }
        Action::Join { group, id, until } => {
            let membership = pool.existing_group(&group.name, token)?.join(id)?;
            print(membership, until, out)
        }
        Action::Watch { group, until } => {
            let membership = pool.existing_group(&group.name, token)?.observe()?;
            print(membership, until, out)
        }
        Action::List { group } => {
            let members = pool.existing_group(&group.name, token)?.members()?;
            if out.json {
                return members.iter().try_for_each(|member| out.json_line(member));
            }
            members.iter().try_for_each(|member| out.line(line_of(member)))
        }
    }
}

/// Prints events, a line each, as they come.
fn print<M: Memory>(mut membership: Membership<M>, until: &Until, out: &Output) -> Result<(), Failure> {
    let mut left = until.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = membership.next(until.timeout)? else {
            break;
        };
        out.result(&event, text)?;
        left -= 1;
    }
    Ok(membership.leave()?)
}

fn text(event: &Event) -> String {
    let who = match event.member.is_empty() {
        true => format!("host {}", event.host),
        false => event.member.clone(),
    };
    format!("{:>6}  {:<9}  {who}", event.number, event.kind.name())
}

fn line_of(member: &Member) -> String {
    let status = match member.status {
        Status::Joined => "here",
        Status::Left => "left",
        Status::Died => "died",
        Status::Free | Status::Observer => "",
    };
    format!(
        "{:<31}  {status:<4}  host {}, since event {}",
        member.name, member.host, member.since_event
    )
}
