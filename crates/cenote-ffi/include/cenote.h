// Cenote's C interface. cbindgen writes this file from crates/cenote-ffi/src; change that, and then run
//   CENOTE_WRITE_HEADER=1 cargo test -p cenote-ffi --test header

#ifndef CENOTE_H
#define CENOTE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

// A directory lock of a pool: a reader-writer lock together with the regions of the pool that it covers.
typedef struct cenote_dlock cenote_dlock;

// A view of an object: its bytes stay as they are, and where they are, until it is closed.
typedef struct cenote_object_view cenote_object_view;

// An object that is being written, by the thread that made it.
typedef struct cenote_object_writer cenote_object_writer;

// An object store of a pool: byte strings that are written once, and viewed where they are.
typedef struct cenote_objects cenote_objects;

// A pool that the process has open.
typedef struct cenote_pool cenote_pool;

// A reader-writer lock of a pool.
typedef struct cenote_rwlock cenote_rwlock;

// How a pool is created. A field that is 0 means the default.
typedef struct cenote_options {
  // Bytes for data at first; 16 MiB if 0.
  uint64_t size;
  // Bytes that it may grow to; 1 TiB if 0. Address space is reserved for that, memory is not.
  uint64_t max;
  // Processes that may have it open at a time; 128 if 0.
  uint32_t processes;
  // Threads that may use it at a time; 256 if 0. A thread counts once for each eight locks that it holds at a time.
  uint32_t workers;
  // Names that it may have; 256 if 0.
  uint32_t names;
  // Permission bits of the file, whatever the process's umask; 0600 if 0.
  uint32_t mode;
} cenote_options;

// The owner that died with the lock.
typedef struct cenote_former {
  // What it had said last that it was doing; 0 if nothing.
  uint64_t note;
  // The number of its thread among those of the pool.
  uint32_t worker;
  // Which thread of that number it was.
  uint32_t generation;
} cenote_former;

// How an object store is created. A field that is 0 means the default.
typedef struct cenote_objects_options {
  // The most bytes that its objects may occupy, with what surrounds them; as many as the pool has if 0.
  uint64_t quota;
  // The time to live of objects that say none themselves, in milliseconds; for ever if 0.
  uint64_t ttl_ms;
  // If it is not 0, objects that were not viewed lately are evicted when there is no room for a new one.
  int evict;
} cenote_objects_options;

// What a new object has besides its bytes. A field that is 0 means the default.
typedef struct cenote_object_options {
  // Bytes that say what it is; none if null.
  const void *metadata;
  // How many, at most 1 MiB.
  size_t metadata_size;
  // How long it lives, in milliseconds; as long as the store says if 0.
  uint64_t ttl_ms;
  // If it is not 0, the object takes the place of the one that has its id.
  int replace;
} cenote_object_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of this thread's last error; empty if it had none. It is the caller's until this thread's next call that
// fails.
const char *cenote_last_error(void);

// Creates a pool, and opens it. Options may be null.
//
// Errors: EEXIST if the file exists; EINVAL for options or a path that cannot work; ENOMEM, ENOSPC, EFBIG if there is
// no room; what the system says of the path. The pool is null then.
//
// Cost: that of making a file of that size, some milliseconds.
//
// Preconditions: The path ends with a zero; the options are null or such options; there is room for a pointer.
int cenote_pool_create(const char *path,
                       const struct cenote_options *options,
                       struct cenote_pool **pool);

// Opens a pool, and recovers dead processes.
//
// Errors: ENOENT if there is none; EINVAL if it is no pool, one of another version, or one for memory without
// coherence; EACCES if it belongs to somebody else than this process's user and root, or everybody may write it;
// EAGAIN if as many processes have it open as may; EBUSY while it is repaired; EIO if it is damaged; what the system
// says of the path. The pool is null then.
//
// Cost: a mapping and some system calls, below a millisecond if nobody has died.
//
// Preconditions: The path ends with a zero; there is room for a pointer.
int cenote_pool_open(const char *path,
                     struct cenote_pool **pool);

// Opens a pool, and creates it first if there is none. Options may be null; they matter only if it is created.
//
// Errors and cost: those of the other two.
//
// Preconditions: The path ends with a zero; the options are null or such options; there is room for a pointer.
int cenote_pool_open_or_create(const char *path,
                               const struct cenote_options *options,
                               struct cenote_pool **pool);

// Closes a pool. Locks that are open in it stay so. The process gives up its place in the pool when the last lock is
// closed, and each thread that used one has ended or has used a lock that was new to it.
//
// Errors: EINVAL if it is null.
//
// Preconditions: It is null, or it was opened and not closed since, and no other thread uses it.
int cenote_pool_close(struct cenote_pool *pool);

// Opens the reader-writer lock of a name, and makes it if there is none. Each call gives an object of its own; a
// thread uses one of them: by another one it may wait for itself.
//
// Errors: EINVAL if the pool is null, the name is not UTF-8, too long or empty, or it names something else; EAGAIN if
// the pool has no place for another thread or name; ENOMEM if it is full; ESTALE in a child of the process that opened
// the pool. The lock is null then.
//
// Cost: a search of the pool's names, about a microsecond; the thread's first call in this pool also takes its place
// in it, some system calls.
//
// Preconditions: The pool is null or open; the name ends with a zero; there is room for a pointer.
int cenote_rwlock_open(const struct cenote_pool *pool,
                       const char *name,
                       struct cenote_rwlock **lock);

// Closes a lock. It stays in the pool, under its name.
//
// Errors: EINVAL if it is null; EBUSY if this thread has it.
//
// Preconditions: It is null, or it was opened and not closed since, and no other thread has or uses it.
int cenote_rwlock_close(struct cenote_rwlock *lock);

// Takes the lock for reading. Waits while a living thread has it for writing. A thread that reads may ask again, and
// must unlock as often.
//
// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent; what the
// lock protects may be half changed. All readers are told until a writer has repaired it.
//
// Errors: EDEADLK if this thread has it for writing; EAGAIN if the pool has no place for another thread; EIDRM if its
// name was removed; EINVAL if it is null; ESTALE in a child of the process that opened the pool; EIO if the pool is
// damaged.
//
// Cost if nobody writes: an exchange and two loads of shared memory. Waiters sleep.
//
// Preconditions: It is null or open.
int cenote_rwlock_rdlock(struct cenote_rwlock *lock);

// Takes the lock for writing. Waits while a living thread has it.
//
// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent. Look at
// cenote_rwlock_former, repair what the lock protects, and call cenote_rwlock_consistent; or unlock, and the next is
// told the same.
//
// Errors: EDEADLK if this thread has it; else those of cenote_rwlock_rdlock.
//
// Cost if nobody has it: a compare-exchange and a load for each 64 threads that the pool may have. Waiters sleep.
//
// Preconditions: It is null or open.
int cenote_rwlock_wrlock(struct cenote_rwlock *lock);

// Takes the lock for reading if no living thread has it for writing.
//
// Errors: EBUSY if one has, also this one; else those of cenote_rwlock_rdlock, which says what EOWNERDEAD means.
//
// Preconditions: It is null or open.
int cenote_rwlock_tryrdlock(struct cenote_rwlock *lock);

// Takes the lock for writing if no living thread has it.
//
// Errors: EBUSY if one has, also this one; else those of cenote_rwlock_wrlock, which says what EOWNERDEAD means.
//
// Preconditions: It is null or open.
int cenote_rwlock_trywrlock(struct cenote_rwlock *lock);

// Takes the lock for reading, and waits until a moment of CLOCK_REALTIME at most.
//
// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
// cenote_rwlock_rdlock.
//
// Preconditions: The lock is null or open; the moment is null or one.
int cenote_rwlock_timedrdlock(struct cenote_rwlock *lock,
                              const struct timespec *at);

// Takes the lock for writing, and waits until a moment of CLOCK_REALTIME at most.
//
// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
// cenote_rwlock_wrlock.
//
// Preconditions: The lock is null or open; the moment is null or one.
int cenote_rwlock_timedwrlock(struct cenote_rwlock *lock,
                              const struct timespec *at);

// Takes the lock for reading, and waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
//
// Errors: EINVAL if the clock is another one; else those of cenote_rwlock_timedrdlock.
//
// Preconditions: The lock is null or open; the moment is null or one.
int cenote_rwlock_clockrdlock(struct cenote_rwlock *lock,
                              int clock,
                              const struct timespec *at);

// Takes the lock for writing, and waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
//
// Errors: EINVAL if the clock is another one; else those of cenote_rwlock_timedwrlock.
//
// Preconditions: The lock is null or open; the moment is null or one.
int cenote_rwlock_clockwrlock(struct cenote_rwlock *lock,
                              int clock,
                              const struct timespec *at);

// Releases one hold of this thread. If it was told EOWNERDEAD, has the lock for writing, and has not called
// cenote_rwlock_consistent, the next one is told EOWNERDEAD as well, with the same note. Unlike a robust mutex of
// POSIX's the lock never becomes unusable.
//
// A thread that ends with the lock for writing leaves it as a death does.
//
// Errors: EPERM if this thread does not have it; EINVAL if it is null; ESTALE in a child of the process that opened
// the pool.
//
// Cost: a store and a load of shared memory; a system call if a thread sleeps.
//
// Preconditions: It is null or open.
int cenote_rwlock_unlock(struct cenote_rwlock *lock);

// Says that what the lock protects is whole again. For a writer that was told EOWNERDEAD.
//
// Errors: EINVAL if this thread does not have it for writing after EOWNERDEAD, or it is null; EPERM if this thread
// does not have it; ESTALE in a child of the process that opened the pool.
//
// Preconditions: It is null or open.
int cenote_rwlock_consistent(struct cenote_rwlock *lock);

// Leaves a note: a word, of the caller's choice, about what it is doing. If this writer dies, the next owner gets the
// note. 0 when the lock is unlocked.
//
// Errors: EPERM if this thread does not have it for writing; EINVAL if it is null; ESTALE in a child of the process
// that opened the pool.
//
// Cost: a store; a second one in the unlock.
//
// Preconditions: It is null or open.
int cenote_rwlock_note(struct cenote_rwlock *lock,
                       uint64_t note);

// Who died with the lock before this thread got it. For a thread that was told EOWNERDEAD, as long as it has the lock.
//
// Errors: ENOENT if nobody died; EPERM if this thread does not have the lock; EINVAL if a pointer is null; ESTALE in a
// child of the process that opened the pool.
//
// Preconditions: The lock is null or open; there is room for the answer.
int cenote_rwlock_former(struct cenote_rwlock *lock,
                         struct cenote_former *former);

// Opens the directory lock of a name.
//
// Errors: ENOENT if there is none; EINVAL if the pool is null, the name is not UTF-8, too long or empty, or it names
// something else; EAGAIN if the pool has no place for another thread; ESTALE in a child of the process that opened the
// pool; EIO if the pool is damaged. The lock is null then.
//
// Cost: that of cenote_rwlock_open.
//
// Preconditions: The pool is null or open; the name ends with a zero; there is room for a pointer.
int cenote_dlock_open(const struct cenote_pool *pool,
                      const char *name,
                      struct cenote_dlock **lock);

// Opens the directory lock of a name, and makes it if there is none: with so many regions of these sizes in bytes,
// each at a multiple of 64, all zeroes. Each call gives an object of its own; a thread uses one of them.
//
// Errors: EINVAL if the lock exists and covers other regions, if there are more than 1,024 or they have more than 2^40
// bytes together; ENOMEM if the pool has no room for them; EAGAIN if it has none for another name; else those of
// cenote_dlock_open. The lock is null then.
//
// Cost: that of cenote_rwlock_open; if it is made, also that of writing its regions.
//
// Preconditions: The pool is null or open; the name ends with a zero; there are so many sizes; there is room for a pointer.
int cenote_dlock_open_or_create(const struct cenote_pool *pool,
                                const char *name,
                                const uint64_t *sizes,
                                size_t count,
                                struct cenote_dlock **lock);

// Closes a lock. It stays in the pool, under its name.
//
// Errors: EINVAL if it is null; EBUSY if this thread has it.
//
// Preconditions: It is null, or it was opened and not closed since, and no other thread has or uses it.
int cenote_dlock_close(struct cenote_dlock *lock);

// How many regions a lock covers.
//
// Errors: EINVAL if a pointer is null.
//
// Preconditions: The lock is null or open; there is room for the answer.
int cenote_dlock_regions(const struct cenote_dlock *lock, size_t *count);

// How many bytes a region has. Regions are counted from 0.
//
// Errors: EINVAL if a pointer is null, or there is no such region.
//
// Preconditions: The lock is null or open; there is room for the answer.
int cenote_dlock_region_size(const struct cenote_dlock *lock, size_t region, uint64_t *size);

// Takes the lock for reading, and hands out where its first `count` regions are. They are this thread's to read until
// it unlocks. `count` may be 0, and then `regions` null. Waits while a living thread has the lock for writing. A
// thread that reads may ask again, and must unlock as often.
//
// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent; the regions
// may be half changed. All readers are told until a writer has repaired them.
//
// Errors: EINVAL if the lock is null, has fewer regions, or `regions` is null; else those of cenote_rwlock_rdlock.
//
// Cost: that of cenote_rwlock_rdlock, and about 11 ns in which the thread is not to be cancelled.
//
// Preconditions: The lock is null or open; there is room for so many pointers.
int cenote_dlock_rdlock(struct cenote_dlock *lock,
                        const void **regions,
                        size_t count);

// Takes the lock for writing, and hands out where its first `count` regions are. They are this thread's to read and to
// change until it unlocks. `count` may be 0, and then `regions` null. Waits while a living thread has the lock.
//
// Returns 0, or EOWNERDEAD: the lock is taken, but the last writer died with it, or left it inconsistent. Look at
// cenote_dlock_former, repair the regions, and call cenote_dlock_consistent; or unlock, and the next is told the same.
//
// Errors: those of cenote_dlock_rdlock, and EDEADLK if this thread has it.
//
// Cost: that of cenote_rwlock_wrlock, and about 11 ns in which the thread is not to be cancelled.
//
// Preconditions: The lock is null or open; there is room for so many pointers.
int cenote_dlock_wrlock(struct cenote_dlock *lock,
                        void **regions,
                        size_t count);

// cenote_dlock_rdlock if no living thread has it for writing.
//
// Errors: EBUSY if one has, also this one; else those of cenote_dlock_rdlock.
//
// Preconditions: The lock is null or open; there is room for so many pointers.
int cenote_dlock_tryrdlock(struct cenote_dlock *lock, const void **regions, size_t count);

// cenote_dlock_wrlock if no living thread has it.
//
// Errors: EBUSY if one has, also this one; else those of cenote_dlock_wrlock.
//
// Preconditions: The lock is null or open; there is room for so many pointers.
int cenote_dlock_trywrlock(struct cenote_dlock *lock, void **regions, size_t count);

// cenote_dlock_rdlock that waits until a moment of CLOCK_REALTIME at most.
//
// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
// cenote_dlock_rdlock.
//
// Preconditions: The lock is null or open; the moment is null or one; there is room for so many pointers.
int cenote_dlock_timedrdlock(struct cenote_dlock *lock,
                             const struct timespec *at,
                             const void **regions,
                             size_t count);

// cenote_dlock_wrlock that waits until a moment of CLOCK_REALTIME at most.
//
// Errors: ETIMEDOUT if it came first; EINVAL if it is null or has not 0 to 999,999,999 nanoseconds; else those of
// cenote_dlock_wrlock.
//
// Preconditions: The lock is null or open; the moment is null or one; there is room for so many pointers.
int cenote_dlock_timedwrlock(struct cenote_dlock *lock,
                             const struct timespec *at,
                             void **regions,
                             size_t count);

// cenote_dlock_rdlock that waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
//
// Errors: EINVAL if the clock is another one; else those of cenote_dlock_timedrdlock.
//
// Preconditions: The lock is null or open; the moment is null or one; there is room for so many pointers.
int cenote_dlock_clockrdlock(struct cenote_dlock *lock,
                             int clock,
                             const struct timespec *at,
                             const void **regions,
                             size_t count);

// cenote_dlock_wrlock that waits until a moment of a clock at most: CLOCK_REALTIME or CLOCK_MONOTONIC.
//
// Errors: EINVAL if the clock is another one; else those of cenote_dlock_timedwrlock.
//
// Preconditions: The lock is null or open; the moment is null or one; there is room for so many pointers.
int cenote_dlock_clockwrlock(struct cenote_dlock *lock,
                             int clock,
                             const struct timespec *at,
                             void **regions,
                             size_t count);

// Releases one hold of this thread, whose pointers to the regions are void then. If it was told EOWNERDEAD, has the
// lock for writing, and has not called cenote_dlock_consistent, the next one is told EOWNERDEAD as well, with the same
// note. A thread that ends with the lock for writing leaves it as a death does.
//
// Errors: EPERM if this thread does not have it; EINVAL if it is null; ESTALE in a child of the process that opened
// the pool.
//
// Cost: that of cenote_rwlock_unlock.
//
// Preconditions: It is null or open.
int cenote_dlock_unlock(struct cenote_dlock *lock);

// Says that the regions are whole again. For a writer that was told EOWNERDEAD.
//
// Errors: EINVAL if this thread does not have it for writing after EOWNERDEAD, or it is null; EPERM if this thread
// does not have it; ESTALE in a child of the process that opened the pool.
//
// Preconditions: It is null or open.
int cenote_dlock_consistent(struct cenote_dlock *lock);

// Leaves a note: a word, of the caller's choice, about what it is doing. If this writer dies, the next owner gets the
// note. 0 when the lock is unlocked.
//
// Errors: EPERM if this thread does not have it for writing; EINVAL if it is null; ESTALE in a child of the process
// that opened the pool.
//
// Cost: a store; a second one in the unlock.
//
// Preconditions: It is null or open.
int cenote_dlock_note(struct cenote_dlock *lock,
                      uint64_t note);

// Who died with the lock before this thread got it. For a thread that was told EOWNERDEAD, as long as it has the lock.
//
// Errors: ENOENT if nobody died; EPERM if this thread does not have the lock; EINVAL if a pointer is null; ESTALE in a
// child of the process that opened the pool.
//
// Preconditions: The lock is null or open; there is room for the answer.
int cenote_dlock_former(struct cenote_dlock *lock,
                        struct cenote_former *former);

// Opens the object store of a name.
//
// Errors: ENOENT if there is none; EINVAL if the pool is null, the name is not UTF-8, or it names something else;
// EAGAIN if the pool has no place for another thread; ESTALE in a child of the process that opened the pool; EIO if
// the pool is damaged. The store is null then.
//
// Cost: a search of the pool's names, and one of the store.
//
// Preconditions: The pool is null or open; the name ends with a zero; there is room for a pointer.
int cenote_objects_open(const struct cenote_pool *pool,
                        const char *name,
                        struct cenote_objects **objects);

// Opens the object store of a name, and creates it first if there is none. Options may be null; they matter only if it
// is created.
//
// Errors: EINVAL if the name is too long or empty; ENOMEM if the pool has no room; EAGAIN if it has none for another
// name; else those of cenote_objects_open.
//
// Cost: that of cenote_objects_open; if it is created, that of an ordered map.
//
// Preconditions: The pool is null or open; the name ends with a zero; the options are null or such options; there is room for a
// pointer.
int cenote_objects_open_or_create(const struct cenote_pool *pool,
                                  const char *name,
                                  const struct cenote_objects_options *options,
                                  struct cenote_objects **objects);

// Drops the object store of a name. The name is free at once. Who has the store open gets EIDRM from then on; views
// stay as they are; what they show comes back once they are closed and the next store is dropped, by any process.
//
// Errors: EINVAL if the pool is null, or the name is too long or empty, or is that of something that cannot be
// dropped; ENOENT if there is none of the name; else those of cenote_objects_open.
//
// Cost: that of cenote_objects_open, and a removal for each object; if a thread reads all the time, a tenth of a
// second.
//
// Preconditions: The pool is null or open; the name ends with a zero.
int cenote_objects_drop(const struct cenote_pool *pool,
                        const char *name);

// Closes an object store. Views and writers of it stay as they are.
//
// Errors: EINVAL if it is null or closed.
//
// Preconditions: It is null, or open, and no other thread uses it.
int cenote_objects_close(struct cenote_objects *objects);

// Makes an object of these bytes, and seals it. Options may be null.
//
// Errors: EEXIST if there is an object of this id, and it is not to be replaced; ENOMEM if the pool is full, EDQUOT if
// the store's quota is; EINVAL if a pointer is null, the id has more than 4,096 bytes, or the object more than 2^47;
// ESTALE in a child of the process that opened the pool; EIO if the pool is damaged.
//
// Cost: two inserts into an ordered map, a copy of the bytes, two exchanges.
//
// Preconditions: The store is null or open; there are so many bytes, of the id and of the object; the options are null or such
// options.
int cenote_object_put(const struct cenote_objects *objects,
                      const void *id,
                      size_t id_size,
                      const void *data,
                      size_t size,
                      const struct cenote_object_options *options);

// Deletes the object of an id. Its id is free at once; its bytes stay until the last view of it is closed.
//
// Errors: ENOENT if there is none; else those of cenote_object_put.
//
// Cost: two removals from an ordered map, an exchange; if it was ever viewed, a scan of the slots of all processes.
//
// Preconditions: The store is null or open; there are so many bytes of the id.
int cenote_object_delete(const struct cenote_objects *objects,
                         const void *id,
                         size_t id_size);

// Makes an object of so many bytes, which begin at a multiple of 64 and are undefined: what another object had. Nobody
// else sees it until it is sealed. If this process dies before that, the object is gone. A thread seals or aborts its
// objects before it ends: those that it leaves stay until its process ends. Options may be null.
//
// Errors: those of cenote_object_put. Writer and bytes are null then.
//
// Cost: an insert into an ordered map, two exchanges.
//
// Preconditions: The store is null or open; there are so many bytes of the id; the options are null or such options; there is room
// for two pointers. The bytes are not used after the object was sealed or aborted.
int cenote_object_create(const struct cenote_objects *objects,
                         const void *id,
                         size_t id_size,
                         uint64_t size,
                         const struct cenote_object_options *object_options,
                         struct cenote_object_writer **writer,
                         void **data);

// Seals an object: from now on its id finds it, and its bytes do not change any more. The writer is gone, whatever the
// outcome, but for EPERM and EINVAL.
//
// Errors: EEXIST if another one has the id by now, and is not to be replaced: this one is gone; ENOMEM if the pool is
// full, the same; ESTALE in a child of the process that opened the pool, the same; EPERM if another thread has made
// it; EINVAL if it is null, sealed or aborted.
//
// Cost: an insert into an ordered map, a sync store or two.
//
// Preconditions: It is null, or an object that is neither sealed nor aborted; nobody uses its bytes any more.
int cenote_object_seal(struct cenote_object_writer *writer);

// Gives an object up: it is gone, and so is the writer.
//
// Errors: EPERM if another thread has made it; EINVAL if it is null, sealed or aborted.
//
// Cost: a removal from an ordered map, two sync stores.
//
// Preconditions: As of cenote_object_seal.
int cenote_object_abort(struct cenote_object_writer *writer);

// Views the object of an id. If there is none, waits for it as long as `limit` says; not at all if that is null. The
// bytes begin at a multiple of 64; any thread may read them, and close the view.
//
// Errors: ENOENT if there is none, and no limit; ETIMEDOUT if there was none until the time was over; EINVAL if a
// pointer is null, the id has more than 4,096 bytes, or the limit is no time; EAGAIN if the pool has no place for
// another thread; ENOMEM if it has none for the view, as in a process that views for the first time while it is full;
// ESTALE in a child of the process that opened the pool; EIO if the pool is damaged. View and bytes are null then.
//
// Cost: a search of an ordered map, a sequentially consistent store; the first time since eviction came by, an
// exchange.
//
// Preconditions: The store is null or open; there are so many bytes of the id; the limit is null or a time; there is room for two
// pointers and a size. The bytes are not written, and not read after the view is closed.
int cenote_object_get(const struct cenote_objects *objects,
                      const void *id,
                      size_t id_size,
                      const struct timespec *limit,
                      struct cenote_object_view **view,
                      const void **data,
                      uint64_t *size);

// Copies an object's metadata to where there is room for so many bytes, as far as they fit, and says how many there
// are.
//
// Errors: ERANGE if there are more; EINVAL if a pointer is null or the view closed; else those of cenote_object_get.
//
// Cost: two misses, and those of the metadata.
//
// Preconditions: The view is null or open; there is room for so many bytes, and for a size.
int cenote_object_metadata(const struct cenote_object_view *view,
                           void *metadata,
                           size_t room,
                           size_t *size);

// Closes a view. Its bytes may be used for something else then.
//
// Errors: EINVAL if it is null or closed.
//
// Cost: two sync stores and a sync load; if the object is deleted, a scan of the slots of all processes, and if this
// was its last view, its removal.
//
// Preconditions: It is null or open, and no thread reads its bytes any more.
int cenote_object_view_close(struct cenote_object_view *view);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CENOTE_H */
