// What careless programs do: wrong pointers, paths and sizes, locks that a thread does not have, threads that are cancelled or have small stacks, forks and
// exec with a lock, locks by the thousand. Nothing of it may end the process or hang.
//
// `hostile POOL`, where no pool is yet. It calls itself with a second argument. Prints "all is well", or says which line failed.

#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static const char *path, *self;

static cenote_pool *open_pool(void) {
    cenote_pool *pool;
    IS(0, cenote_pool_open(path, &pool));
    return pool;
}

static cenote_rwlock *open_lock(cenote_pool *pool, const char *name) {
    cenote_rwlock *lock;
    IS(0, cenote_rwlock_open(pool, name, &lock));
    return lock;
}

static cenote_dlock *open_dlock(cenote_pool *pool, const char *name) {
    cenote_dlock *lock;
    uint64_t sizes[] = {100, 0, 4096};
    IS(0, cenote_dlock_open_or_create(pool, name, sizes, 3, &lock));
    return lock;
}

static struct timespec after(clockid_t clock, long milliseconds) {
    struct timespec at;
    clock_gettime(clock, &at);
    at.tv_nsec += milliseconds % 1000 * 1000000;
    at.tv_sec += milliseconds / 1000 + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

#define ODD(type, pointer) ((type *)((char *)(pointer) + 1))

static void wrong_pointers(void) {
    _Alignas(16) static char bytes[256];
    struct timespec at = after(CLOCK_REALTIME, 0);
    cenote_options options = {.size = 1 << 20, .max = 64 << 20};
    cenote_pool *pool;
    IS(EINVAL, cenote_pool_create(path, ODD(cenote_options, bytes), &pool));
    IS(EINVAL, cenote_pool_create(path, &options, ODD(cenote_pool *, bytes)));
    IS(EINVAL, cenote_pool_create(NULL, &options, &pool));
    IS(0, cenote_pool_create(path, &options, &pool));
    cenote_rwlock *lock = open_lock(pool, "a"), *none;
    cenote_dlock *dlock = open_dlock(pool, "d"), *dnone;
    // A pool, a lock of the other kind, zeroes, an odd address and null are no locks.
    void *no_locks[] = {pool, dlock, bytes, ODD(void, bytes), NULL};
    for (int n = 0; n < 5; n++) {
        cenote_rwlock *no_lock = no_locks[n];
        cenote_former former;
        IS(EINVAL, cenote_rwlock_rdlock(no_lock));
        IS(EINVAL, cenote_rwlock_wrlock(no_lock));
        IS(EINVAL, cenote_rwlock_tryrdlock(no_lock));
        IS(EINVAL, cenote_rwlock_trywrlock(no_lock));
        IS(EINVAL, cenote_rwlock_timedrdlock(no_lock, &at));
        IS(EINVAL, cenote_rwlock_timedwrlock(no_lock, &at));
        IS(EINVAL, cenote_rwlock_clockrdlock(no_lock, CLOCK_MONOTONIC, &at));
        IS(EINVAL, cenote_rwlock_clockwrlock(no_lock, CLOCK_MONOTONIC, &at));
        IS(EINVAL, cenote_rwlock_unlock(no_lock));
        IS(EINVAL, cenote_rwlock_consistent(no_lock));
        IS(EINVAL, cenote_rwlock_note(no_lock, 1));
        IS(EINVAL, cenote_rwlock_former(no_lock, &former));
        IS(EINVAL, cenote_rwlock_close(no_lock));
    }
    no_locks[1] = lock;
    for (int n = 0; n < 5; n++) {
        cenote_dlock *no_lock = no_locks[n];
        const void *region;
        void *changed;
        size_t count;
        uint64_t size;
        cenote_former former;
        IS(EINVAL, cenote_dlock_rdlock(no_lock, &region, 1));
        IS(EINVAL, cenote_dlock_wrlock(no_lock, &changed, 1));
        IS(EINVAL, cenote_dlock_tryrdlock(no_lock, &region, 1));
        IS(EINVAL, cenote_dlock_trywrlock(no_lock, &changed, 1));
        IS(EINVAL, cenote_dlock_timedrdlock(no_lock, &at, &region, 1));
        IS(EINVAL, cenote_dlock_timedwrlock(no_lock, &at, &changed, 1));
        IS(EINVAL, cenote_dlock_clockrdlock(no_lock, CLOCK_REALTIME, &at, &region, 1));
        IS(EINVAL, cenote_dlock_clockwrlock(no_lock, CLOCK_REALTIME, &at, &changed, 1));
        IS(EINVAL, cenote_dlock_unlock(no_lock));
        IS(EINVAL, cenote_dlock_consistent(no_lock));
        IS(EINVAL, cenote_dlock_note(no_lock, 1));
        IS(EINVAL, cenote_dlock_former(no_lock, &former));
        IS(EINVAL, cenote_dlock_regions(no_lock, &count));
        IS(EINVAL, cenote_dlock_region_size(no_lock, 0, &size));
        IS(EINVAL, cenote_dlock_close(no_lock));
    }
    IS(EINVAL, cenote_rwlock_open((cenote_pool *)lock, "a", &none));
    IS(EINVAL, cenote_rwlock_open(pool, NULL, &none));
    IS(EINVAL, cenote_rwlock_open(pool, "a", NULL));
    IS(EINVAL, cenote_rwlock_open(pool, "d", &none));
    IS(EINVAL, cenote_dlock_open(pool, "a", &dnone));
    IS(ENOENT, cenote_dlock_open(pool, "none", &dnone));
    IS(EINVAL, cenote_pool_close((cenote_pool *)lock));
    IS(EINVAL, cenote_rwlock_timedrdlock(lock, NULL));
    IS(EINVAL, cenote_rwlock_timedrdlock(lock, ODD(struct timespec, bytes)));
    IS(EINVAL, cenote_rwlock_clockwrlock(lock, CLOCK_PROCESS_CPUTIME_ID, &at));
    IS(EINVAL, cenote_rwlock_clockwrlock(lock, -1, &at));
    IS(0, cenote_rwlock_wrlock(lock));
    IS(EINVAL, cenote_rwlock_timedwrlock(lock, NULL));
    IS(0, cenote_rwlock_unlock(lock));
    IS(EPERM, cenote_rwlock_unlock(lock));
    IS(EPERM, cenote_dlock_unlock(dlock));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_dlock_close(dlock));
    IS(0, cenote_pool_close(pool));
}

static void wrong_sizes(void) {
    cenote_pool *pool = open_pool();
    cenote_dlock *lock, *none;
    uint64_t sizes[2000] = {100, 0, 4096}, huge[] = {UINT64_MAX, UINT64_MAX};
    const void *regions[3];
    size_t count;
    uint64_t size;
    IS(EINVAL, cenote_dlock_open_or_create(pool, "d", sizes, 2, &none));
    IS(EINVAL, cenote_dlock_open_or_create(pool, "d", huge, 1, &none));
    IS(1, none == NULL);
    IS(EINVAL, cenote_dlock_open_or_create(pool, "e", huge, 2, &none));
    IS(EINVAL, cenote_dlock_open_or_create(pool, "e", sizes, 2000, &none));
    IS(EINVAL, cenote_dlock_open_or_create(pool, "e", sizes, SIZE_MAX, &none));
    IS(EINVAL, cenote_dlock_open_or_create(pool, "e", NULL, 1, &none));
    IS(EINVAL, cenote_dlock_open_or_create(pool, "e", ODD(uint64_t, sizes), 1, &none));
    huge[0] = 1ull << 39;
    IS(ENOMEM, cenote_dlock_open_or_create(pool, "e", huge, 1, &none));
    IS(0, cenote_dlock_open(pool, "d", &lock));
    IS(0, cenote_dlock_regions(lock, &count));
    IS(3, count);
    IS(EINVAL, cenote_dlock_regions(lock, NULL));
    IS(0, cenote_dlock_region_size(lock, 2, &size));
    IS(4096, size);
    IS(EINVAL, cenote_dlock_region_size(lock, 3, &size));
    IS(EINVAL, cenote_dlock_region_size(lock, SIZE_MAX, &size));
    IS(EINVAL, cenote_dlock_rdlock(lock, regions, 4));
    IS(EINVAL, cenote_dlock_rdlock(lock, NULL, 1));
    IS(EINVAL, cenote_dlock_rdlock(lock, ODD(const void *, regions), 1));
    // What was refused has left nothing locked.
    IS(EPERM, cenote_dlock_unlock(lock));
    IS(0, cenote_dlock_wrlock(lock, NULL, 0));
    IS(0, cenote_dlock_unlock(lock));
    IS(0, cenote_dlock_close(lock));
    // A lock without regions is a lock.
    IS(0, cenote_dlock_open_or_create(pool, "empty", NULL, 0, &lock));
    IS(0, cenote_dlock_wrlock(lock, NULL, 0));
    IS(EINVAL, cenote_dlock_tryrdlock(lock, regions, 1));
    IS(0, cenote_dlock_unlock(lock));
    IS(0, cenote_dlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

static void wrong_paths(void) {
    char name[PATH_MAX + 100], fifo[PATH_MAX], folder[PATH_MAX];
    cenote_pool *pool;
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    snprintf(folder, sizeof folder, "%s.folder", path);
    IS(0, mkfifo(fifo, 0600));
    IS(0, mkdir(folder, 0700));
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = 0;
    const char *paths[] = {"", "/", ".", fifo, folder, "/dev/null", "/dev/zero", "/proc/self/mem", "/none/none", name};
    for (size_t n = 0; n < sizeof paths / sizeof *paths; n++) {
        IS(1, cenote_pool_open(paths[n], &pool) != 0);
        IS(1, pool == NULL && *cenote_last_error() != 0);
        IS(1, cenote_pool_create(paths[n], NULL, &pool) != 0);
    }
    IS(0, unlink(fifo));
    IS(0, rmdir(folder));
}

// Options from a seed: they work, or are refused.
static void random_options(unsigned seed) {
    char other[PATH_MAX];
    static const uint64_t interesting[] = {0, 1, 4096, 1 << 20, 64 << 20, 1ull << 40, 1ull << 62, UINT64_MAX};
    snprintf(other, sizeof other, "%s.options", path);
    for (int round = 0; round < 60; round++) {
        cenote_options options;
        uint64_t values[6];
        for (int n = 0; n < 6; n++) {
            values[n] = interesting[rand_r(&seed) % 8] + rand_r(&seed) % 3 - 1;
        }
        // No pool that takes the machine's memory, or a second to make.
        options.size = values[0] > 1 << 24 && values[0] < 1ull << 62 ? 1 << 20 : values[0];
        options.max = values[1];
        options.processes = values[2] % 100000;
        options.workers = values[3] % 100000;
        options.names = values[4] % 100000;
        options.mode = values[5];
        cenote_pool *pool;
        int answer = cenote_pool_create(other, &options, &pool);
        if (answer == 0) {
            cenote_rwlock *lock;
            // One worker, or one name, may be too few.
            answer = cenote_rwlock_open(pool, "a", &lock);
            if (answer == 0) {
                IS(0, cenote_rwlock_wrlock(lock));
                IS(0, cenote_rwlock_unlock(lock));
                IS(0, cenote_rwlock_close(lock));
            }
            IS(0, cenote_pool_close(pool));
        }
        if (answer == ENOTRECOVERABLE) {
            fprintf(stderr, "round %d: size %llu max %llu processes %u workers %u names %u mode %o: %s\n", round,
                    (unsigned long long)options.size, (unsigned long long)options.max, options.processes,
                    options.workers, options.names, options.mode, cenote_last_error());
            exit(1);
        }
        unlink(other);
    }
}

// A pool that has no place left: errors, and afterwards all goes on.
static void exhausted(void) {
    char other[PATH_MAX];
    snprintf(other, sizeof other, "%s.small", path);
    cenote_options options = {.size = 1 << 20, .max = 1 << 20, .names = 8, .workers = 4, .processes = 2};
    cenote_pool *pool, *more;
    enum { LOCKS = 9 };
    cenote_rwlock *locks[LOCKS];
    cenote_dlock *dlock;
    IS(0, cenote_pool_create(other, &options, &pool));
    int made = 0;
    char name[16];
    while (made < LOCKS) {
        snprintf(name, sizeof name, "%d", made);
        int answer = cenote_rwlock_open(pool, name, &locks[made]);
        if (answer != 0) {
            IS(EAGAIN, answer);
            break;
        }
        made++;
    }
    IS(1, made > 0 && made < LOCKS);
    for (int n = 0; n < made; n++) {
        IS(0, cenote_rwlock_wrlock(locks[n]));
    }
    for (int n = 0; n < made; n++) {
        IS(0, cenote_rwlock_unlock(locks[n]));
        IS(0, cenote_rwlock_close(locks[n]));
    }
    uint64_t size = 16 << 20;
    IS(EAGAIN, cenote_dlock_open_or_create(pool, "no name is left", &size, 1, &dlock));
    IS(0, cenote_pool_close(pool));
    IS(0, unlink(other));
    options.names = 0;
    IS(0, cenote_pool_create(other, &options, &pool));
    IS(ENOMEM, cenote_dlock_open_or_create(pool, "large", &size, 1, &dlock));
    // Descriptors.
    struct rlimit before, none = {3, 3};
    IS(0, getrlimit(RLIMIT_NOFILE, &before));
    none.rlim_max = before.rlim_max;
    IS(0, setrlimit(RLIMIT_NOFILE, &none));
    IS(EMFILE, cenote_pool_open(other, &more));
    IS(0, setrlimit(RLIMIT_NOFILE, &before));
    // Addresses: a pool reserves as many bytes as it may grow to.
    struct rlimit addresses;
    IS(0, getrlimit(RLIMIT_AS, &addresses));
    none.rlim_cur = 8ull << 30;
    none.rlim_max = addresses.rlim_max;
    IS(0, setrlimit(RLIMIT_AS, &none));
    IS(0, unlink(other));
    IS(ENOMEM, cenote_pool_create(other, NULL, &more));
    IS(0, setrlimit(RLIMIT_AS, &addresses));
    IS(0, cenote_pool_close(pool));
    unlink(other);
}

static cenote_rwlock *shared;
static cenote_dlock *covered;

static void *leaves_with_locks(void *of) {
    (void)of;
    const void *region;
    IS(0, cenote_rwlock_wrlock(shared));
    IS(0, cenote_dlock_rdlock(covered, &region, 1));
    IS(0, cenote_dlock_rdlock(covered, &region, 1));
    return NULL;
}

static void *waits(void *of) {
    (void)of;
    IS(0, cenote_rwlock_wrlock(shared));
    IS(0, cenote_rwlock_unlock(shared));
    pthread_testcancel();
    return "not cancelled";
}

static pthread_barrier_t is_cancelled;

// The thread that calls is to be cancelled from now on, at its next point of cancellation.
static void be_cancelled(void) {
    int before;
    IS(0, pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
    pthread_barrier_wait(&is_cancelled);
    IS(0, pthread_setcancelstate(before, NULL));
}

static void *first_call(void *of) {
    (void)of;
    be_cancelled();
    // Takes this thread's place in the pool: files are opened meanwhile.
    IS(0, cenote_rwlock_rdlock(shared));
    IS(0, cenote_rwlock_unlock(shared));
    pthread_testcancel();
    return "not cancelled";
}

static void *opens(void *of) {
    (void)of;
    be_cancelled();
    cenote_pool *pool = open_pool();
    IS(0, cenote_pool_close(pool));
    pthread_testcancel();
    return "not cancelled";
}

static void *cancelled_with_lock(void *of) {
    (void)of;
    be_cancelled();
    IS(0, cenote_rwlock_wrlock(shared));
    pthread_testcancel();
    return "not cancelled";
}

static void *small_stack(void *of) {
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "small stack");
    int answer = cenote_rwlock_wrlock(lock);
    IS(1, answer == 0 || answer == EOWNERDEAD);
    if (answer == EOWNERDEAD) {
        IS(0, cenote_rwlock_consistent(lock));
    }
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
    return of;
}

static void *run(void *(*thread)(void *), int cancels, pthread_attr_t *attribute) {
    pthread_t other;
    void *result;
    IS(0, pthread_create(&other, attribute, thread, NULL));
    if (cancels) {
        IS(0, pthread_cancel(other));
        pthread_barrier_wait(&is_cancelled);
    }
    IS(0, pthread_join(other, &result));
    return result;
}

static void threads(void) {
    cenote_pool *pool = open_pool();
    shared = open_lock(pool, "threads");
    covered = open_dlock(pool, "threads too");
    IS(0, pthread_barrier_init(&is_cancelled, NULL, 2));
    run(leaves_with_locks, 0, NULL);
    // A thread that ends is like one that dies: its writing is told, its reading is over.
    IS(EOWNERDEAD, cenote_rwlock_wrlock(shared));
    IS(0, cenote_rwlock_consistent(shared));
    IS(0, cenote_rwlock_unlock(shared));
    IS(0, cenote_dlock_trywrlock(covered, NULL, 0));
    IS(0, cenote_dlock_unlock(covered));
    // Cancelled before its first call, in it, and after it.
    for (int round = 0; round < 20; round++) {
        IS(1, run(first_call, 1, NULL) == PTHREAD_CANCELED);
        IS(1, run(opens, 1, NULL) == PTHREAD_CANCELED);
    }
    // Cancelled while it waits: it gets the lock, as with those of POSIX.
    IS(0, cenote_rwlock_wrlock(shared));
    pthread_t waiter;
    void *result;
    IS(0, pthread_create(&waiter, NULL, waits, NULL));
    usleep(50000);
    IS(0, pthread_cancel(waiter));
    usleep(50000);
    IS(0, cenote_rwlock_unlock(shared));
    IS(0, pthread_join(waiter, &result));
    IS(1, result == PTHREAD_CANCELED);
    IS(1, run(cancelled_with_lock, 1, NULL) == PTHREAD_CANCELED);
    IS(EOWNERDEAD, cenote_rwlock_wrlock(shared));
    IS(0, cenote_rwlock_consistent(shared));
    IS(0, cenote_rwlock_unlock(shared));
    // The smallest stack that the page promises.
    pthread_attr_t attribute;
    IS(0, pthread_attr_init(&attribute));
    IS(0, pthread_attr_setstacksize(&attribute, 64 << 10));
    run(small_stack, 0, &attribute);
    IS(0, cenote_rwlock_close(shared));
    IS(0, cenote_dlock_close(covered));
    IS(0, cenote_pool_close(pool));
}

static volatile sig_atomic_t signals, refused_within;

static void on_signal(int number) {
    (void)number;
    int answer = cenote_rwlock_tryrdlock(shared);
    if (answer == 0) {
        IS(0, cenote_rwlock_unlock(shared));
    }
    refused_within += answer == EDEADLK;
    signals++;
}

static void on_signal_idle(int number) {
    (void)number;
    signals++;
}

struct held {
    pthread_barrier_t barrier;
    // The thread that waits is interrupted until it has seen this.
    volatile sig_atomic_t *until;
};

static void *holds_for_a_while(void *of) {
    struct held *held = of;
    IS(0, cenote_rwlock_wrlock(shared));
    pthread_barrier_wait(&held->barrier);
    for (int ms = 0; ms < 100 || (*held->until == 0 && ms < 60000); ms++) {
        usleep(1000);
    }
    IS(0, cenote_rwlock_unlock(shared));
    return NULL;
}

static void signal_handlers(void) {
    cenote_pool *pool = open_pool();
    shared = open_lock(pool, "signals");
    for (int calls = 0; calls < 2; calls++) {
        struct held held = {.until = calls ? &refused_within : &signals};
        pthread_t holder;
        sigset_t set;
        signals = refused_within = 0;
        // Signals come to this thread alone.
        IS(0, sigemptyset(&set));
        IS(0, sigaddset(&set, SIGUSR1));
        IS(0, pthread_sigmask(SIG_BLOCK, &set, NULL));
        IS(0, pthread_barrier_init(&held.barrier, NULL, 2));
        IS(0, pthread_create(&holder, NULL, holds_for_a_while, &held));
        IS(0, pthread_sigmask(SIG_UNBLOCK, &set, NULL));
        pthread_barrier_wait(&held.barrier);
        struct sigaction action = {.sa_handler = calls ? on_signal : on_signal_idle}, before;
        IS(0, sigaction(SIGUSR1, &action, &before));
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec often = {.it_value = {0, 5000000}, .it_interval = {0, 5000000}};
        IS(0, timer_create(CLOCK_MONOTONIC, &event, &timer));
        IS(0, timer_settime(timer, 0, &often, NULL));
        // A wait goes on after a signal.
        IS(0, cenote_rwlock_wrlock(shared));
        IS(0, timer_delete(timer));
        IS(0, cenote_rwlock_unlock(shared));
        IS(1, signals > 0);
        IS(calls, refused_within > 0);
        IS(0, sigaction(SIGUSR1, &before, NULL));
        IS(0, pthread_join(holder, NULL));
        pthread_barrier_destroy(&held.barrier);
    }
    IS(0, cenote_rwlock_close(shared));
    IS(0, cenote_pool_close(pool));
}

static void *ask_far(void *of) {
    // Times that no clock reaches are waited for.
    struct timespec far = {.tv_sec = LONG_MAX, .tv_nsec = 999999999}, past = {.tv_sec = LONG_MIN};
    IS(ETIMEDOUT, cenote_rwlock_timedwrlock(of, &past));
    IS(ETIMEDOUT, cenote_rwlock_clockrdlock(of, CLOCK_MONOTONIC, &past));
    IS(0, cenote_rwlock_timedwrlock(of, &far));
    IS(0, cenote_rwlock_unlock(of));
    IS(0, cenote_rwlock_clockrdlock(of, CLOCK_MONOTONIC, &far));
    IS(0, cenote_rwlock_unlock(of));
    return NULL;
}

static void clocks(void) {
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "clocks");
    IS(0, cenote_rwlock_wrlock(lock));
    pthread_t other;
    IS(0, pthread_create(&other, NULL, ask_far, lock));
    usleep(50000);
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, pthread_join(other, NULL));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

// The child of a fork has nothing of its parent's: neither its end nor what it closes gives the parent's lock away.
static void forks(void) {
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "forks");
    cenote_dlock *dlock = open_dlock(pool, "forks too");
    void *region;
    IS(0, cenote_rwlock_wrlock(lock));
    IS(0, cenote_dlock_wrlock(dlock, &region, 1));
    pid_t child = start();
    if (child == 0) {
        IS(ESTALE, cenote_dlock_unlock(dlock));
        IS(ESTALE, cenote_dlock_note(dlock, 7));
        // It opens the pool itself, and ends as a thread does.
        cenote_pool *own = open_pool();
        cenote_rwlock *other = open_lock(own, "forks");
        IS(EBUSY, cenote_rwlock_trywrlock(other));
        IS(0, cenote_rwlock_close(other));
        other = open_lock(own, "of the child");
        IS(0, cenote_rwlock_wrlock(other));
        pthread_exit(NULL);
    }
    int status;
    IS(child, waitpid(child, &status, 0));
    IS(0, status);
    pid_t closes = start();
    if (closes == 0) {
        IS(0, cenote_dlock_close(dlock));
        IS(0, cenote_rwlock_close(lock));
        IS(0, cenote_pool_close(pool));
        exit(0);
    }
    ends_well(closes);
    pid_t other = start();
    if (other == 0) {
        cenote_pool *own = open_pool();
        IS(EBUSY, cenote_rwlock_trywrlock(open_lock(own, "forks")));
        IS(EBUSY, cenote_dlock_trywrlock(open_dlock(own, "forks too"), NULL, 0));
        IS(EOWNERDEAD, cenote_rwlock_wrlock(open_lock(own, "of the child")));
        exit(0);
    }
    ends_well(other);
    IS(0, cenote_dlock_unlock(dlock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_dlock_close(dlock));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

static volatile int stops;

static void *opens_and_closes(void *of) {
    (void)of;
    while (!stops) {
        cenote_pool *pool = open_pool();
        cenote_rwlock *lock = open_lock(pool, "busy");
        IS(0, cenote_rwlock_rdlock(lock));
        IS(0, cenote_rwlock_unlock(lock));
        IS(0, cenote_rwlock_close(lock));
        IS(0, cenote_pool_close(pool));
    }
    return NULL;
}

// Forks while other threads are within calls: children go on.
static void forks_meanwhile(void) {
    pthread_t others[2];
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "busy");
    for (int n = 0; n < 2; n++) {
        IS(0, pthread_create(&others[n], NULL, opens_and_closes, NULL));
    }
    for (int round = 0; round < 150; round++) {
        pid_t child = start();
        if (child == 0) {
            alarm(20);
            IS(0, cenote_rwlock_close(lock));
            IS(0, cenote_pool_close(pool));
            cenote_pool *own = open_pool();
            cenote_rwlock *other = open_lock(own, "busy");
            IS(0, cenote_rwlock_wrlock(other));
            IS(0, cenote_rwlock_unlock(other));
            _exit(0);
        }
        ends_well(child);
    }
    stops = 1;
    for (int n = 0; n < 2; n++) {
        IS(0, pthread_join(others[n], NULL));
    }
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

// A program that execs with a lock has left it.
static void execs(void) {
    pid_t child = start();
    if (child == 0) {
        cenote_pool *pool = open_pool();
        IS(0, cenote_rwlock_wrlock(open_lock(pool, "exec")));
        execl(self, self, path, "exec", NULL);
        exit(1);
    }
    ends_well(child);
}

static void after_exec(void) {
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "exec");
    struct timespec at = after(CLOCK_MONOTONIC, 10000);
    IS(EOWNERDEAD, cenote_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &at));
    IS(0, cenote_rwlock_consistent(lock));
    IS(0, cenote_rwlock_unlock(lock));
    // Only descriptors of this process are open: none is left of before.
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

// A stopped process is alive: what it has is waited for, and its waiting keeps nobody out.
static void stopped(void) {
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "stopped");
    int ready[2];
    char byte;
    IS(0, pipe(ready));
    IS(0, cenote_rwlock_wrlock(lock));
    pid_t waiters[2];
    for (int n = 0; n < 2; n++) {
        waiters[n] = start();
        if (waiters[n] == 0) {
            lock = open_lock(open_pool(), "stopped");
            IS(1, write(ready[1], "r", 1));
            IS(0, n == 0 ? cenote_rwlock_wrlock(lock) : cenote_rwlock_rdlock(lock));
            IS(0, cenote_rwlock_unlock(lock));
            exit(0);
        }
        IS(1, read(ready[0], &byte, 1));
        usleep(50000);
        IS(0, kill(waiters[n], SIGSTOP));
        IS(waiters[n], waitpid(waiters[n], NULL, WUNTRACED));
    }
    IS(0, cenote_rwlock_unlock(lock));
    // Others pass them.
    pid_t other = start();
    if (other == 0) {
        lock = open_lock(open_pool(), "stopped");
        struct timespec at = after(CLOCK_MONOTONIC, 20000);
        IS(0, cenote_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &at));
        IS(0, cenote_rwlock_unlock(lock));
        exit(0);
    }
    ends_well(other);
    for (int n = 0; n < 2; n++) {
        IS(0, kill(waiters[n], SIGCONT));
        ends_well(waiters[n]);
    }
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

// Thousands of locks, in two pools, all held at a time by one thread.
static void thousands(void) {
    enum { MANY = 1000 };
    static cenote_rwlock *locks[2][MANY];
    char other[PATH_MAX], name[16];
    cenote_options options = {.size = 8 << 20, .max = 64 << 20, .names = MANY + 8, .workers = 256};
    cenote_pool *pools[2];
    for (int p = 0; p < 2; p++) {
        snprintf(other, sizeof other, "%s.many%d", path, p);
        IS(0, cenote_pool_create(other, &options, &pools[p]));
        for (int n = 0; n < MANY; n++) {
            snprintf(name, sizeof name, "%d", n);
            locks[p][n] = open_lock(pools[p], name);
        }
    }
    for (int round = 0; round < 2; round++) {
        for (int p = 0; p < 2; p++) {
            for (int n = 0; n < MANY; n++) {
                IS(0, (n + round) % 2 ? cenote_rwlock_wrlock(locks[p][n]) : cenote_rwlock_rdlock(locks[p][n]));
            }
        }
        for (int p = 0; p < 2; p++) {
            for (int n = MANY - 1; n >= 0; n--) {
                IS(0, cenote_rwlock_unlock(locks[p][n]));
            }
        }
    }
    for (int p = 0; p < 2; p++) {
        for (int n = 0; n < MANY; n++) {
            IS(0, cenote_rwlock_close(locks[p][n]));
        }
        IS(0, cenote_pool_close(pools[p]));
        snprintf(other, sizeof other, "%s.many%d", path, p);
        IS(0, unlink(other));
    }
}

// When the last lock and the pool are closed, the process has nothing open any more.
static int descriptors(void) {
    int count = 0;
    for (int descriptor = 0; descriptor < 256; descriptor++) {
        count += fcntl(descriptor, F_GETFD) >= 0;
    }
    return count;
}

static void closes_all(void) {
    int before = descriptors();
    cenote_pool *pool = open_pool();
    cenote_rwlock *lock = open_lock(pool, "closes");
    IS(0, cenote_rwlock_wrlock(lock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
    IS(before, descriptors());
}

int main(int count, char **arguments) {
    IS(1, count == 2 || count == 3);
    self = arguments[0];
    path = arguments[1];
    alarm(100);
    if (count == 3) {
        after_exec();
        return 0;
    }
    wrong_pointers();
    wrong_sizes();
    wrong_paths();
    unsigned seed = getenv("SEED") ? atoi(getenv("SEED")) : 1;
    random_options(seed);
    exhausted();
    closes_all();
    threads();
    signal_handlers();
    clocks();
    forks();
    execs();
    stopped();
    thousands();
    forks_meanwhile();
    puts("all is well");
    return 0;
}
