//! The indexes of a district: a customer's last order, and customers by last name.

use super::{Condition, Findings};
use crate::error::Result;
use crate::tpcc::layout::{District, Layout};
use crate::tpcc::random::last_name;
use crate::tpcc::rows::{Text, customer, order};
use crate::words::{Load, text_in};

pub fn check(layout: &Layout, words: &impl Load, of: District, findings: &mut Findings<'_>) -> Result<()> {
    let customers = layout.scale().customers;
    let mut last = vec![0; customers as usize];
    for slot in 0..u64::from(layout.scale().orders) {
        let at = layout.order(of, slot)?;
        let (id, by) = (words.load(at + order::ID)?, words.load(at + order::CUSTOMER)?);
        if id != 0 && layout.customer(of, by).is_ok() {
            let last = &mut last[by as usize - 1];
            *last = id.max(*last);
        }
    }
    for (number, last) in (1..).zip(last) {
        let said = words.load(layout.customer(of, number)? + customer::LAST_ORDER)?;
        // One that has made room is known here alone.
        if last != 0 && last != said {
            let what = format!("the last order of customer {number} is said to be {said}, and is {last}");
            findings.add(Condition::Indexes, what);
        }
    }
    check_names(layout, words, of, findings)
}

/// Each customer is in the index once, among those of the same last name, in the order of first names.
fn check_names(layout: &Layout, words: &impl Load, of: District, findings: &mut Findings<'_>) -> Result<()> {
    let mut wrong = |what: String| findings.add(Condition::Indexes, what);
    let mut found = vec![false; layout.scale().customers as usize];
    for name in 0..layout.scale().names() {
        let begin = words.load(layout.name(of, name)?)?;
        let end = words.load(layout.name(of, name + 1)?)?;
        if begin > end || end > layout.scale().customers.into() {
            wrong(format!(
                "customers of the last name {name} are from {begin} to {end}"
            ));
            continue;
        }
        let wanted = last_name(name);
        let mut before: &[u8] = &[];
        for place in begin..end {
            let number = words.load(layout.by_name(of, place)?)?;
            let Ok(at) = layout.customer(of, number) else {
                wrong(format!("place {place} by last name has customer {number}"));
                continue;
            };
            let text = |column: Text| words.words(at + column.at, column.words).map(text_in);
            let (last, first) = (text(customer::LAST)?, text(customer::FIRST)?);
            if last != wanted.as_bytes() || before > first {
                wrong(format!(
                    "customer {number} is not in order by last name and first name"
                ));
            }
            before = first;
            if std::mem::replace(&mut found[number as usize - 1], true) {
                wrong(format!("customer {number} is twice in the index by last name"));
            }
        }
    }
    if found.contains(&false) {
        wrong("a customer is not in the index by last name".to_owned());
    }
    Ok(())
}
