// Processes that share data under directory locks; one is killed in the middle of a change.
//
// The only argument is the path of a pool that does not exist yet. Prints "all is well", or says which line failed.

#include "check.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static const char *path;

enum { ACCOUNTS = 16, EACH = 1000, PROCESSES = 3, ROUNDS = 1500 };

// The first region; the second has the accounts.
struct head {
    uint64_t changes;
    uint64_t from, to, amount;
};

static const uint64_t SIZES[] = {sizeof(struct head), ACCOUNTS * sizeof(int64_t)};

static cenote_dlock *bank(cenote_pool **pool) {
    cenote_dlock *lock;
    IS(0, cenote_pool_open(path, pool));
    IS(0, cenote_dlock_open_or_create(*pool, "bank", SIZES, 2, &lock));
    return lock;
}

static void done(cenote_dlock *lock, cenote_pool *pool) {
    IS(0, cenote_dlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

static int64_t sum_of(const int64_t *accounts) {
    int64_t sum = 0;
    for (int n = 0; n < ACCOUNTS; n++) {
        sum += accounts[n];
    }
    return sum;
}

static void make(void) {
    cenote_pool *pool;
    cenote_dlock *lock, *again;
    void *regions[2];
    size_t count;
    uint64_t size;
    IS(0, cenote_pool_create(path, NULL, &pool));
    IS(ENOENT, cenote_dlock_open(pool, "bank", &lock));
    IS(0, cenote_dlock_open_or_create(pool, "bank", SIZES, 2, &lock));
    IS(0, cenote_dlock_open(pool, "bank", &again));
    IS(0, cenote_dlock_regions(again, &count));
    IS(2, count);
    IS(0, cenote_dlock_region_size(again, 1, &size));
    IS(SIZES[1], size);
    IS(0, cenote_dlock_wrlock(lock, regions, 2));
    IS(EDEADLK, cenote_dlock_rdlock(lock, NULL, 0));
    IS(EBUSY, cenote_dlock_trywrlock(lock, NULL, 0));
    IS(EBUSY, cenote_dlock_close(lock));
    int64_t *accounts = regions[1];
    IS(0, (uintptr_t)accounts % 64);
    for (int n = 0; n < ACCOUNTS; n++) {
        IS(0, accounts[n]);
        accounts[n] = EACH;
    }
    IS(0, cenote_dlock_unlock(lock));
    const void *read[2];
    IS(0, cenote_dlock_rdlock(again, read, 2));
    IS(0, cenote_dlock_rdlock(again, NULL, 0));
    IS(1, read[1] == accounts);
    IS(0, cenote_dlock_unlock(again));
    IS(EPERM, cenote_dlock_note(again, 1));
    IS(0, cenote_dlock_unlock(again));
    IS(EPERM, cenote_dlock_unlock(again));
    IS(0, cenote_dlock_close(again));
    done(lock, pool);
}

static void move(void *regions[2], unsigned *seed) {
    struct head *head = regions[0];
    int64_t *accounts = regions[1];
    head->from = rand_r(seed) % ACCOUNTS;
    head->to = rand_r(seed) % ACCOUNTS;
    head->amount = rand_r(seed) % 100;
    accounts[head->from] -= head->amount;
    accounts[head->to] += head->amount;
    head->changes++;
}

static void moves(void) {
    pid_t children[PROCESSES];
    for (int n = 0; n < PROCESSES; n++) {
        children[n] = start();
        if (children[n] == 0) {
            cenote_pool *pool;
            cenote_dlock *lock = bank(&pool);
            unsigned seed = n;
            for (int round = 0; round < ROUNDS; round++) {
                void *regions[2];
                const void *read[2];
                IS(0, cenote_dlock_wrlock(lock, regions, 2));
                move(regions, &seed);
                IS(0, cenote_dlock_unlock(lock));
                IS(0, cenote_dlock_rdlock(lock, read, 2));
                IS(ACCOUNTS * EACH, sum_of(read[1]));
                IS(0, cenote_dlock_unlock(lock));
            }
            done(lock, pool);
            exit(0);
        }
    }
    for (int n = 0; n < PROCESSES; n++) {
        ends_well(children[n]);
    }
    cenote_pool *pool;
    cenote_dlock *lock = bank(&pool);
    const void *read[2];
    IS(0, cenote_dlock_tryrdlock(lock, read, 2));
    const struct head *head = read[0];
    IS(PROCESSES * ROUNDS, head->changes);
    IS(0, cenote_dlock_unlock(lock));
    done(lock, pool);
}

static void killed(void) {
    int ready[2];
    char byte;
    cenote_pool *pool;
    cenote_dlock *lock;
    IS(0, pipe(ready));
    pid_t owner = start();
    if (owner == 0) {
        lock = bank(&pool);
        void *regions[2];
        IS(0, cenote_dlock_wrlock(lock, regions, 2));
        struct head *head = regions[0];
        int64_t *accounts = regions[1];
        head->from = 3;
        head->to = 4;
        head->amount = 50;
        IS(0, cenote_dlock_note(lock, 42));
        accounts[head->from] -= head->amount;
        IS(1, write(ready[1], "o", 1));
        pause();
    }
    IS(1, read(ready[0], &byte, 1));
    lock = bank(&pool);
    struct timespec at;
    void *regions[2];
    const void *seen[2];
    cenote_former former;
    clock_gettime(CLOCK_MONOTONIC, &at);
    IS(ETIMEDOUT, cenote_dlock_clockrdlock(lock, CLOCK_MONOTONIC, &at, seen, 2));
    IS(ETIMEDOUT, cenote_dlock_clockwrlock(lock, CLOCK_MONOTONIC, &at, regions, 2));
    clock_gettime(CLOCK_REALTIME, &at);
    IS(ETIMEDOUT, cenote_dlock_timedrdlock(lock, &at, seen, 2));
    at.tv_nsec = 1000000000;
    IS(EINVAL, cenote_dlock_timedwrlock(lock, &at, regions, 2));
    IS(EBUSY, cenote_dlock_tryrdlock(lock, seen, 2));
    IS(0, kill(owner, SIGKILL));
    IS(owner, waitpid(owner, NULL, 0));
    // A reader is told, and cannot say that all is well again.
    IS(EOWNERDEAD, cenote_dlock_rdlock(lock, seen, 2));
    IS(ACCOUNTS * EACH - 50, sum_of(seen[1]));
    IS(EINVAL, cenote_dlock_consistent(lock));
    IS(0, cenote_dlock_unlock(lock));
    // A writer that repairs nothing leaves it to the next one.
    IS(EOWNERDEAD, cenote_dlock_wrlock(lock, NULL, 0));
    IS(0, cenote_dlock_unlock(lock));
    IS(EOWNERDEAD, cenote_dlock_trywrlock(lock, regions, 2));
    IS(0, cenote_dlock_former(lock, &former));
    IS(42, former.note);
    const struct head *head = regions[0];
    int64_t *accounts = regions[1];
    accounts[head->from] += head->amount;
    IS(0, cenote_dlock_consistent(lock));
    IS(EINVAL, cenote_dlock_consistent(lock));
    IS(0, cenote_dlock_unlock(lock));
    IS(0, cenote_dlock_rdlock(lock, seen, 2));
    IS(ACCOUNTS * EACH, sum_of(seen[1]));
    IS(ENOENT, cenote_dlock_former(lock, &former));
    IS(0, cenote_dlock_unlock(lock));
    done(lock, pool);
    close(ready[0]);
    close(ready[1]);
}

int main(int count, char **arguments) {
    IS(2, count);
    path = arguments[1];
    alarm(100);
    make();
    moves();
    killed();
    puts("all is well");
    return 0;
}
