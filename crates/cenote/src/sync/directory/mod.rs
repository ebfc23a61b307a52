//! Directory locks: the lock is the coherence transaction (Soul, Yu and others; here for memory that hosts share
//! without coherence).
//!
//! On memory whose caches hardware does not keep coherent, a lock built from loads and compare-exchanges pays for round
//! trips each time, and so does what it protects, which must be written back before each unlock and read afresh after
//! each lock. A directory lock is itself a protocol of coherence, as a directory-based MSI protocol keeps the caches of
//! processors coherent, but for regions of any length, and for as long as a thread holds the lock. The *nodes*, here
//! processes, cache the lock together with its regions until another one asks. So getting a lock again that nobody else
//! wanted costs nothing in the pool.
//!
//! | file | concept |
//! |---|---|
//! | `node` | nodes, and sets of them |
//! | `entry` | the directory entry: who may read, who may write, who holds the queue |
//! | `queue` | the wait queue, and to whom a writer hands the lock over |
//! | `state` | both, as words of a pool |
//! | `layout` | a lock's bytes in a pool |
//! | `transition` | changes of the entry that a crash cannot tear |
//! | `cohort` | what a process has, and how its threads share it |
//! | `driver` | acting for a process: asking, learning, giving up |
//! | `asked` | which locks a process is asked for, for its downconvert thread |
//! | `downconvert` | the process's answers while its threads are elsewhere |
//! | `node_handle` | the handle of a thread on a lock that its process caches |
//! | `inspect` | who has a lock and who waits for it, for people to read |
//! | `lock`, `guard` | the handle for users, on any memory, and its holds |
//! | `messages/` | the other transport: messages to a directory at a memory node |
//! | `service/` | that transport at work: connections, threads, handles for users |
//!
//! `entry` and `queue` are pure: they know neither pools nor messages. The protocol page is
//! `docs/protocols/directory-locks.md`.

pub mod asked;
pub mod cohort;
pub mod downconvert;
pub mod driver;
pub mod entry;
pub mod guard;
pub mod inspect;
pub mod layout;
pub mod lock;
pub mod messages;
pub mod node;
pub mod node_handle;
pub mod queue;
pub mod service;
pub mod state;
pub mod transition;

pub use lock::DirectoryLock;
