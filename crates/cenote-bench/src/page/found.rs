//! A value of a result file that knows where it was found, so that what is wrong with it can be said.

use crate::subjects::Failure;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which file, and of what.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The file's path as it was given.
    pub file: &'a str,
    /// The command whose result it holds.
    pub command: &'a str,
}

/// A value and the path to it.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    value: &'a Value,
    origin: Origin<'a>,
    path: String,
}

impl<'a> Found<'a> {
    /// All of a file.
    pub const fn root(value: &'a Value, origin: Origin<'a>) -> Self {
        Self {
            value,
            origin,
            path: String::new(),
        }
    }

    /// The value under a name.
    pub fn at(&self, name: &str) -> Result<Self, Failure> {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        match self.value.get(name) {
            Some(value) => Ok(Self {
                value,
                origin: self.origin,
                path,
            }),
            None => Err(self.origin.wrong(&path, "is missing")),
        }
    }

    /// The values of a list.
    pub fn items(&self) -> Result<Vec<Self>, Failure> {
        let items = self.value.as_array().ok_or_else(|| self.is_no("list"))?;
        let item = |(index, value)| Self {
            value,
            origin: self.origin,
            path: format!("{}[{index}]", self.path),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The value at a place of a list.
    pub fn place(&self, place: usize) -> Result<Self, Failure> {
        let item = self.items()?.into_iter().nth(place);
        item.ok_or_else(|| {
            self.origin
                .wrong(&format!("{}[{place}]", self.path), "is missing")
        })
    }

    /// The item of a list whose `name` is this text.
    pub fn item(&self, name: &str, text: &str) -> Result<Self, Failure> {
        for item in self.items()? {
            if item.at(name)?.text()? == text {
                return Ok(item);
            }
        }
        let what = format!("has nothing whose {name} is \"{text}\"");
        Err(self.origin.wrong(&self.path, &what))
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, Failure> {
        self.value.as_str().ok_or_else(|| self.is_no("text"))
    }

    /// A text that may be null.
    pub fn text_if_any(&self) -> Result<Option<&'a str>, Failure> {
        if self.value.is_null() {
            Ok(None)
        } else {
            self.text().map(Some)
        }
    }

    /// A number.
    pub fn number(&self) -> Result<f64, Failure> {
        self.value.as_f64().ok_or_else(|| self.is_no("number"))
    }

    /// A count.
    pub fn count(&self) -> Result<u64, Failure> {
        self.value.as_u64().ok_or_else(|| self.is_no("count"))
    }

    /// The numbers of a list.
    pub fn numbers(&self) -> Result<Vec<f64>, Failure> {
        self.items()?.iter().map(Self::number).collect()
    }

    /// Something that the program itself has written.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(self.value).map_err(|error| {
            self.origin
                .wrong(&self.path, &format!("cannot be read ({error})"))
        })
    }

    #[cold]
    fn is_no(&self, kind: &str) -> Failure {
        self.origin.wrong(&self.path, &format!("is no {kind}"))
    }
}

impl Origin<'_> {
    /// What is wrong, where, and what to do.
    #[cold]
    fn wrong(&self, path: &str, what: &str) -> Failure {
        let Self { file, command } = self;
        let place = if path.is_empty() { "the whole" } else { path };
        Failure::Broken(format!(
            "{file}: {place} {what}; measure again: cargo run --release -p cenote-bench -- {command} --json > {file}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ORIGIN: Origin = Origin {
        file: "x.json",
        command: "hash",
    };

    #[test]
    fn an_error_says_what_and_where_and_what_to_do() {
        let value = json!({ "rows": [{ "name": "a", "ns": [1.5, null] }] });
        let root = Found::root(&value, ORIGIN);
        let row = root
            .at("rows")
            .and_then(|rows| rows.item("name", "a"))
            .expect("it is there");
        let again = "; measure again: cargo run --release -p cenote-bench -- hash --json > x.json";
        let wrong = [
            (row.at("us").map(drop), "rows[0].us is missing"),
            (
                row.at("ns").and_then(|ns| ns.numbers()).map(drop),
                "rows[0].ns[1] is no number",
            ),
            (
                row.at("ns").and_then(|ns| ns.place(2)).map(drop),
                "rows[0].ns[2] is missing",
            ),
            (row.items().map(drop), "rows[0] is no list"),
            (root.text().map(drop), "the whole is no text"),
            (
                root.at("rows").and_then(|rows| rows.item("name", "b")).map(drop),
                "rows has nothing whose name is \"b\"",
            ),
        ];
        for (outcome, said) in wrong {
            let error = outcome.expect_err(said).to_string();
            assert_eq!(error, format!("x.json: {said}{again}"));
        }
    }
}
