//! Keys and values are any bytes; here is how they are written as text.
//!
//! | where | text | other bytes |
//! |---|---|---|
//! | `--hex` | hexadecimal digits | the same |
//! | JSON | `"key": "…"` where they are UTF-8 | `"key_hex": "…"` |
//! | TSV | as they are, but for `\\`, `\t`, `\n`, `\r` | `\xHH` |
//! | a terminal | as TSV | all that is not printable, as `\xHH` |

use serde_json::{Map, Value};

use crate::failure::Failure;

/// How an argument's or a result's bytes are written.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct HexArg {
    /// Keys and values are hexadecimal digits, in arguments and in what is printed
    #[arg(long)]
    pub hex: bool,
}

impl HexArg {
    /// What an argument stands for.
    pub fn decode(self, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
        if !self.hex {
            return Ok(text.as_bytes().to_vec());
        }
        from_hex(text.as_bytes())
            .map_err(|why| Failure::misuse(format!("the {what} {text:?} is not hexadecimal: {why}")))
    }

    /// Bytes for a message.
    pub fn show(self, bytes: &[u8]) -> String {
        if self.hex { to_hex(bytes) } else { brief(bytes) }
    }
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// What hexadecimal digits stand for.
pub fn from_hex(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    if !text.len().is_multiple_of(2) {
        return Err("hexadecimal digits come in pairs, two a byte");
    }
    text.chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect::<Option<_>>()
        .ok_or("only the digits 0 to 9 and a to f are hexadecimal")
}

/// Adds bytes to a JSON object: as `name` if they are text, else as `name_hex`.
pub fn add_to_json(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), to_hex(bytes).into()),
    };
}

/// A pair as a JSON object.
pub fn pair_to_json(key: &[u8], value: &[u8]) -> Value {
    let mut object = Map::new();
    add_to_json(&mut object, "key", key);
    add_to_json(&mut object, "value", value);
    Value::Object(object)
}

/// Appends bytes with the escapes of TSV. With `printable`, everything that a terminal might act on is escaped.
pub fn escape(bytes: &[u8], printable: bool, to: &mut Vec<u8>) {
    let hex = |bytes: &[u8], to: &mut Vec<u8>| {
        for byte in bytes {
            to.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    };
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = char.encode_utf8(&mut utf8).as_bytes();
            match char {
                '\\' => to.extend_from_slice(b"\\\\"),
                '\t' => to.extend_from_slice(b"\\t"),
                '\n' => to.extend_from_slice(b"\\n"),
                '\r' => to.extend_from_slice(b"\\r"),
                // At the start of a file it would be taken for a mark of the encoding.
                '\u{feff}' => hex(utf8, to),
                _ if printable && is_unprintable(char) => hex(utf8, to),
                _ => to.extend_from_slice(utf8),
            }
        }
        hex(chunk.invalid(), to);
    }
}

/// Controls, and the marks that change the direction of the text around them.
fn is_unprintable(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes for a message: escaped, and cut after a few dozen.
pub fn brief(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    escape(&bytes[..bytes.len().min(60)], true, &mut text);
    let dots = if bytes.len() > 60 { "…" } else { "" };
    format!("\"{}{dots}\"", String::from_utf8_lossy(&text))
}

/// Appends what an escaped field stands for.
pub fn unescape(field: &[u8], to: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = field;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        to.extend_from_slice(&rest[..at]);
        let (byte, used) = match &rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', digits @ ..] => {
                let byte = digits.get(..2).and_then(|pair| from_hex(pair).ok());
                (byte.ok_or_else(|| unknown(&rest[at..], 4))?[0], 4)
            }
            _ => return Err(unknown(&rest[at..], 2)),
        };
        to.push(byte);
        rest = &rest[at + used..];
    }
    to.extend_from_slice(rest);
    Ok(())
}

fn unknown(rest: &[u8], len: usize) -> String {
    let shown = String::from_utf8_lossy(&rest[..rest.len().min(len)]).into_owned();
    format!(
        "\"{shown}\" is not an escape (those are \\\\, \\t, \\n, \\r and \\xHH; --raw takes backslashes as they are)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_both_ways() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(to_hex(&all).as_bytes()).unwrap(), all);
        assert_eq!(from_hex(b"").unwrap(), b"");
        assert_eq!(from_hex(b"fF").unwrap(), [255]);
        for bad in ["f", "fg", "+f", "é"] {
            assert!(from_hex(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn escapes_both_ways() {
        let all: Vec<u8> = (0..=255).chain("ö\u{feff}\u{202e}\u{1b}[2J".bytes()).collect();
        for printable in [false, true] {
            let (mut text, mut back) = (Vec::new(), Vec::new());
            escape(&all, printable, &mut text);
            unescape(&text, &mut back).unwrap();
            assert_eq!(back, all);
            assert!(!text.contains(&b'\n') && !text.contains(&b'\t'));
            assert_eq!(text.contains(&0x1b), !printable);
        }
        for bad in [r"\", r"\q", r"\x", r"\x1", r"\xg0"] {
            assert!(unescape(bad.as_bytes(), &mut Vec::new()).is_err(), "{bad}");
        }
    }
}
