//! Which columns of a CSV trace hold what, said as libCacheSim says it:
//! `time-col=2,obj-id-col=5,obj-size-col=4,delimiter=,,has-header=true`.

use std::str::FromStr;

use super::error::Error;

/// The columns of a CSV trace, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The key's column.
    pub id: usize,
    /// The time's, if there is one.
    pub time: Option<usize>,
    /// The value size's, if there is one.
    pub size: Option<usize>,
    /// What parts columns.
    pub delimiter: u8,
    /// Whether the first line names the columns.
    pub header: bool,
    /// Whether keys are numbers, which become keys of 8 bytes; else a key is the text.
    pub numeric: bool,
}

const KNOWN: &str = "time-col, obj-id-col, obj-size-col, obj-id-is-num, delimiter and has-header";

impl FromStr for Columns {
    type Err = Error;

    /// Names with values, commas between. The value of `delimiter` is one character, which may be a comma, or `\t`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unfit = |why: String| Error::Unfit(format!("columns {text:?}: {why}"));
        let (mut id, mut time, mut size) = (None, None, None);
        let (mut delimiter, mut header, mut numeric) = (b',', false, false);
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let Some((name, behind)) = rest.split_once('=') else {
                return Err(unfit(format!("{rest:?} is not of the form name=value")));
            };
            let (value, next) = match name.trim() {
                "delimiter" => split_delimiter(behind),
                _ => behind.split_once(',').unwrap_or((behind, "")),
            };
            let column = || match value.trim().parse() {
                Ok(0) | Err(_) => Err(unfit(format!("{value:?} is no column; they are counted from 1"))),
                Ok(column) => Ok(Some(column)),
            };
            let flag = || match value.trim() {
                "1" | "true" => Ok(true),
                "0" | "false" => Ok(false),
                _ => Err(unfit(format!("{} is true or false, not {value:?}", name.trim()))),
            };
            match name.trim() {
                "time-col" => time = column()?,
                "obj-id-col" => id = column()?,
                "obj-size-col" => size = column()?,
                "obj-id-is-num" => numeric = flag()?,
                "has-header" => header = flag()?,
                "delimiter" => match value.as_bytes() {
                    [byte] if !matches!(byte, b'\n' | b'\r' | b'"') => delimiter = *byte,
                    b"\\t" => delimiter = b'\t',
                    _ => return Err(unfit(format!("the delimiter is one character, not {value:?}"))),
                },
                other => return Err(unfit(format!("{other:?} is unknown; known are {KNOWN}"))),
            }
            rest = next.trim_start();
        }
        match id {
            Some(id) => Ok(Self {
                id,
                time,
                size,
                delimiter,
                header,
                numeric,
            }),
            None => Err(unfit(
                "obj-id-col is missing: it says which column holds the key".to_owned(),
            )),
        }
    }
}

/// A delimiter and what follows behind the comma that ends it. The delimiter may be a comma itself.
fn split_delimiter(behind: &str) -> (&str, &str) {
    let first = behind.chars().next().map_or(0, char::len_utf8);
    match behind.get(first..).and_then(|rest| rest.find(',')) {
        Some(at) => (&behind[..first + at], &behind[first + at + 1..]),
        None => (behind, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_libcachesim_says_it() {
        let columns: Columns = "time-col=2, obj-id-col=5, obj-size-col=4, delimiter=,, has-header=true"
            .parse()
            .unwrap();
        let wanted = Columns {
            id: 5,
            time: Some(2),
            size: Some(4),
            delimiter: b',',
            header: true,
            numeric: false,
        };
        assert_eq!(columns, wanted);
        for (text, delimiter) in [
            ("obj-id-col=5,delimiter=,", b','),
            ("delimiter=,,obj-id-col=5", b','),
            ("delimiter=;,obj-id-col=5,obj-id-is-num=1", b';'),
            ("delimiter=\\t,obj-id-col=5", b'\t'),
            ("delimiter=|, obj-id-col = 5 ,", b'|'),
        ] {
            let columns: Columns = text.parse().unwrap();
            assert_eq!((columns.id, columns.delimiter), (5, delimiter), "{text}");
            assert_eq!(columns.numeric, text.contains("num"));
        }
    }

    #[test]
    fn what_is_no_columns() {
        for (text, word) in [
            ("", "obj-id-col is missing"),
            ("time-col=1", "obj-id-col is missing"),
            ("obj-id-col=0", "counted from 1"),
            ("obj-id-col=x", "counted from 1"),
            ("obj-id-col", "name=value"),
            ("obj-id-col=1,cols=2", "known are"),
            ("obj-id-col=1,has-header=maybe", "true or false"),
            ("obj-id-col=1,delimiter=", "one character"),
            ("obj-id-col=1,delimiter=ab", "one character"),
            ("obj-id-col=1,delimiter=é", "one character"),
        ] {
            let error = text.parse::<Columns>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
