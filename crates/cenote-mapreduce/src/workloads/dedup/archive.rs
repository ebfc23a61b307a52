//! The archive's format, and unpacking it. All numbers are little-endian.
//!
//! ```text
//! 0    CENOTEDD
//! 8    version, 1 (4 bytes)
//! 12   CRC-32C of the 8 bytes that follow (4)
//! 16   length of the original (8)
//! 24   records, in the order of the original:
//!      kind (1)  length in the original (4)  XXH3-64 of that (8)
//!      kind 0: the bytes
//!      kind 1: length (4), and so many bytes of a deflate stream
//!      kind 2: where in the original the same bytes are, before this record's (8)
//! ```

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"CENOTEDD";
const VERSION: u32 = 1;
const HEADER: u64 = 24;
const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;
const REFERENCE: u8 = 2;
/// No chunk is longer.
const CHUNK_MAX: u32 = 1 << 20;

pub fn put_header(output: &mut dyn Write, len: u64) -> Result<()> {
    let len = len.to_le_bytes();
    let parts: [&[u8]; 4] = [
        MAGIC,
        &VERSION.to_le_bytes(),
        &crc32c::crc32c(&len).to_le_bytes(),
        &len,
    ];
    output.write_all(&parts.concat()).map_err(Error::Output)
}

fn put_head(records: &mut Vec<u8>, kind: u8, chunk: &[u8]) {
    records.push(kind);
    records.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
    records.extend_from_slice(&xxh3_64(chunk).to_le_bytes());
}

/// A chunk that is elsewhere already.
pub fn put_reference(records: &mut Vec<u8>, chunk: &[u8], first: u64) {
    put_head(records, REFERENCE, chunk);
    records.extend_from_slice(&first.to_le_bytes());
}

/// A chunk's content, compressed if that makes it shorter.
pub fn put_content(records: &mut Vec<u8>, chunk: &[u8]) -> Result<()> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(chunk).and_then(|()| encoder.finish());
    let deflated = deflated.map_err(Error::Output)?;
    if deflated.len() + 4 < chunk.len() {
        put_head(records, DEFLATED, chunk);
        records.extend_from_slice(&(deflated.len() as u32).to_le_bytes());
        records.extend_from_slice(&deflated);
    } else {
        put_head(records, PLAIN, chunk);
        records.extend_from_slice(chunk);
    }
    Ok(())
}

/// An archive that is read from the front.
struct Archive<'p> {
    path: &'p Path,
    file: BufReader<File>,
    at: u64,
}

impl Archive<'_> {
    fn damaged(&self, why: &str) -> Error {
        Error::input(self.path, self.at, why)
    }

    fn bytes(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match self.file.read_exact(&mut bytes) {
            Ok(()) => {
                self.at += len as u64;
                Ok(bytes)
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("the archive ends too soon"))
            }
            Err(error) => Err(Error::file(self.path)(error)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The length of the original.
    fn header(&mut self) -> Result<u64> {
        if self.array::<8>()? != *MAGIC {
            return Err(self.damaged("not an archive: it does not begin with CENOTEDD"));
        }
        if self.u32()? != VERSION {
            return Err(self.damaged("an archive of another version"));
        }
        let sum = self.u32()?;
        let len = self.u64()?;
        match crc32c::crc32c(&len.to_le_bytes()) == sum {
            true => Ok(len),
            false => Err(self.damaged("the archive's header is damaged")),
        }
    }

    /// The content of the next record; `original` has what is before it.
    fn record(&mut self, original: &File, done: u64) -> Result<Vec<u8>> {
        let [kind] = self.array()?;
        let (len, sum) = (self.u32()?, self.u64()?);
        if len == 0 || len > CHUNK_MAX {
            return Err(self.damaged("a record's length"));
        }
        let content = match kind {
            PLAIN => self.bytes(len as usize)?,
            DEFLATED => {
                let deflated = self.u32()?;
                if deflated >= len {
                    return Err(self.damaged("a record's compressed length"));
                }
                let deflated = self.bytes(deflated as usize)?;
                let mut content = Vec::with_capacity(len as usize);
                let mut decoder = DeflateDecoder::new(&deflated[..]).take(u64::from(len) + 1);
                match decoder.read_to_end(&mut content) {
                    Ok(_) => content,
                    Err(_) => return Err(self.damaged("a compressed record")),
                }
            }
            REFERENCE => {
                let first = self.u64()?;
                if first.checked_add(u64::from(len)).is_none_or(|end| end > done) {
                    return Err(self.damaged("a reference to what is not there yet"));
                }
                let mut content = vec![0; len as usize];
                original
                    .read_exact_at(&mut content, first)
                    .map_err(Error::Output)?;
                content
            }
            _ => return Err(self.damaged("a record's kind")),
        };
        match content.len() == len as usize && xxh3_64(&content) == sum {
            true => Ok(content),
            false => Err(self.damaged("a record's content is not what was packed")),
        }
    }
}

/// Unpacks an archive into an empty file that can be read, too; every chunk is compared with its checksum. Returns the
/// length of what was unpacked.
pub fn undedup(archive: &Path, output: &File) -> Result<u64> {
    let file = File::open(archive).map_err(Error::file(archive))?;
    let all = file.metadata().map_err(Error::file(archive))?.len();
    let mut reader = Archive {
        path: archive,
        file: BufReader::with_capacity(1 << 18, file),
        at: 0,
    };
    let len = reader.header()?;
    let mut done = 0;
    while done < len {
        let content = reader.record(output, done)?;
        output.write_all_at(&content, done).map_err(Error::Output)?;
        done += content.len() as u64;
    }
    match done == len && reader.at == all.max(HEADER) {
        true => Ok(len),
        false => Err(reader.damaged("the records are not as long as the original")),
    }
}
