//! Who has won a round: the three rules of SNAPSHOT (FUSEE, section 4.3, algorithm 2).

use crate::mutant::{self, Mutant};

/// What a writer knows once it has tried to swap all backups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Rule 1: all backups hold its value. It has won.
    All,
    /// Rule 2: more than half of them do. It has won, and makes the others equal.
    Majority,
    /// Rule 3: nobody has more than half, and its value is the smallest. It has won if the round is not over.
    Smallest,
    /// Another has won, or will.
    Lost,
}

/// Judges for the writer of `mine` by what the backups hold: `held` has a value for each backup. Without backups
/// everybody has won, and the primary's swap decides.
pub fn judge(held: &[u64], mine: u64) -> Judgement {
    let count = |value: u64| held.iter().filter(|held| **held == value).count();
    let ours = count(mine);
    if ours == held.len() {
        return Judgement::All;
    }
    if 2 * ours > held.len() || mutant::is(Mutant::HalfIsMajority) && 2 * ours == held.len() {
        return Judgement::Majority;
    }
    let is_decided = held.iter().any(|value| 2 * count(*value) > held.len());
    match !is_decided && held.iter().min() == Some(&mine) {
        true => Judgement::Smallest,
        false => Judgement::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, judge};

    #[test]
    fn rules_are_applied_in_order() {
        assert_eq!(judge(&[], 7), Judgement::All);
        assert_eq!(judge(&[7], 7), Judgement::All);
        assert_eq!(judge(&[8], 7), Judgement::Lost);
        assert_eq!(judge(&[7, 7, 8], 7), Judgement::Majority);
        assert_eq!(judge(&[7, 8, 8], 7), Judgement::Lost);
        assert_eq!(judge(&[7, 8], 7), Judgement::Smallest);
        assert_eq!(judge(&[7, 8], 8), Judgement::Lost);
        assert_eq!(judge(&[8, 9], 7), Judgement::Lost);
    }

    /// Whatever the backups hold, exactly one of those who wrote has won.
    #[test]
    fn there_is_one_winner() {
        for backups in 1..=4_u32 {
            for code in 0..4_u64.pow(backups) {
                let held: Vec<u64> = (0..backups).map(|place| code >> (2 * place) & 3).collect();
                let winners = (0..4).filter(|mine| judge(&held, *mine) != Judgement::Lost);
                assert_eq!(winners.count(), 1, "{held:?}");
            }
        }
    }
}
