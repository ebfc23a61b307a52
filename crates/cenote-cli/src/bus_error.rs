//! Bus errors in pools. If a pool is truncated while a command has it open, the next access to the missing bytes is a
//! bus error, which would end the command without a message. A handler of that signal says what happened, and ends the
//! command with exit code 1. To the other processes that share the pool this is a death like any other.
//!
//! A handler may not allocate and may take no lock, as the thread may have been doing just that. So it builds the
//! message in a buffer on the stack, and makes system calls only. A bus error elsewhere than in a pool ends the command
//! as it would without a handler.

use std::os::fd::RawFd;

use cenote::memory::mapped_at;

/// Room for the message. JSON may need two bytes for one of a name; of a name that does not fit, the end is missing.
const ROOM: usize = 6144;
/// What the kernel says where a processor reports memory that has failed.
const FAILED_MEMORY: [libc::c_int; 2] = [4, 5];

/// Has bus errors in pools explained from now on, as JSON if results are.
pub fn explain(json: bool) {
    let handler: extern "C" fn(_, _, _) = match json {
        true => handle::<true>,
        false => handle::<false>,
    };
    // SAFETY: all zeroes is a valid `sigaction`; the handler has the form that SA_SIGINFO wants, and keeps to what a
    // handler may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        // Without it bus errors are what they were.
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn handle<const JSON: bool>(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel hands over a valid structure. Its address is one if the kernel raised the
    // signal: then its code is positive.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let found = if code > 0 { mapped_at(address) } else { None };
    let Some(pool) = found else {
        // SAFETY: two calls that a handler may make. The signal is blocked until this handler returns, and then ends
        // the process, as does the access that is tried again.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    };
    let mut text = Text::default();
    let (begin, end): (&[u8], &[u8]) = match JSON {
        true => (b"{\"error\": \"", b"\"}\n"),
        false => (b"cenote: ", b"\n"),
    };
    text.plain(begin);
    text.name(pool.descriptor, JSON);
    text.plain(match () {
        () if FAILED_MEMORY.contains(&code) => b": the machine's memory has failed at offset 0x",
        () if is_shorter(pool.descriptor, pool.offset) => {
            b": the pool was truncated while this command had it open: nothing is left at offset 0x"
        }
        () => b": the file system could not give what the pool has at offset 0x",
    });
    text.hexadecimal(pool.offset);
    text.plain(b"; the pool is damaged, create a new one");
    text.plain(end);
    // SAFETY: writes bytes of ours, and ends the process without running anything of it.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.bytes.as_ptr().cast(), text.len);
        libc::_exit(1);
    }
}

/// Whether a file ends before an offset.
fn is_shorter(descriptor: RawFd, offset: u64) -> bool {
    // SAFETY: fills in a structure of ours, for which all zeroes is a valid value.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(descriptor, &mut found) == 0
            && found.st_mode & libc::S_IFMT == libc::S_IFREG
            && (found.st_size as u64) <= offset
    }
}

/// A text that needs no memory but its own. What does not fit is left out.
struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            bytes: [0; ROOM],
            len: 0,
        }
    }
}

impl Text {
    fn plain(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(free) = self.bytes.get_mut(self.len) {
                *free = byte;
                self.len += 1;
            }
        }
    }

    /// The name of what a descriptor is on.
    fn name(&mut self, descriptor: RawFd, is_json: bool) {
        let mut link = Self::default();
        link.plain(b"/proc/self/fd/");
        link.decimal(descriptor.unsigned_abs());
        link.plain(b"\0");
        let mut name = [0u8; 4096];
        // SAFETY: a string that ends with a zero, and a buffer of that length.
        let len = unsafe { libc::readlink(link.bytes.as_ptr().cast(), name.as_mut_ptr().cast(), name.len()) };
        let Ok(len @ 1..) = usize::try_from(len) else {
            return self.plain(b"a pool");
        };
        for chunk in name[..len].utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    // There has to be room for the rest.
                    _ if self.len > ROOM - 256 => return,
                    '"' | '\\' if is_json => self.plain(&[b'\\', character as u8]),
                    // What would act on a terminal.
                    _ if character.is_control() => self.plain(b"?"),
                    _ => self.plain(character.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            if !chunk.invalid().is_empty() {
                self.plain(b"?");
            }
        }
    }

    fn decimal(&mut self, number: u32) {
        if number > 9 {
            self.decimal(number / 10);
        }
        self.plain(&[b'0' + (number % 10) as u8]);
    }

    fn hexadecimal(&mut self, number: u64) {
        if number > 15 {
            self.hexadecimal(number / 16);
        }
        self.plain(&[b"0123456789abcdef"[(number % 16) as usize]]);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_are_said_as_text_and_as_json() {
        let folder = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"a \"b\"\n\\\xc3\xa4\xff");
        let path = folder.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        let said = |is_json| {
            let mut text = Text::default();
            text.name(file.as_raw_fd(), is_json);
            String::from_utf8(text.bytes[..text.len].to_vec()).unwrap()
        };
        assert!(said(false).ends_with("/a \"b\"?\\\u{e4}?"), "{}", said(false));
        let json = format!("\"{}\"", said(true));
        let back: String = serde_json::from_str(&json).unwrap();
        assert_eq!(back, said(false));
    }

    #[test]
    fn numbers_are_said() {
        let mut text = Text::default();
        text.decimal(40_960);
        text.plain(b" ");
        text.hexadecimal(0xf00d);
        assert_eq!(&text.bytes[..text.len], b"40960 f00d");
        text.plain(&[b'x'; ROOM + 1]);
        assert_eq!(text.len, ROOM);
    }
}
