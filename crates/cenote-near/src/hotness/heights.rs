//! From probabilities of classes to heights: each level of a module's L2 takes as many subranges as in a perfect
//! skiplist.

use super::model::CLASSES;

/// Levels of L2 for so many subranges, as many as there are classes at most.
pub(super) fn levels(subranges: usize) -> u8 {
    ((usize::BITS - subranges.leading_zeros()) as u8).clamp(1, CLASSES as u8)
}

/// How many of them have each height, from 1 up. Together they are all.
fn capacities(subranges: usize) -> Vec<usize> {
    let levels = levels(subranges);
    (0..levels)
        .map(|level| {
            let here = subranges >> level;
            let above = if level + 1 == levels {
                0
            } else {
                subranges >> (level + 1)
            };
            here - above
        })
        .collect()
}

/// Half of the levels: those above take a quarter of the subranges or fewer.
pub(super) fn lower(subranges: usize) -> u8 {
    levels(subranges).div_ceil(2)
}

/// A height for each subrange that a module was asked for, by the probabilities of its classes; of the module's
/// subranges there are so many. Those that are expected to be hottest choose first, and one whose level is full takes
/// its second choice, and so on.
pub(super) fn assign(probabilities: &[[f32; CLASSES]], subranges: usize) -> Vec<u8> {
    let mut capacities = capacities(subranges.max(probabilities.len()));
    let expected = |row: &[f32; CLASSES]| {
        (0u8..)
            .zip(row)
            .map(|(class, one)| f32::from(class) * one)
            .sum::<f32>()
    };
    let mut order: Vec<(f32, usize)> = probabilities.iter().map(expected).zip(0..).collect();
    order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut heights = vec![1; probabilities.len()];
    for (_, number) in order {
        let row = &probabilities[number];
        let free = (0..capacities.len()).filter(|level| capacities[*level] > 0);
        if let Some(level) = free.max_by(|one, other| row[*one].total_cmp(&row[*other])) {
            capacities[level] -= 1;
            heights[number] = level as u8 + 1;
        }
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_capacities_of_a_perfect_skiplist() {
        assert_eq!(capacities(1), [1]);
        assert_eq!(capacities(7), [4, 2, 1]);
        assert_eq!(capacities(60), [30, 15, 8, 4, 2, 1]);
        assert_eq!(
            (capacities(1000).len(), capacities(1000).iter().sum::<usize>()),
            (CLASSES, 1000)
        );
    }

    #[test]
    fn who_finds_a_level_full_takes_the_next_best() {
        let row = |classes: [f32; 3]| {
            let mut row = [0.0; CLASSES];
            row[..3].copy_from_slice(&classes);
            row
        };
        // All want the top level, which has room for one; of the others, two like the middle one better.
        let rows = [
            row([0.1, 0.0, 0.9]),
            row([0.3, 0.2, 0.5]),
            row([0.0, 0.1, 0.9]),
            row([0.2, 0.3, 0.5]),
        ];
        assert_eq!(assign(&rows, 7), [1, 1, 3, 2]);
    }
}
