//! An endpoint of libfabric, over the shim in `shim.c`.
//!
//! Progress is manual: what others do to memory that is registered here happens inside [`Endpoint::poll`], unless a
//! card does it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::rc::Rc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{PLAIN, Remote};

/// Bytes of an endpoint's address at most.
const NAME_MAX: usize = 256;

/// The shim's `struct cenote_ofi`.
#[repr(C)]
struct Opaque([u8; 0]);

/// libfabric's `struct fid_mr`.
#[repr(C)]
struct OpaqueMemory([u8; 0]);

/// The shim's `struct cenote_ofi_verb`.
#[repr(C)]
struct RawVerb {
    context: *mut c_void,
    peer: u64,
    key: u64,
    at: u64,
    local: *mut c_void,
    len: usize,
}

unsafe extern "C" {
    fn cenote_ofi_open(
        provider: *const c_char,
        host: *const c_char,
        serves: c_int,
        out: *mut *mut Opaque,
        step: *mut *const c_char,
    ) -> c_int;
    fn cenote_ofi_close(o: *mut Opaque);
    fn cenote_ofi_error(error: c_int) -> *const c_char;
    fn cenote_ofi_fd(o: *const Opaque) -> c_int;
    fn cenote_ofi_may_wait(o: *mut Opaque) -> c_int;
    fn cenote_ofi_name(o: *mut Opaque, name: *mut c_void, len: *mut usize) -> c_int;
    fn cenote_ofi_peer(o: *mut Opaque, name: *const c_void, len: usize, peer: *mut u64) -> c_int;
    fn cenote_ofi_register(
        o: *mut Opaque,
        memory: *mut c_void,
        len: usize,
        wanted: u64,
        mr: *mut *mut OpaqueMemory,
        key: *mut u64,
        base: *mut u64,
    ) -> c_int;
    fn cenote_ofi_unregister(mr: *mut OpaqueMemory) -> c_int;
    fn cenote_ofi_read(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_write(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_whole_max(o: *mut Opaque) -> usize;
    fn cenote_ofi_has_words(o: *mut Opaque) -> c_int;
    fn cenote_ofi_read_whole(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_write_whole(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_swap(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_add(o: *mut Opaque, verb: *const RawVerb) -> c_int;
    fn cenote_ofi_poll(o: *mut Opaque, context: *mut *mut c_void, error: *mut c_int) -> c_int;
    fn cenote_ofi_is_again(error: c_int) -> c_int;
    fn cenote_ofi_is_refusal(error: c_int) -> c_int;
}

/// An error of libfabric: of a call, by the negative number that it returned.
fn failure(call: &str, error: c_int) -> io::Error {
    // SAFETY: returns a string that lives as long as the library.
    let text = unsafe { CStr::from_ptr(cenote_ofi_error(-error)) };
    io::Error::other(format!("libfabric: {call}: {}", text.to_string_lossy()))
}

/// An open endpoint, which [`Endpoint`] and the registrations of memory at it share.
struct Open(NonNull<Opaque>);

// SAFETY: libfabric wants one thread at a time, and nothing of it belongs to the thread that made it.
unsafe impl Send for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: opened by the shim, and nobody else has it any more.
        unsafe { cenote_ofi_close(self.0.as_ptr()) }
    }
}

fn open(provider: &str, host: &str, serves: bool) -> io::Result<Open> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| io::Error::other(format!("libfabric: {text:?} is no name")))
    };
    let (named, host) = (text(provider)?, text(host)?);
    let (mut out, mut step) = (std::ptr::null_mut(), c"open".as_ptr());
    // SAFETY: the strings end with a zero and outlive the call; it sets `out` if it succeeds, and `step` in any case to
    // a string that lives as long as the shim.
    let error = unsafe { cenote_ofi_open(named.as_ptr(), host.as_ptr(), serves.into(), &mut out, &mut step) };
    // SAFETY: as above.
    let step = unsafe { CStr::from_ptr(step) }.to_string_lossy();
    match NonNull::new(out).filter(|_| error == 0) {
        Some(open) => Ok(Open(open)),
        None => Err(failure(&format!("provider {provider:?}: {step}"), error)),
    }
}

/// An endpoint.
pub struct Endpoint {
    open: Rc<Open>,
    /// If reads and writes go as atomics: how many bytes one has at most.
    whole: Option<usize>,
}

/// Where an operation is to be done, and by which key.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The other endpoint.
    pub peer: u64,
    /// The key of the memory's registration.
    pub key: u64,
    /// The first byte, as the registration counts them.
    pub at: u64,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To read into the buffer.
    Read,
    /// To write what the buffer has.
    Write,
    /// The buffer's first word replaces one that is the second; the third becomes what it was.
    Swap,
    /// The buffer's first word is added to one; the third becomes what it was.
    Add,
}

/// An operation's memory, which the provider uses until the operation has completed or the endpoint is closed.
pub struct Flight {
    /// The provider's own.
    context: Box<[u64; 8]>,
    /// Words, so that atomics are aligned.
    buffer: Box<[u64]>,
    /// Bytes of a read or a write.
    len: usize,
}

impl Flight {
    /// For a read of so many bytes.
    pub fn read(len: usize) -> Self {
        Self {
            context: Box::default(),
            buffer: vec![0; len.div_ceil(8)].into(),
            len,
        }
    }

    /// For a write.
    pub fn write(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        };
        Self {
            context: Box::default(),
            buffer: bytes.chunks(8).map(word).collect(),
            len: bytes.len(),
        }
    }

    /// For a change of a word.
    pub fn word(first: u64, second: u64) -> Self {
        Self {
            context: Box::default(),
            buffer: Box::new([first, second, 0]),
            len: 8,
        }
    }

    /// What a completion says which operation it is of.
    pub fn name(&self) -> usize {
        self.context.as_ptr().addr()
    }

    /// The bytes that were read.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(self.len);
        bytes
    }

    /// What the word was.
    pub fn was(&self) -> u64 {
        self.buffer[2]
    }
}

/// How an operation has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has been done.
    Done,
    /// The other side has refused it.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Endpoint {
    /// An endpoint of a memory node, at an address of this machine.
    pub fn serve(provider: &str, host: &str) -> io::Result<Self> {
        Self::of(open(provider, host, true)?, provider)
    }

    /// An endpoint that is to reach an address. Another thread makes it, for some 50 milliseconds: most of that is
    /// memory for libfabric.
    pub async fn reach(provider: &str, host: &str) -> io::Result<Self> {
        let (name, host) = (provider.to_owned(), host.to_owned());
        let opened = tokio::task::spawn_blocking(move || open(&name, &host, false)).await;
        Self::of(opened.map_err(io::Error::other)??, provider)
    }

    fn of(open: Open, provider: &str) -> io::Result<Self> {
        let mut endpoint = Self {
            open: Rc::new(open),
            whole: None,
        };
        let lacks = |what| io::Error::other(format!("libfabric: provider {provider:?} has no {what}"));
        // SAFETY: of an open endpoint.
        if unsafe { cenote_ofi_has_words(endpoint.raw()) } == 0 {
            return Err(lacks("compare-swap and fetch-add of 8 bytes"));
        }
        if provider == PLAIN {
            // SAFETY: of an open endpoint.
            let max = unsafe { cenote_ofi_whole_max(endpoint.raw()) } / 8 * 8;
            if max == 0 {
                return Err(lacks("atomic reads and writes"));
            }
            endpoint.whole = Some(max);
        }
        Ok(endpoint)
    }

    fn raw(&self) -> *mut Opaque {
        self.open.0.as_ptr()
    }

    /// Bytes that one read or write has at most.
    pub fn longest(&self) -> usize {
        self.whole.unwrap_or(1 << 20)
    }

    /// Its address.
    pub fn name(&self) -> io::Result<Vec<u8>> {
        let (mut name, mut len) = (vec![0; NAME_MAX], NAME_MAX);
        // SAFETY: the buffer has as many bytes as `len` says.
        match unsafe { cenote_ofi_name(self.raw(), name.as_mut_ptr().cast(), &mut len) } {
            0 => {
                name.truncate(len);
                Ok(name)
            }
            error => Err(failure("fi_getname", error)),
        }
    }

    /// Another endpoint, by its address.
    pub fn peer(&self, name: &[u8]) -> io::Result<u64> {
        let mut peer = 0;
        // SAFETY: the name has as many bytes as is said, and the shim reads no more.
        match unsafe { cenote_ofi_peer(self.raw(), name.as_ptr().cast(), name.len(), &mut peer) } {
            0 => Ok(peer),
            error => Err(failure("fi_av_insert", error)),
        }
    }

    /// Lets others use memory, by a key: `wanted`, unless the provider chooses keys itself.
    ///
    /// # Safety
    ///
    /// The memory may be read and written until the registration is dropped, and outlives it. Meanwhile nobody else has
    /// a reference to it.
    pub unsafe fn register(&self, memory: *mut u8, len: usize, wanted: u64) -> io::Result<Registration> {
        let (mut mr, mut key, mut base) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the caller's promise; the places for results are ours.
        let error = unsafe {
            cenote_ofi_register(
                self.raw(),
                memory.cast(),
                len,
                wanted,
                &mut mr,
                &mut key,
                &mut base,
            )
        };
        match NonNull::new(mr).filter(|_| error == 0) {
            Some(memory) => Ok(Registration {
                memory,
                remote: Remote { key, base },
                _open: self.open.clone(),
            }),
            None => Err(failure("fi_mr_reg", error)),
        }
    }

    /// Begins an operation. `false`: not now; again after [`Endpoint::poll`].
    ///
    /// # Safety
    ///
    /// If it begins, `flight` stays unchanged and in memory until a completion has its name, or the endpoint is
    /// dropped. Its buffer is that of `kind`.
    pub unsafe fn begin(&self, kind: Kind, place: Place, flight: &mut Flight) -> io::Result<bool> {
        let verb = RawVerb {
            context: flight.context.as_mut_ptr().cast(),
            peer: place.peer,
            key: place.key,
            at: place.at,
            local: flight.buffer.as_mut_ptr().cast(),
            len: flight.len,
        };
        // SAFETY: the caller's promise.
        let error = unsafe {
            match (kind, self.whole) {
                (Kind::Read, None) => cenote_ofi_read(self.raw(), &verb),
                (Kind::Write, None) => cenote_ofi_write(self.raw(), &verb),
                (Kind::Read, Some(_)) => cenote_ofi_read_whole(self.raw(), &verb),
                (Kind::Write, Some(_)) => cenote_ofi_write_whole(self.raw(), &verb),
                (Kind::Swap, _) => cenote_ofi_swap(self.raw(), &verb),
                (Kind::Add, _) => cenote_ofi_add(self.raw(), &verb),
            }
        };
        // SAFETY: compares numbers.
        let is_again = unsafe { cenote_ofi_is_again(error) } != 0;
        match error {
            0 => Ok(true),
            _ if is_again => Ok(false),
            _ => Err(failure("an operation", error)),
        }
    }

    /// Makes progress; the name of an operation that has completed, and how.
    pub fn poll(&self) -> io::Result<Option<(usize, Outcome)>> {
        let (mut context, mut error) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: the places for results are ours.
        match unsafe { cenote_ofi_poll(self.raw(), &mut context, &mut error) } {
            0 => Ok(None),
            1 => {
                // SAFETY: compares numbers.
                let is_refusal = unsafe { cenote_ofi_is_refusal(error) } != 0;
                let outcome = match error {
                    0 => Outcome::Done,
                    _ if is_refusal => Outcome::Refused,
                    _ => Outcome::Unknown,
                };
                Ok(Some((context.addr(), outcome)))
            }
            error => Err(failure("fi_cq_read", error)),
        }
    }

    /// What becomes readable when there may be something to do; to be waited for when [`Endpoint::may_wait`] has said
    /// so.
    pub fn readable(&self) -> io::Result<AsyncFd<Descriptor<'_>>> {
        // SAFETY: the endpoint's file descriptor stays the same and open as long as the endpoint, which is borrowed.
        Ok(unsafe { AsyncFd::register_with_interest(Descriptor(self), Interest::READABLE)? })
    }

    /// Whether nothing is to be done before the file descriptor is readable.
    pub fn may_wait(&self) -> bool {
        // SAFETY: of an open endpoint.
        unsafe { cenote_ofi_may_wait(self.raw()) != 0 }
    }
}

/// The file descriptor of an endpoint, which closes it itself.
pub struct Descriptor<'e>(&'e Endpoint);

impl AsRawFd for Descriptor<'_> {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: of an open endpoint.
        unsafe { cenote_ofi_fd(self.0.raw()) }
    }
}

/// Memory that others may use, until this is dropped.
pub struct Registration {
    memory: NonNull<OpaqueMemory>,
    remote: Remote,
    /// The endpoint is closed after it.
    _open: Rc<Open>,
}

impl Registration {
    /// How others reach the memory.
    pub fn remote(&self) -> Remote {
        self.remote
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered, and not closed yet.
        let error = unsafe { cenote_ofi_unregister(self.memory.as_ptr()) };
        if error != 0 {
            // The memory would stay open to all who had its key.
            eprintln!(
                "{}; this process ends",
                failure("fi_close of a region's memory", error)
            );
            std::process::abort();
        }
    }
}
