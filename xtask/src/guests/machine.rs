//! A virtual machine: QEMU without KVM, a socket for each serial port, and one for its monitor protocol (QMP), which is
//! the power switch.
//!
//! Two processors: with one, QEMU would not make a guest's atomic instructions atomic for other machines.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::image::Image;
use super::plan::Memory;

/// Ports behind the kernel's own: commands, the application, and agents.
pub const PORTS: usize = 3;
/// How long QEMU may take to answer. Both processors may be busy with other work.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A line that a guest has said: which guest, by which port.
pub struct Said {
    /// From 0 on.
    pub guest: usize,
    /// From 0 on.
    pub port: usize,
    /// Without its end.
    pub line: String,
}

/// What a machine is made of.
pub struct Parts<'a> {
    /// From 0 on; its host has the number behind it.
    pub guest: usize,
    /// What it starts from.
    pub image: &'a Image,
    /// The file that all guests share.
    pub shared: &'a Path,
    /// How they see it.
    pub memory: Memory,
    /// Whether agents notify each other by datagrams.
    pub tells: bool,
    /// The folder for its sockets, and for its kernel's messages.
    pub folder: &'a Path,
}

/// A machine that is on. Dropping it switches it off.
pub struct Machine {
    child: Child,
    qmp: BufReader<UnixStream>,
    ports: Vec<UnixStream>,
    /// Resets that QEMU has reported.
    resets: u64,
    /// The file of its kernel's messages.
    pub console: PathBuf,
}

impl Machine {
    /// Switches a machine on. Lines from its ports are sent to `to`.
    pub fn start(parts: &Parts<'_>, to: &Sender<Said>) -> Result<Self, String> {
        let name = format!("guest{}", parts.guest + 1);
        let socket = |what: &str| parts.folder.join(format!("{name}.{what}"));
        let console = socket("console");
        for old in (0..PORTS)
            .map(|port| socket(&port.to_string()))
            .chain([socket("qmp"), socket("net")])
        {
            // There may be none.
            let _ = std::fs::remove_file(old);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-name", &name]);
        command.args("-machine q35,nvdimm=on -accel tcg,thread=multi -cpu max -smp 2".split(' '));
        command.args("-m 256M,slots=2,maxmem=1G -nodefaults -no-user-config -display none".split(' '));
        command.arg("-kernel").arg(&parts.image.kernel);
        command.arg("-initrd").arg(&parts.image.initrd);
        let append = format!(
            "console=ttyS0 quiet panic=-1 cenote.host={} cenote.memory={} cenote.tells={}",
            parts.guest + 1,
            parts.memory.name(),
            u32::from(parts.tells)
        );
        command.args(["-append", &append]);
        command.arg("-serial").arg(format!("file:{}", console.display()));
        for port in 0..PORTS {
            let path = socket(&port.to_string());
            let socket = format!("socket,id=port{port},path={},server=on,wait=off", path.display());
            command.args(["-chardev", &socket, "-serial", &format!("chardev:port{port}")]);
        }
        let other = parts.folder.join(format!("guest{}.net", 2 - parts.guest));
        let network = format!(
            "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            socket("net").display(),
            other.display()
        );
        let card = format!("e1000,netdev=net,mac=52:54:00:00:00:0{}", parts.guest + 1);
        command.args(["-netdev", &network, "-device", &card]);
        let qmp = format!("unix:{},server=on,wait=off", socket("qmp").display());
        command.args(["-qmp", &qmp]);
        let len = parts.shared.metadata().map_err(|error| error.to_string())?.len();
        let backend = format!(
            "memory-backend-file,id=shared,mem-path={},size={len},share=on",
            parts.shared.display()
        );
        command.args(["-object", &backend, "-device", parts.memory.device()]);
        let errors = File::create(socket("errors")).map_err(|error| error.to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("QEMU could not be started: {error}"))?;
        let mut starting = Starting(Some(child));
        let mut ports = Vec::new();
        for port in 0..PORTS {
            let stream = connect(&socket(&port.to_string()), &mut starting)
                .map_err(|error| format!("{error}: {}", read(&socket("errors"))))?;
            listen(&stream, parts.guest, port, to.clone())?;
            ports.push(stream);
        }
        let stream = connect(&socket("qmp"), &mut starting)?;
        stream
            .set_read_timeout(Some(TIMEOUT))
            .map_err(|error| error.to_string())?;
        let mut machine = Self {
            child: starting.0.take().ok_or("QEMU has ended")?,
            qmp: BufReader::new(stream),
            ports,
            resets: 0,
            console,
        };
        machine.qmp_line("\"QMP\"")?;
        machine.order("qmp_capabilities")?;
        Ok(machine)
    }

    /// Says a line to a port.
    pub fn say(&mut self, port: usize, line: &str) -> Result<(), String> {
        let sent = self.ports[port].write_all(format!("{line}\n").as_bytes());
        sent.map_err(|error| format!("a guest's port: {error}"))
    }

    /// Has QEMU execute a command of its protocol.
    pub fn order(&mut self, command: &str) -> Result<(), String> {
        let line = format!("{{\"execute\": \"{command}\"}}\n");
        let sent = self.qmp.get_mut().write_all(line.as_bytes());
        sent.map_err(|error| format!("QEMU does not take `{command}`: {error}"))?;
        self.qmp_line("\"return\"")
            .map_err(|error| format!("`{command}`: {error}"))
    }

    /// Resets it, whether it runs or is stopped. When this returns, nothing that ran in it can write any more.
    pub fn reset(&mut self) -> Result<(), String> {
        let before = self.resets;
        self.order("system_reset")?;
        // QEMU reports it before or after it answers.
        while self.resets == before {
            self.qmp_line("")?;
        }
        Ok(())
    }

    /// Switches it off. When this returns, there is no process of it any more.
    pub fn power_off(mut self) -> Result<(), String> {
        // QEMU may have ended before it answers; that it has ended is what counts.
        let _ = self.order("quit");
        let begin = Instant::now();
        while begin.elapsed() < TIMEOUT {
            if self
                .child
                .try_wait()
                .map_err(|error| error.to_string())?
                .is_some()
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("QEMU did not end when it was told to".to_owned())
    }

    /// Reads what QEMU says up to a line with this word in it.
    fn qmp_line(&mut self, word: &str) -> Result<(), String> {
        loop {
            let mut line = String::new();
            match self.qmp.read_line(&mut line) {
                Ok(0) => return Err("QEMU has ended".to_owned()),
                Err(error) => return Err(format!("QEMU does not answer: {error}")),
                Ok(_) => self.resets += u64::from(line.contains("\"RESET\"")),
            }
            if line.contains(word) {
                return Ok(());
            }
            if line.contains("\"error\"") {
                return Err(line.trim().to_owned());
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A QEMU of which it is not known yet whether it works.
struct Starting(Option<Child>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Connects to a socket that QEMU is about to make.
fn connect(path: &Path, starting: &mut Starting) -> Result<UnixStream, String> {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if begin.elapsed() > TIMEOUT => return Err(format!("{}: {error}", path.display())),
            Err(_) => {}
        }
        let ended = starting.0.as_mut().map(Child::try_wait);
        if let Some(Ok(Some(status))) = ended {
            return Err(format!("QEMU has ended ({status})"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a thread that reads a port's lines, until the machine is off.
fn listen(stream: &UnixStream, guest: usize, port: usize, to: Sender<Said>) -> Result<(), String> {
    let stream = stream.try_clone().map_err(|error| error.to_string())?;
    let read = move || {
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if to.send(Said { guest, port, line }).is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("port".to_owned()).spawn(read);
    started.map(drop).map_err(|error| error.to_string())
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
