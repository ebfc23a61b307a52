// Processes and their threads take locks at random, and are killed or stopped at any moment; others go on, and are told of the dead.
//
// `kills POOL SECONDS SEED`, where no pool is yet. Each lock covers a region in which two words are equal unless a writer is in it. A writer that finds them different, and
// was not told that one has died, has found a defect. Prints how much was done and "all is well", or says what failed.

#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LOCKS = 4, PROCESSES = 4, THREADS = 2 };

// What all processes count. Memory of its own, so that it does not depend on what is tested.
struct counts {
    volatile long writes, reads, recovered, timeouts, kills;
    // Who is in each of the locks that cover nothing.
    volatile long first[LOCKS], second[LOCKS];
};

static struct counts *counts;
static const char *path;

static void more(volatile long *count) {
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

struct locks {
    cenote_rwlock *alone[LOCKS];
    cenote_dlock *covering[LOCKS];
};

static struct timespec soon(unsigned *seed) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += rand_r(seed) % 3000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void linger(unsigned *seed) {
    if (rand_r(seed) % 64 == 0) {
        usleep(rand_r(seed) % 300);
    }
}

static void must_be(int is, const char *what) {
    if (!is) {
        fprintf(stderr, "%s (%s)\n", what, cenote_last_error());
        abort();
    }
}

static void write_pair(volatile uint64_t *pair, int answer, unsigned *seed) {
    must_be(answer == EOWNERDEAD || pair[0] == pair[1], "a writer finds a change half made, and was not told");
    pair[0] = pair[0] + 1;
    linger(seed);
    pair[1] = pair[0];
}

static void one(struct locks *locks, unsigned *seed) {
    int n = rand_r(seed) % LOCKS, covers = rand_r(seed) % 2, writes = rand_r(seed) % 2, how = rand_r(seed) % 3;
    struct timespec at = soon(seed);
    cenote_dlock *covering = locks->covering[n];
    cenote_rwlock *alone = locks->alone[n];
    void *region = NULL;
    const void *seen = NULL;
    int answer;
    if (covers && writes) {
        answer = how == 0 ? cenote_dlock_wrlock(covering, &region, 1)
                 : how == 1 ? cenote_dlock_trywrlock(covering, &region, 1)
                            : cenote_dlock_clockwrlock(covering, CLOCK_MONOTONIC, &at, &region, 1);
    } else if (covers) {
        answer = how == 0 ? cenote_dlock_rdlock(covering, &seen, 1)
                 : how == 1 ? cenote_dlock_tryrdlock(covering, &seen, 1)
                            : cenote_dlock_clockrdlock(covering, CLOCK_MONOTONIC, &at, &seen, 1);
    } else if (writes) {
        answer = how == 0 ? cenote_rwlock_wrlock(alone)
                 : how == 1 ? cenote_rwlock_trywrlock(alone)
                            : cenote_rwlock_clockwrlock(alone, CLOCK_MONOTONIC, &at);
    } else {
        answer = how == 0 ? cenote_rwlock_rdlock(alone)
                 : how == 1 ? cenote_rwlock_tryrdlock(alone)
                            : cenote_rwlock_clockrdlock(alone, CLOCK_MONOTONIC, &at);
    }
    if ((how == 1 && answer == EBUSY) || (how == 2 && answer == ETIMEDOUT)) {
        more(&counts->timeouts);
        return;
    }
    if (answer != 0 && answer != EOWNERDEAD) {
        fprintf(stderr, "a lock is refused: %d (%s)\n", answer, cenote_last_error());
        abort();
    }
    if (answer == EOWNERDEAD) {
        more(&counts->recovered);
    }
    if (covers && writes) {
        write_pair(region, answer, seed);
        if (answer == EOWNERDEAD && rand_r(seed) % 2) {
            IS(0, cenote_dlock_consistent(covering));
        }
    } else if (writes) {
        must_be(answer == EOWNERDEAD || counts->first[n] == counts->second[n], "the same of a lock alone");
        counts->first[n]++;
        linger(seed);
        counts->second[n] = counts->first[n];
        if (answer == EOWNERDEAD && rand_r(seed) % 2) {
            IS(0, cenote_rwlock_consistent(alone));
        }
    } else {
        volatile const uint64_t *pair = seen;
        for (int look = 0; look < 2; look++) {
            int is_whole = covers ? pair[0] == pair[1] : counts->first[n] == counts->second[n];
            must_be(is_whole || answer == EOWNERDEAD, "a reader finds a change half made, and was not told");
            linger(seed);
        }
    }
    more(writes ? &counts->writes : &counts->reads);
    IS(0, covers ? cenote_dlock_unlock(covering) : cenote_rwlock_unlock(alone));
}

static struct locks locks;
static unsigned first_seed;

static void *work(void *number) {
    unsigned seed = first_seed + 1000003 * (unsigned)(uintptr_t)number;
    for (;;) {
        one(&locks, &seed);
    }
    return NULL;
}

static void open_all(void) {
    cenote_pool *pool;
    char name[16];
    uint64_t size = 2 * sizeof(uint64_t);
    int answer = cenote_pool_open(path, &pool);
    IS(0, answer);
    for (int n = 0; n < LOCKS; n++) {
        snprintf(name, sizeof name, "alone%d", n);
        IS(0, cenote_rwlock_open(pool, name, &locks.alone[n]));
        snprintf(name, sizeof name, "covering%d", n);
        IS(0, cenote_dlock_open_or_create(pool, name, &size, 1, &locks.covering[n]));
    }
}

static pid_t begin(unsigned seed) {
    pid_t child = start();
    if (child == 0) {
        first_seed = seed;
        open_all();
        for (uintptr_t n = 1; n < THREADS; n++) {
            pthread_t thread;
            IS(0, pthread_create(&thread, NULL, work, (void *)n));
        }
        work(NULL);
    }
    return child;
}

static void must_be_killed(pid_t child, int options) {
    int status;
    if (waitpid(child, &status, options) == child && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
        fprintf(stderr, "a process ended by itself: status %x\n", status);
        exit(1);
    }
}

int main(int count, char **arguments) {
    IS(4, count);
    path = arguments[1];
    unsigned seed = atoi(arguments[3]);
    time_t end = time(NULL) + atoi(arguments[2]);
    alarm(atoi(arguments[2]) + 60);
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cenote_pool *pool;
    cenote_options options = {.size = 1 << 20, .max = 64 << 20};
    IS(0, cenote_pool_create(path, &options, &pool));
    IS(0, cenote_pool_close(pool));
    pid_t children[PROCESSES];
    for (int n = 0; n < PROCESSES; n++) {
        children[n] = begin(rand_r(&seed));
    }
    while (time(NULL) < end) {
        usleep(rand_r(&seed) % 15000);
        int n = rand_r(&seed) % PROCESSES;
        if (rand_r(&seed) % 4 == 0) {
            // It holds others up for a moment, or not.
            IS(0, kill(children[n], SIGSTOP));
            usleep(rand_r(&seed) % 5000);
            if (rand_r(&seed) % 2) {
                IS(0, kill(children[n], SIGCONT));
                continue;
            }
        }
        IS(0, kill(children[n], SIGKILL));
        must_be_killed(children[n], 0);
        more(&counts->kills);
        children[n] = begin(rand_r(&seed));
    }
    for (int n = 0; n < PROCESSES; n++) {
        kill(children[n], SIGKILL);
        must_be_killed(children[n], 0);
    }
    // Whatever was left, one process gets all locks, and repairs what they cover.
    open_all();
    for (int n = 0; n < LOCKS; n++) {
        void *region;
        int answer = cenote_dlock_wrlock(locks.covering[n], &region, 1);
        volatile uint64_t *pair = region;
        IS(1, answer == EOWNERDEAD || (answer == 0 && pair[0] == pair[1]));
        IS(answer == EOWNERDEAD ? 0 : EINVAL, cenote_dlock_consistent(locks.covering[n]));
        IS(0, cenote_dlock_unlock(locks.covering[n]));
        answer = cenote_rwlock_wrlock(locks.alone[n]);
        IS(1, answer == EOWNERDEAD || (answer == 0 && counts->first[n] == counts->second[n]));
        IS(answer == EOWNERDEAD ? 0 : EINVAL, cenote_rwlock_consistent(locks.alone[n]));
        IS(0, cenote_rwlock_unlock(locks.alone[n]));
        IS(0, cenote_rwlock_wrlock(locks.alone[n]));
        IS(0, cenote_rwlock_unlock(locks.alone[n]));
        IS(0, cenote_dlock_close(locks.covering[n]));
        IS(0, cenote_rwlock_close(locks.alone[n]));
    }
    printf("writes %ld reads %ld recovered %ld refused %ld kills %ld\n", counts->writes, counts->reads,
           counts->recovered, counts->timeouts, counts->kills);
    IS(1, counts->writes > 0 && counts->reads > 0 && counts->kills > 0);
    puts("all is well");
    return 0;
}
