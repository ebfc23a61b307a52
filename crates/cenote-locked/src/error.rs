//! What can go wrong.

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool.
    #[error(transparent)]
    Pool(#[from] cenote::Error),
    /// The lock refused.
    #[error("the lock cannot be taken: {0}")]
    Lock(String),
    /// The lock covers too few bytes for what is to lie there.
    #[error(
        "the lock covers {covered} words of 8 bytes, and word {at} is needed: open it with the sizes that it was made with"
    )]
    Beyond {
        /// The word that is not there.
        at: u64,
        /// How many there are.
        covered: u64,
    },
    /// A setting cannot work.
    #[error("{what} is {value}: {why}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was given.
        value: u64,
        /// What would work.
        why: &'static str,
    },
    /// What is there was made with other sizes.
    #[error(
        "what is there was made with other sizes: {what} is {found}, not {wanted}; open it with those, or use another name"
    )]
    OtherSizes {
        /// Which differs.
        what: &'static str,
        /// What is there.
        found: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// Nothing was loaded, or who did so died.
    #[error("the store is empty, or who loaded it did not come to the end: load it")]
    NotLoaded,
    /// What is there cannot be right.
    #[error("the store is damaged: {what} is {found}")]
    Damaged {
        /// What was read.
        what: &'static str,
        /// What it was.
        found: u64,
    },
    /// A bucket has as many keys as it has room for.
    #[error(
        "bucket {bucket} is full: it has room for {slots} keys; make the table with more buckets or slots"
    )]
    BucketFull {
        /// Its number.
        bucket: u32,
        /// Its room.
        slots: u32,
    },
    /// A value is longer than the table's values may be.
    #[error("a value of {len} bytes: the table was made for {max} at most")]
    ValueTooLong {
        /// Its length.
        len: usize,
        /// The table's limit.
        max: usize,
    },
    /// All orders that a district keeps are undelivered.
    #[error(
        "district {district} of warehouse {warehouse} has no room for another order: none of the {kept} that it keeps is delivered; run a Delivery, or keep more"
    )]
    Full {
        /// The warehouse.
        warehouse: u32,
        /// The district.
        district: u32,
        /// How many it keeps.
        kept: u32,
    },
    /// A row that a transaction was asked for does not exist.
    #[error("there is no {what} {number}")]
    NoSuch {
        /// What.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// A transaction changes more words than the undo record has room for.
    #[error("a transaction changes more than {0} words")]
    UndoFull(u64),
}
