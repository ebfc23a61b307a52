//! Cleaning up when the user presses Ctrl-C (or ends the command by SIGTERM or SIGHUP).
//!
//! The signals are blocked in the whole process, and a thread of its own waits for them, so that what it runs is
//! ordinary code. Children are not affected: Rust starts them with no signal blocked.

use std::sync::Mutex;

type Cleanup = Box<dyn FnOnce() + Send>;

static CLEANUPS: Mutex<Vec<Cleanup>> = Mutex::new(Vec::new());

/// Runs `cleanup` if a signal ends this process; after that the process exits with 128 + the signal's number, as a
/// shell would say it. Call it before other threads are started, because threads inherit the signals that are blocked.
pub fn on_interrupt(cleanup: impl FnOnce() + Send + 'static) {
    let Ok(mut cleanups) = CLEANUPS.lock() else { return };
    cleanups.push(Box::new(cleanup));
    if cleanups.len() > 1 {
        return;
    }
    let signals = block();
    // Without the thread, the signals stay blocked and the command cannot be interrupted; it still ends.
    let _ = std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            let signal = wait(&signals);
            if let Ok(mut cleanups) = CLEANUPS.lock() {
                cleanups.drain(..).rev().for_each(|cleanup| cleanup());
            }
            std::process::exit(128 + signal);
        });
}

/// From now on, SIGINT, SIGTERM and SIGHUP do not end this process; they are handed over here. Call it before other
/// threads are started, and not together with [`on_interrupt`].
pub fn signals() -> std::sync::mpsc::Receiver<i32> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let signals = block();
    // Without the thread, the signals stay blocked, as above.
    let _ = std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || while sender.send(wait(&signals)).is_ok() {});
    receiver
}

/// Makes a write beyond this process's limit on file sizes (`ulimit -f`) an error of the call, and no signal. Call it
/// before other threads are started.
pub fn block_file_size() {
    block_these(&[libc::SIGXFSZ]);
}

/// Signals that this command was started to ignore (`nohup`, a shell's background) stay ignored.
fn block() -> libc::sigset_t {
    let heard: Vec<_> = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP]
        .into_iter()
        .filter(|signal| !is_ignored(*signal))
        .collect();
    block_these(&heard)
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: asks for the present action, and changes none; a zeroed one is valid to be overwritten.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

fn block_these(which: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: an all-zero set is a valid place for sigemptyset to initialise; the calls only touch that set and
    // this thread's mask.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signals);
        for &signal in which {
            libc::sigaddset(&mut signals, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
        signals
    }
}

fn wait(signals: &libc::sigset_t) -> i32 {
    let mut signal = 0;
    loop {
        // SAFETY: both pointers are to living values of the right type.
        if unsafe { libc::sigwait(signals, &mut signal) } == 0 {
            return signal;
        }
    }
}
