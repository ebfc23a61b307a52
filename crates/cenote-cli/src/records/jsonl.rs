//! JSON lines: an object a line.
//!
//! The key is a field's content: the text of a string, else its JSON. `FIELD_hex` in place of `FIELD` holds any bytes
//! as hexadecimal digits. No field of an object is there twice. A value of one field is its content, too. One of
//! several fields, and one of all that is left if that is not just `value` or `value_hex`, is a JSON object of them,
//! each written as it came.

use std::collections::HashSet;
use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::layout::Columns;
use super::{Next, Pair, Source, read_line};
use crate::bytes::from_hex;
use crate::failure::Failure;

/// Reads JSON lines.
pub struct Reader<'r> {
    input: Box<dyn BufRead + 'r>,
    key: String,
    values: Vec<String>,
    line: Vec<u8>,
    number: u64,
}

/// An object's fields in their order.
struct Fields<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Fields<'t> {
    fn deserialize<D: serde::Deserializer<'t>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'t> Visitor<'t> for InOrder {
            type Value = Fields<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Fields<'t>, A::Error> {
                let mut fields = Vec::new();
                let mut names = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("the field {name:?} is there twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Appends a field's content.
fn append(name: &str, field: &RawValue, to: &mut Vec<u8>) -> Result<(), String> {
    if !field.get().starts_with('"') {
        to.extend_from_slice(field.get().as_bytes());
        return Ok(());
    }
    let text: String = serde_json::from_str(field.get()).map_err(|error| error.to_string())?;
    if name.ends_with("_hex") {
        to.extend(from_hex(text.as_bytes()).map_err(|why| format!("{name}: {why}"))?);
    } else {
        to.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

impl<'t> Fields<'t> {
    /// Takes the field of a name, or the one of that name and `_hex`, out.
    fn take(&mut self, name: &str) -> Result<(String, &'t RawValue), String> {
        let is_it = |field: &str| field == name || field.strip_suffix("_hex") == Some(name);
        match self.0.iter().position(|(field, _)| is_it(field)) {
            Some(place) => Ok(self.0.remove(place)),
            None => Err(format!("it has no field {name:?}")),
        }
    }

    fn append_object(self, to: &mut Vec<u8>) -> Result<(), String> {
        to.push(b'{');
        for (n, (name, field)) in self.0.into_iter().enumerate() {
            if n > 0 {
                to.push(b',');
            }
            serde_json::to_writer(&mut *to, &name).map_err(|error| error.to_string())?;
            to.push(b':');
            to.extend_from_slice(field.get().as_bytes());
        }
        to.push(b'}');
        Ok(())
    }
}

impl<'r> Reader<'r> {
    /// Fields have names here; the header and column numbers have no meaning.
    pub fn new(columns: &Columns, input: Box<dyn BufRead + 'r>) -> Result<Self, Failure> {
        if columns.header {
            return Err(Failure::misuse("JSON lines have no header; leave --header out"));
        }
        let key = columns.key.clone().unwrap_or_else(|| "key".to_owned());
        Ok(Self {
            input,
            key,
            values: columns.value.clone(),
            line: Vec::new(),
            number: 0,
        })
    }

    fn parse(&self, pair: &mut Pair) -> Result<(), String> {
        let mut fields: Fields<'_> = serde_json::from_slice(&self.line).map_err(|error| {
            let text = error.to_string();
            // serde_json counts lines, too, and here it always says 1.
            text.replace("line 1 column", "column")
        })?;
        let (name, key) = fields.take(&self.key)?;
        append(&name, key, &mut pair.key)?;
        match &self.values[..] {
            [] if fields.0.len() == 1 && matches!(&*fields.0[0].0, "value" | "value_hex") => {
                append(&fields.0[0].0, fields.0[0].1, &mut pair.value)
            }
            [] => fields.append_object(&mut pair.value),
            [name] => {
                let (name, value) = fields.take(name)?;
                append(&name, value, &mut pair.value)
            }
            names => {
                let chosen = names
                    .iter()
                    .map(|name| fields.take(name))
                    .collect::<Result<_, _>>()?;
                Fields(chosen).append_object(&mut pair.value)
            }
        }
    }
}

impl Source for Reader<'_> {
    fn next(&mut self, pair: &mut Pair) -> Result<Next, Failure> {
        loop {
            if !read_line(&mut self.input, &mut self.line, &mut self.number)? {
                return Ok(Next::End);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        pair.key.clear();
        pair.value.clear();
        Ok(match self.parse(pair) {
            Ok(()) => Next::Pair,
            Err(why) => Next::Bad {
                line: self.number,
                why,
            },
        })
    }
}
