//! Traces come plain or packed by gzip or Zstandard; a file's name says which.
//!
//! A Zstandard file may consist of several frames, and of frames to skip; both are legal, and parallel packers make
//! them. The decoder reads one frame at a time, so [`Frames`] goes from one to the next. It also compares checksums,
//! which the decoder only computes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const BUFFER: usize = 1 << 18;

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// By gzip; `.gz`.
    Gzip,
    /// By Zstandard; `.zst` or `.zstd`.
    Zstd,
}

impl Packing {
    /// What a file's name says.
    pub fn of(file: &Path) -> Self {
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        match &*extension.to_ascii_lowercase() {
            "gz" => Self::Gzip,
            "zst" | "zstd" => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// Reads what was packed.
    pub fn unpack<'r>(self, packed: impl BufRead + 'r) -> Box<dyn BufRead + 'r> {
        match self {
            Self::Plain => Box::new(packed),
            Self::Gzip => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(packed))),
            Self::Zstd => Box::new(BufReader::with_capacity(BUFFER, Frames::new(packed))),
        }
    }
}

/// Opens a file and reads what is packed in it.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = BufReader::with_capacity(BUFFER, File::open(path)?);
    Ok(Packing::of(path).unpack(file))
}

/// The frames of a Zstandard file, one behind the other.
struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    /// Whether the decoder is in a frame.
    within: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(packed: R) -> Self {
        Self {
            packed,
            decoder: FrameDecoder::new(),
            within: false,
        }
    }

    /// Begins the next frame; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.packed).take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn check(&self) -> io::Result<()> {
        match self.decoder.get_checksum_from_data() {
            Some(sum) if self.decoder.get_calculated_checksum() != Some(sum) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum of a Zstandard frame is not that of its content",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within {
                self.within = self.begin()?;
                if !self.within {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.check()?;
            self.within = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn unpacked(packing: Packing, packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        packing.unpack(packed).read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn names_say_how() {
        for (name, packing) in [
            ("cluster52.0.zst", Packing::Zstd),
            ("a.csv.GZ", Packing::Gzip),
            ("a.oracleGeneral.zstd", Packing::Zstd),
            ("cluster052", Packing::Plain),
            ("zst", Packing::Plain),
        ] {
            assert_eq!(Packing::of(Path::new(name)), packing, "{name}");
        }
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        let content: Vec<u8> = (0..300_000u32).map(|n| (n / 7 % 251) as u8).collect();
        let gzip = |content: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        };
        let (first, second) = content.split_at(100_000);
        let skip = [&0x184d_2a53u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        for (packing, packed) in [
            (Packing::Plain, content.clone()),
            (Packing::Gzip, [gzip(first), gzip(second)].concat()),
            (Packing::Zstd, zstd(&content)),
            (
                Packing::Zstd,
                [&*skip, &zstd(first), &skip, &zstd(second), &skip].concat(),
            ),
        ] {
            assert!(unpacked(packing, &packed).unwrap() == content, "{packing:?}");
            if packing != Packing::Plain {
                assert!(unpacked(packing, &packed[..packed.len() - 1]).is_err());
            }
        }
        assert_eq!(unpacked(Packing::Zstd, b"").unwrap(), b"");
        assert!(unpacked(Packing::Zstd, b"plain text").is_err());
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let packed = zstd(b"1583990400,key,3,10,1,get,0\n");
        let sum = packed.len() - 1;
        for at in [sum, sum - 8] {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            assert!(unpacked(Packing::Zstd, &damaged).is_err(), "byte {at}");
        }
    }
}
