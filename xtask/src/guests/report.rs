//! The result, as a table for people and as JSON.

use super::trial::Row;

/// The head of the table.
pub const HEAD: &str = "\
| memory | pool | what was done to a guest | fenced after | acknowledged | missing | wrong | after the fence | others meanwhile | |
|---|---|---|---:|---:|---:|---:|---:|---:|---|";

/// A row of the table.
pub fn line(row: &Row) -> String {
    let fenced = row
        .fenced_after
        .map_or("not".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
    let remark = match (row.is_good(), row.is_clean) {
        (false, _) => "**bad**",
        (true, Some(_)) => "fsck: clean",
        (true, None) => "",
    };
    format!(
        "| {} | {} | {} | {fenced} | {} | {} | {} | {} | {} | {remark} |",
        row.memory,
        row.kind,
        row.case,
        row.acknowledged,
        row.missing,
        row.wrong,
        row.after_fence,
        row.meanwhile
    )
}

/// The same as an object. Nothing in it needs to be escaped.
pub fn json(row: &Row) -> String {
    let fenced = row
        .fenced_after
        .map_or("null".to_owned(), |time| format!("{:.3}", time.as_secs_f64()));
    let clean = row.is_clean.map_or("null".to_owned(), |clean| clean.to_string());
    format!(
        "{{\"memory\":\"{}\",\"pool\":\"{}\",\"case\":\"{}\",\"to_fence\":{},\"fenced_after_s\":{fenced},\"acknowledged\":{},\
         \"missing\":{},\"wrong\":{},\"after_fence\":{},\"meanwhile\":{},\"fsck_clean\":{clean},\"good\":{}}}",
        row.memory,
        row.kind,
        row.case,
        row.to_fence,
        row.acknowledged,
        row.missing,
        row.wrong,
        row.after_fence,
        row.meanwhile,
        row.is_good()
    )
}
