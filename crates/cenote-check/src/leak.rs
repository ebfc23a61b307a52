//! Leaks: every byte of a pool is in one account, and everything allocated can be reached.
//!
//! **Invariant.** `reachable + free + retired = total`, and no allocated object is unreachable. A smaller sum is lost
//! memory; a larger one is memory that has two owners, which is worse: it will be given out twice.

use std::fmt;

/// The most offsets that a message shows.
const OFFSETS_SHOWN: usize = 8;

/// Where the bytes of a pool are, at a moment at which no thread runs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Account {
    /// In objects that a root leads to, and in tables of fixed place.
    pub reachable: u64,
    /// Known to the allocator as free.
    pub free: u64,
    /// Unlinked, waiting until no reader can hold them.
    pub retired: u64,
    /// In the pool.
    pub total: u64,
    /// The offsets of objects that are allocated, that nothing leads to, and that are not retired.
    pub unreachable: Vec<u64>,
}

/// An account that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Bytes in no account.
    pub missing: u64,
    /// Bytes in more accounts than one.
    pub surplus: u64,
    /// Allocated objects that nothing leads to.
    pub unreachable: Vec<u64>,
    /// The bytes of the pool.
    pub total: u64,
}

impl std::error::Error for Leak {}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.missing > 0 {
            parts.push(format!(
                "{} of {} bytes are neither reachable nor free nor retired",
                self.missing, self.total
            ));
        }
        if self.surplus > 0 {
            parts.push(format!(
                "{} bytes too many for a pool of {}: some are in two accounts",
                self.surplus, self.total
            ));
        }
        if !self.unreachable.is_empty() {
            let shown = self.unreachable.iter().take(OFFSETS_SHOWN);
            let shown: Vec<String> = shown.map(|offset| format!("{offset:#x}")).collect();
            let dots = if self.unreachable.len() > OFFSETS_SHOWN {
                ", ..."
            } else {
                ""
            };
            parts.push(format!(
                "{} allocated objects cannot be reached, at {}{dots}",
                self.unreachable.len(),
                shown.join(", ")
            ));
        }
        write!(f, "{}", parts.join("; "))
    }
}

/// Checks an account.
pub fn check(account: &Account) -> Result<(), Leak> {
    let parts = [account.reachable, account.free, account.retired];
    let counted: u128 = parts.into_iter().map(u128::from).sum();
    let total = u128::from(account.total);
    if counted == total && account.unreachable.is_empty() {
        return Ok(());
    }
    let clamp = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    Err(Leak {
        missing: clamp(total.saturating_sub(counted)),
        surplus: clamp(counted.saturating_sub(total)),
        unreachable: account.unreachable.clone(),
        total: account.total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(reachable: u64, free: u64, retired: u64) -> Account {
        Account {
            reachable,
            free,
            retired,
            total: 4096,
            unreachable: Vec::new(),
        }
    }

    #[test]
    fn an_account_that_adds_up() {
        assert_eq!(check(&account(1000, 3000, 96)), Ok(()));
    }

    #[test]
    fn missing_bytes() {
        let leak = check(&account(1000, 3000, 0)).unwrap_err();
        assert_eq!((leak.missing, leak.surplus), (96, 0));
        assert_eq!(
            leak.to_string(),
            "96 of 4096 bytes are neither reachable nor free nor retired"
        );
    }

    #[test]
    fn bytes_in_two_accounts() {
        let leak = check(&account(u64::MAX, u64::MAX, 96)).unwrap_err();
        assert_eq!((leak.missing, leak.surplus), (0, u64::MAX));
        let leak = check(&account(4096, 64, 0)).unwrap_err();
        assert_eq!(
            leak.to_string(),
            "64 bytes too many for a pool of 4096: some are in two accounts"
        );
    }

    #[test]
    fn unreachable_objects() {
        let mut leaking = account(1000, 3000, 96);
        leaking.unreachable = (1..=10).map(|n| n * 64).collect();
        let message = check(&leaking).unwrap_err().to_string();
        assert!(
            message.starts_with("10 allocated objects cannot be reached, at 0x40, 0x80,"),
            "{message}"
        );
        assert!(message.ends_with("0x200, ..."), "{message}");
    }
}
