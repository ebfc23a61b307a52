// Threads and processes that share locks by the C interface; one is killed while it has a lock.
//
// The only argument is the path of a pool that does not exist yet. Prints "all is well", or says which line failed.

#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char *path;

static cenote_rwlock *lock_of(cenote_pool **pool, const char *name) {
    cenote_rwlock *lock;
    IS(0, cenote_pool_open(path, pool));
    IS(0, cenote_rwlock_open(*pool, name, &lock));
    return lock;
}

static void refusals(void) {
    cenote_pool *pool;
    cenote_rwlock *lock;
    IS(EINVAL, cenote_pool_open(NULL, &pool));
    IS(EINVAL, cenote_pool_open(path, NULL));
    IS(EINVAL, cenote_rwlock_rdlock(NULL));
    IS(EINVAL, cenote_rwlock_open(NULL, "a", &lock));
    IS(ENOENT, cenote_pool_open(path, &pool));
    IS(1, strstr(cenote_last_error(), path) != NULL);
    IS(1, pool == NULL);
    cenote_options options = {.size = 1 << 20, .max = 64 << 20};
    IS(0, cenote_pool_create(path, &options, &pool));
    IS(EEXIST, cenote_pool_create(path, &options, &pool));
    IS(0, cenote_pool_open_or_create(path, NULL, &pool));
    IS(EINVAL, cenote_rwlock_open(pool, "", &lock));
    IS(EINVAL, cenote_rwlock_open(pool, "\xff", &lock));
    IS(0, cenote_pool_close(pool));
    IS(EINVAL, cenote_pool_close(NULL));
}

static void *other_thread(void *of) {
    cenote_rwlock *lock = of;
    struct timespec now;
    IS(EBUSY, cenote_rwlock_tryrdlock(lock));
    IS(EBUSY, cenote_rwlock_trywrlock(lock));
    clock_gettime(CLOCK_REALTIME, &now);
    IS(ETIMEDOUT, cenote_rwlock_timedrdlock(lock, &now));
    now.tv_nsec += 20000000;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    IS(ETIMEDOUT, cenote_rwlock_timedwrlock(lock, &now));
    now.tv_nsec = 1000000000;
    IS(EINVAL, cenote_rwlock_timedwrlock(lock, &now));
    IS(EINVAL, cenote_rwlock_timedwrlock(lock, NULL));
    IS(EPERM, cenote_rwlock_unlock(lock));
    return NULL;
}

static void *reader(void *of) {
    IS(0, cenote_rwlock_tryrdlock(of));
    IS(0, cenote_rwlock_unlock(of));
    return NULL;
}

static void run(void *(*thread)(void *), void *of) {
    pthread_t other;
    IS(0, pthread_create(&other, NULL, thread, of));
    IS(0, pthread_join(other, NULL));
}

static void threads(void) {
    cenote_pool *pool;
    cenote_rwlock *lock = lock_of(&pool, "threads");
    cenote_former former;
    IS(0, cenote_rwlock_wrlock(lock));
    IS(EDEADLK, cenote_rwlock_wrlock(lock));
    IS(EDEADLK, cenote_rwlock_rdlock(lock));
    IS(EBUSY, cenote_rwlock_trywrlock(lock));
    IS(EBUSY, cenote_rwlock_close(lock));
    IS(EINVAL, cenote_rwlock_consistent(lock));
    IS(ENOENT, cenote_rwlock_former(lock, &former));
    run(other_thread, lock);
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_rdlock(lock));
    IS(0, cenote_rwlock_rdlock(lock));
    IS(EDEADLK, cenote_rwlock_wrlock(lock));
    IS(EPERM, cenote_rwlock_note(lock, 1));
    run(reader, lock);
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(EPERM, cenote_rwlock_unlock(lock));
    IS(EPERM, cenote_rwlock_former(lock, &former));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

static void forks(void) {
    cenote_pool *pool;
    cenote_rwlock *lock = lock_of(&pool, "forks");
    IS(0, cenote_rwlock_wrlock(lock));
    pid_t child = start();
    if (child == 0) {
        cenote_pool *own;
        IS(ESTALE, cenote_rwlock_unlock(lock));
        IS(ESTALE, cenote_rwlock_consistent(lock));
        cenote_rwlock *other;
        IS(ESTALE, cenote_rwlock_open(pool, "other", &other));
        IS(0, cenote_rwlock_close(lock));
        IS(0, cenote_pool_close(pool));
        lock = lock_of(&own, "forks");
        IS(EBUSY, cenote_rwlock_trywrlock(lock));
        exit(0);
    }
    ends_well(child);
    IS(0, cenote_rwlock_unlock(lock));
    child = start();
    if (child == 0) {
        IS(ESTALE, cenote_rwlock_rdlock(lock));
        IS(ESTALE, cenote_rwlock_trywrlock(lock));
        exit(0);
    }
    ends_well(child);
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
}

static void killed_owner(void) {
    int ready[2];
    char byte;
    cenote_pool *pool;
    IS(0, pipe(ready));
    pid_t owner = start();
    if (owner == 0) {
        cenote_rwlock *lock = lock_of(&pool, "killed");
        IS(0, cenote_rwlock_wrlock(lock));
        IS(0, cenote_rwlock_note(lock, 42));
        IS(1, write(ready[1], "o", 1));
        pause();
    }
    IS(1, read(ready[0], &byte, 1));
    pid_t waiter = start();
    if (waiter == 0) {
        cenote_former former;
        cenote_rwlock *lock = lock_of(&pool, "killed");
        IS(EBUSY, cenote_rwlock_tryrdlock(lock));
        IS(1, write(ready[1], "w", 1));
        IS(EOWNERDEAD, cenote_rwlock_wrlock(lock));
        IS(0, cenote_rwlock_former(lock, &former));
        IS(42, former.note);
        // It repairs nothing.
        IS(0, cenote_rwlock_unlock(lock));
        exit(0);
    }
    IS(1, read(ready[0], &byte, 1));
    usleep(20000);
    IS(0, kill(owner, SIGKILL));
    IS(owner, waitpid(owner, NULL, 0));
    ends_well(waiter);
    cenote_former former;
    cenote_rwlock *lock = lock_of(&pool, "killed");
    IS(EOWNERDEAD, cenote_rwlock_rdlock(lock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(EOWNERDEAD, cenote_rwlock_trywrlock(lock));
    IS(0, cenote_rwlock_former(lock, &former));
    IS(42, former.note);
    IS(0, cenote_rwlock_consistent(lock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_wrlock(lock));
    IS(0, cenote_rwlock_unlock(lock));
    IS(0, cenote_rwlock_close(lock));
    IS(0, cenote_pool_close(pool));
    close(ready[0]);
    close(ready[1]);
}

enum { PROCESSES = 4, ROUNDS = 2000 };

static void exclusion(void) {
    volatile long *shared =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[PROCESSES];
    for (int n = 0; n < PROCESSES; n++) {
        children[n] = start();
        if (children[n] == 0) {
            cenote_pool *pool;
            cenote_rwlock *lock = lock_of(&pool, "exclusion");
            for (int round = 0; round < ROUNDS; round++) {
                IS(0, cenote_rwlock_wrlock(lock));
                long before = shared[0];
                shared[1] = before + 1;
                shared[0] = before + 1;
                IS(0, cenote_rwlock_unlock(lock));
                IS(0, cenote_rwlock_rdlock(lock));
                IS(shared[0], shared[1]);
                IS(0, cenote_rwlock_unlock(lock));
            }
            exit(0);
        }
    }
    for (int n = 0; n < PROCESSES; n++) {
        ends_well(children[n]);
    }
    IS(PROCESSES * ROUNDS, shared[0]);
    munmap((void *)shared, 4096);
}

int main(int count, char **arguments) {
    IS(2, count);
    path = arguments[1];
    alarm(100);
    refusals();
    threads();
    forks();
    killed_owner();
    exclusion();
    puts("all is well");
    return 0;
}
