//! What it costs to fetch a line past the caches: the unit of other tables, and no figure of Cenote.

use super::{More, Table};
use crate::page::found::Found;
use crate::page::row::Unit;
use crate::subjects::Failure;

pub fn table(result: &Found) -> Result<Table, Failure> {
    let instruction = result.at("instruction")?.text()?;
    let ns = |figure: f64| Unit::Ns.words(Some(figure));
    let load = ns(result.at("load_ns")?.number()?);
    let mut rows = vec![vec!["load".to_owned(), "-".to_owned(), load]];
    let dependent = result.at("dependent_ns")?.numbers()?;
    let back_to_back = result.at("back_to_back_ns")?.numbers()?;
    for (index, (apart, waiting)) in back_to_back.into_iter().zip(dependent).enumerate() {
        let lines = if index == 0 {
            "1 line".to_owned()
        } else {
            format!("{} lines", index + 1)
        };
        rows.push(vec![
            format!("{instruction} + mfence + load of {lines}"),
            ns(apart),
            ns(waiting),
        ]);
    }
    Ok(Table {
        setting: format!(
            "random lines of a file of {} MiB; medians over all accesses",
            result.at("size")?.count()? >> 20
        ),
        rows: Vec::new(),
        more: Some(More {
            words: 1,
            head: vec!["access", "back to back", "each waits for the last"],
            rows,
        }),
    })
}
