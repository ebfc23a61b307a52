//! Which columns of a record are its key and its value.

use crate::failure::Failure;

/// What the user says about columns.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Columns {
    /// The key's column: a number from 1, or a name of the header (or of a JSON field) [default: 1, or "key"]
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<String>,
    /// The value's column, or several with commas between [default: all columns but the key's]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub value: Vec<String>,
    /// The first record names the columns; so it is when --key or --value is a name
    #[arg(long)]
    pub header: bool,
}

impl Columns {
    /// Whether the first record is a header.
    pub fn has_header(&self) -> bool {
        let is_name = |column: &String| column.parse::<usize>().is_err();
        self.header || self.key.iter().chain(&self.value).any(is_name)
    }
}

/// Which fields of a record are its key and its value; positions from 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    key: usize,
    /// `None` for all but the key.
    values: Option<Vec<usize>>,
}

impl Layout {
    /// Finds the columns, by the header where there is one.
    pub fn find(columns: &Columns, header: Option<&[Vec<u8>]>) -> Result<Self, Failure> {
        let place = |column: &String| match column.parse::<usize>() {
            Ok(0) => Err(Failure::misuse(
                "columns are counted from 1; there is no column 0",
            )),
            Ok(number) => Ok(number - 1),
            Err(_) => {
                let names = header.unwrap_or_default();
                names
                    .iter()
                    .position(|name| name == column.as_bytes())
                    .ok_or_else(|| {
                        let known: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
                        Failure::misuse(format!(
                            "the header has no column {column:?}; it has {}",
                            known.join(", ")
                        ))
                    })
            }
        };
        let key = columns.key.as_ref().map_or(Ok(0), place)?;
        let values: Vec<_> = columns.value.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Self {
            key,
            values: (!values.is_empty()).then_some(values),
        })
    }

    /// A record's key, and the fields of its value.
    pub fn pick<'f>(&self, fields: &[&'f [u8]]) -> Result<(&'f [u8], Vec<&'f [u8]>), String> {
        let field = |place: usize, what: &str| {
            fields.get(place).copied().ok_or_else(|| {
                let has = fields.len();
                format!(
                    "it has {has} column{}, {what} is column {}",
                    if has == 1 { "" } else { "s" },
                    place + 1
                )
            })
        };
        let key = field(self.key, "the key")?;
        let values = match &self.values {
            Some(places) => places
                .iter()
                .map(|place| field(*place, "a value"))
                .collect::<Result<_, _>>()?,
            None => {
                let others = fields.iter().enumerate().filter(|(place, _)| *place != self.key);
                others.map(|(_, field)| *field).collect()
            }
        };
        Ok((key, values))
    }
}
