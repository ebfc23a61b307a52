//! Schedules as text: the decisions of a run, runs of zeroes written as `z` and their length. `z120,3,z5,1` is 120 dull
//! answers, then a 3, five dull ones and a 1. Zeroes at the end count: past the end a thread that waits lets others
//! run.

/// A schedule's text.
pub fn encode(decisions: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut zeroes = 0;
    for &decision in decisions {
        if decision == 0 {
            zeroes += 1;
            continue;
        }
        if zeroes > 0 {
            parts.push(format!("z{zeroes}"));
            zeroes = 0;
        }
        parts.push(decision.to_string());
    }
    if zeroes > 0 {
        parts.push(format!("z{zeroes}"));
    }
    parts.join(",")
}

/// The schedule of a text; the error is the part that is none.
pub fn decode(text: &str) -> Result<Vec<u32>, String> {
    let mut decisions = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || part.to_owned();
        match part.strip_prefix('z') {
            Some(zeroes) => {
                let zeroes: u32 = zeroes.parse().map_err(|_| wrong())?;
                if zeroes > ZEROES_MAX {
                    return Err(wrong());
                }
                decisions.resize(decisions.len() + zeroes as usize, 0);
            }
            None => decisions.push(part.parse().map_err(|_| wrong())?),
        }
    }
    Ok(decisions)
}

/// More than any run takes; keeps a mistyped length from filling memory.
const ZEROES_MAX: u32 = 1 << 26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let decisions = [0, 0, 3, 0, 1, 1, 0, 0];
        assert_eq!(encode(&decisions), "z2,3,z1,1,1,z2");
        assert_eq!(decode("z2,3,z1,1,1,z2").as_deref(), Ok(&decisions[..]));
        assert_eq!(decode(""), Ok(Vec::new()));
        assert_eq!(decode("z2,x"), Err("x".to_owned()));
        assert_eq!(decode("z4294967295"), Err("z4294967295".to_owned()));
    }
}
