// What careless programs do with POSIX's reader-writer locks, beside `shared`: locks that were destroyed or never made, odd addresses, memory that moves, children made past the
// handlers of fork, exec with a lock, descriptors that are closed, cancellation, folders that are left, locks by the thousand.
//
// `hostile forks`: children that are made while the pool is opened. `hostile strays`: locks that
// are taken when they were destroyed already. `hostile leaves`: a folder that is left. `hostile SECONDS SEED`: processes are killed at any moment. Prints "all is well", or which line failed.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void is(int line, const char *call, long expected, long found) {
    if (expected != found) {
        fprintf(stderr, "line %d: %s: %ld instead of %ld\n", line, call, found, expected);
        exit(1);
    }
}

#define IS(expected, call) is(__LINE__, #call, (expected), (call))

enum { MANY = 3000 };

static const char *self;

static void *map(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int make(pthread_rwlock_t *lock) {
    pthread_rwlockattr_t attribute;
    IS(0, pthread_rwlockattr_init(&attribute));
    IS(0, pthread_rwlockattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    int answer = pthread_rwlock_init(lock, &attribute);
    IS(0, pthread_rwlockattr_destroy(&attribute));
    return answer;
}

static pid_t start(void) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

static void ends_well(pid_t child) {
    int status;
    IS(child, waitpid(child, &status, 0));
    IS(1, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void destroyed(void) {
    pthread_rwlock_t *lock = map(4096);
    struct timespec at = {0, 0};
    IS(0, make(lock));
    IS(0, pthread_rwlock_destroy(lock));
    IS(EINVAL, pthread_rwlock_rdlock(lock));
    IS(EINVAL, pthread_rwlock_wrlock(lock));
    IS(EINVAL, pthread_rwlock_tryrdlock(lock));
    IS(EINVAL, pthread_rwlock_trywrlock(lock));
    IS(EINVAL, pthread_rwlock_timedrdlock(lock, &at));
    IS(EINVAL, pthread_rwlock_timedwrlock(lock, &at));
    IS(EINVAL, pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &at));
    IS(EINVAL, pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &at));
    IS(EINVAL, pthread_rwlock_unlock(lock));
    IS(EINVAL, pthread_rwlock_destroy(lock));
    // It may be made again, as one of ours or of libc's.
    IS(0, make(lock));
    IS(0, pthread_rwlock_wrlock(lock));
    IS(EBUSY, pthread_rwlock_destroy(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_rdlock(lock));
    IS(EBUSY, pthread_rwlock_destroy(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(EPERM, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
    IS(0, pthread_rwlock_init(lock, NULL));
    IS(0, pthread_rwlock_wrlock(lock));
    IS(gettid(), lock->__data.__cur_writer);
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
    *lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    IS(0, pthread_rwlock_wrlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
}

// x86 lets libc's locks lie anywhere. They stay libc's.
static void odd_addresses(void) {
    char *bytes = map(4096);
    pthread_rwlock_t *lock = (pthread_rwlock_t *)(bytes + 1);
    IS(0, make(lock));
    IS(0, pthread_rwlock_wrlock(lock));
    IS(EBUSY, pthread_rwlock_tryrdlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
    pthread_rwlock_t *even = map(4096);
    IS(0, make(even));
    IS(EINVAL, pthread_rwlock_timedwrlock(even, (struct timespec *)(bytes + 1)));
    IS(EINVAL, pthread_rwlock_clockwrlock(even, CLOCK_THREAD_CPUTIME_ID, &(struct timespec){0}));
    IS(0, pthread_rwlock_destroy(even));
}

// Bytes that were never a lock of anybody's.
static void damaged_bytes(void) {
    pthread_rwlock_t *lock = map(4096);
    uint64_t *words = (uint64_t *)lock;
    IS(0, make(lock));
    uint64_t number = words[0], pool = words[1];
    words[0] = UINT64_MAX;
    IS(EINVAL, pthread_rwlock_wrlock(lock));
    IS(EINVAL, pthread_rwlock_destroy(lock));
    words[0] = 1u << 30;
    IS(EINVAL, pthread_rwlock_wrlock(lock));
    words[0] = number;
    words[1] = ~pool;
    IS(EINVAL, pthread_rwlock_wrlock(lock));
    words[1] = pool;
    IS(0, pthread_rwlock_wrlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
}

// A lock of another pool, which may have the number of one that this thread has: a file that was there before the pool was made anew.
static void other_pool(void) {
    pthread_rwlock_t *lock = map(4096), *other = lock + 1;
    IS(0, make(lock));
    memcpy(other, lock, sizeof *other);
    ((uint64_t *)other)[1] ^= 1;
    IS(0, pthread_rwlock_wrlock(lock));
    IS(EINVAL, pthread_rwlock_wrlock(other));
    IS(EINVAL, pthread_rwlock_unlock(other));
    IS(EINVAL, pthread_rwlock_destroy(other));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
}

static void moved(void) {
    int file = memfd_create("lock", 0);
    IS(0, ftruncate(file, 8192));
    char *first = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    IS(0, make((pthread_rwlock_t *)(first + 64)));
    IS(0, pthread_rwlock_wrlock((pthread_rwlock_t *)(first + 64)));
    char *second = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    IS(1, first != second);
    IS(0, munmap(first, 8192));
    pthread_rwlock_t *lock = (pthread_rwlock_t *)(second + 64);
    IS(EDEADLK, pthread_rwlock_wrlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
}

static void children(void) {
    pthread_rwlock_t *lock = map(4096);
    IS(0, make(lock));
    IS(0, pthread_rwlock_wrlock(lock));
    // What a parent has, its child has not.
    pid_t child = start();
    if (child == 0) {
        IS(EPERM, pthread_rwlock_unlock(lock));
        IS(EBUSY, pthread_rwlock_tryrdlock(lock));
        IS(EBUSY, pthread_rwlock_destroy(lock));
        exit(0);
    }
    ends_well(child);
    IS(0, pthread_rwlock_unlock(lock));
    // Past the handlers of fork.
    child = syscall(SYS_fork);
    if (child == 0) {
        IS(0, pthread_rwlock_wrlock(lock));
        IS(0, pthread_rwlock_unlock(lock));
        pthread_rwlock_t *own = map(4096);
        IS(0, make(own));
        IS(0, pthread_rwlock_destroy(own));
        _exit(0);
    }
    ends_well(child);
    // What such a child has not, either.
    IS(0, pthread_rwlock_wrlock(lock));
    child = syscall(SYS_fork);
    if (child == 0) {
        IS(EPERM, pthread_rwlock_unlock(lock));
        _exit(0);
    }
    ends_well(child);
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_wrlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    // A program that execs has left its locks.
    child = start();
    if (child == 0) {
        IS(0, pthread_rwlock_wrlock(lock));
        execl("/bin/true", "true", NULL);
        exit(1);
    }
    ends_well(child);
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += 10;
    IS(0, pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &at));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
}

// Closes all descriptors that this function does not know, and has others in their places.
static void close_all_but(int kept, const char *path) {
    for (int n = 3; n < 256; n++) {
        if (n != kept) {
            close(n);
        }
    }
    for (int n = 0; n < 20; n++) {
        IS(1, open(path, O_RDWR) >= 0);
    }
}

static void *begins(void *lock) {
    pthread_rwlock_t *other = map(4096);
    IS(0, pthread_rwlock_wrlock(lock));
    IS(0, make(other));
    IS(0, pthread_rwlock_destroy(other));
    IS(0, pthread_rwlock_unlock(lock));
    return NULL;
}

// A program that closes what it has not opened, as daemons do: it keeps its locks, sees that others keep theirs, and its own files are left alone.
static void closes_descriptors(void) {
    pthread_rwlock_t *first = map(4096), *second = first + 1;
    int ready[2], held[2];
    char byte, path[] = "/dev/shm/cenote-hostile-XXXXXX";
    int file = mkstemp(path);
    IS(1, file >= 0);
    IS(0, make(first));
    IS(0, make(second));
    IS(0, pipe(ready));
    IS(0, pipe(held));
    pid_t child = start();
    if (child == 0) {
        IS(0, pthread_rwlock_wrlock(first));
        IS(1, read(held[0], &byte, 1));
        close_all_but(ready[1], path);
        IS(1, write(ready[1], "r", 1));
        // The parent has it, and lives.
        IS(EBUSY, pthread_rwlock_trywrlock(second));
        IS(1, write(ready[1], "t", 1));
        IS(0, pthread_rwlock_wrlock(second));
        IS(0, pthread_rwlock_unlock(second));
        IS(1, write(ready[1], "r", 1));
        pause();
    }
    IS(0, pthread_rwlock_wrlock(second));
    IS(1, write(held[1], "h", 1));
    IS(1, read(ready[0], &byte, 1));
    for (int n = 0; n < 20; n++) {
        IS(EBUSY, pthread_rwlock_trywrlock(first));
        usleep(5000);
    }
    IS(1, read(ready[0], &byte, 1));
    IS(0, pthread_rwlock_unlock(second));
    IS(1, read(ready[0], &byte, 1));
    IS(EBUSY, pthread_rwlock_tryrdlock(first));
    // A child of such a process has its files.
    IS(0, kill(child, SIGKILL));
    IS(child, waitpid(child, NULL, 0));
    IS(0, pthread_rwlock_wrlock(first));
    IS(0, pthread_rwlock_unlock(first));
    IS(0, lseek(file, 0, SEEK_END));
    child = start();
    if (child == 0) {
        IS(0, pthread_rwlock_wrlock(first));
        close_all_but(-1, path);
        pid_t grandchild = start();
        if (grandchild == 0) {
            for (int n = 3; n < 23; n++) {
                IS(0, fcntl(n, F_GETFD));
            }
            _exit(0);
        }
        ends_well(grandchild);
        IS(0, pthread_rwlock_unlock(first));
        // A thread that begins now.
        pthread_t thread;
        IS(0, pthread_create(&thread, NULL, begins, first));
        IS(0, pthread_join(thread, NULL));
        _exit(0);
    }
    ends_well(child);
    close(ready[0]);
    close(ready[1]);
    close(file);
    IS(0, unlink(path));
    IS(0, pthread_rwlock_destroy(first));
    IS(0, pthread_rwlock_destroy(second));
}

static pthread_barrier_t is_cancelled;

// The thread that calls is to be cancelled from now on, at its next point of cancellation.
static void be_cancelled(void) {
    int before;
    IS(0, pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
    pthread_barrier_wait(&is_cancelled);
    IS(0, pthread_setcancelstate(before, NULL));
}

static void *first_call(void *lock) {
    be_cancelled();
    IS(0, pthread_rwlock_rdlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    pthread_testcancel();
    return NULL;
}

static void *makes(void *of) {
    be_cancelled();
    pthread_rwlock_t *lock = map(4096);
    IS(0, make(lock));
    IS(0, pthread_rwlock_destroy(lock));
    munmap(lock, 4096);
    pthread_testcancel();
    return of;
}

static void cancelled(void) {
    pthread_rwlock_t *lock = map(4096);
    IS(0, make(lock));
    IS(0, pthread_barrier_init(&is_cancelled, NULL, 2));
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *result;
        IS(0, pthread_create(&thread, NULL, round % 2 ? first_call : makes, lock));
        IS(0, pthread_cancel(thread));
        pthread_barrier_wait(&is_cancelled);
        IS(0, pthread_join(thread, &result));
        IS(1, result == PTHREAD_CANCELED);
    }
    // A child's first call opens the pool.
    pid_t child = start();
    if (child == 0) {
        pthread_t thread;
        void *result;
        IS(0, pthread_create(&thread, NULL, first_call, lock));
        IS(0, pthread_cancel(thread));
        pthread_barrier_wait(&is_cancelled);
        IS(0, pthread_join(thread, &result));
        exit(0);
    }
    ends_well(child);
    IS(0, pthread_rwlock_destroy(lock));
}

static void *opens(void *lock) {
    pthread_barrier_wait(&is_cancelled);
    IS(0, make(lock));
    return NULL;
}

// Children that are made while another thread opens the pool, which is the process's first call.
static void forks_while_it_opens(void) {
    pthread_t opener;
    pthread_rwlock_t *lock = map(4096);
    enum { CHILDREN = 40 };
    pid_t children[CHILDREN];
    IS(0, pthread_barrier_init(&is_cancelled, NULL, 2));
    IS(0, pthread_create(&opener, NULL, opens, lock));
    pthread_barrier_wait(&is_cancelled);
    for (int n = 0; n < CHILDREN; n++) {
        children[n] = fork();
        if (children[n] == 0) {
            alarm(20);
            pthread_rwlock_t *own = map(4096);
            IS(0, make(own));
            IS(0, pthread_rwlock_wrlock(own));
            IS(0, pthread_rwlock_unlock(own));
            IS(0, pthread_rwlock_destroy(own));
            _exit(0);
        }
        usleep(100);
    }
    for (int n = 0; n < CHILDREN; n++) {
        ends_well(children[n]);
    }
    IS(0, pthread_join(opener, NULL));
    IS(0, pthread_rwlock_destroy(lock));
    puts("all is well");
}

// Locks that are taken after they were destroyed, by bytes that were copied before: their numbers are in use for that long, and no longer.
static void strays(void) {
    pthread_rwlock_t *lock = map(4096), *copy = lock + 1, *other = lock + 2;
    for (int round = 0; round < 20; round++) {
        IS(0, make(lock));
        memcpy(copy, lock, sizeof *copy);
        IS(0, pthread_rwlock_destroy(lock));
        IS(0, pthread_rwlock_wrlock(copy));
        IS(0, make(other));
        IS(0, pthread_rwlock_trywrlock(other));
        IS(0, pthread_rwlock_unlock(other));
        IS(0, pthread_rwlock_unlock(copy));
        IS(0, pthread_rwlock_destroy(other));
    }
    puts("all is well");
}

// A relative path is that of where the program began, also for a child that has gone elsewhere.
static void leaves_its_folder(void) {
    pthread_rwlock_t *lock = map(4096);
    IS(0, make(lock));
    IS(0, chdir("/"));
    pid_t child = start();
    if (child == 0) {
        IS(0, pthread_rwlock_wrlock(lock));
        IS(0, pthread_rwlock_unlock(lock));
        exit(0);
    }
    ends_well(child);
    IS(0, pthread_rwlock_destroy(lock));
    puts("all is well");
}

static void many(void) {
    pthread_rwlock_t *locks = map(MANY * sizeof *locks);
    for (int n = 0; n < MANY; n++) {
        IS(0, make(&locks[n]));
    }
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < MANY; n++) {
            IS(0, (n + round) % 2 ? pthread_rwlock_wrlock(&locks[n]) : pthread_rwlock_rdlock(&locks[n]));
            // Some are held for long.
            if (n % 16 != 0) {
                IS(0, pthread_rwlock_unlock(&locks[n]));
            }
        }
        for (int n = 0; n < MANY; n += 16) {
            IS(0, pthread_rwlock_unlock(&locks[n]));
        }
    }
    for (int n = 0; n < MANY; n++) {
        IS(0, pthread_rwlock_destroy(&locks[n]));
    }
}

struct board {
    pthread_rwlock_t locks[4];
    volatile long first[4], second[4], done, kills;
};

static void *works(void *of) {
    struct board *board = of;
    unsigned seed = gettid() ^ time(NULL);
    for (;;) {
        int n = rand_r(&seed) % 4, how = rand_r(&seed) % 6;
        pthread_rwlock_t *lock = &board->locks[n];
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec = (at.tv_nsec + rand_r(&seed) % 2000000) % 1000000000;
        int answer = how == 0   ? pthread_rwlock_wrlock(lock)
                     : how == 1 ? pthread_rwlock_trywrlock(lock)
                     : how == 2 ? pthread_rwlock_timedwrlock(lock, &at)
                     : how == 3 ? pthread_rwlock_rdlock(lock)
                     : how == 4 ? pthread_rwlock_tryrdlock(lock)
                                : pthread_rwlock_timedrdlock(lock, &at);
        if (answer == EBUSY || answer == ETIMEDOUT) {
            continue;
        }
        if (answer != 0 && answer != EOWNERDEAD) {
            fprintf(stderr, "call %d: %d\n", how, answer);
            abort();
        }
        // CENOTE_OWNER_DEAD=tell: only who was told finds a change half made.
        if (answer == 0 && board->first[n] != board->second[n]) {
            fprintf(stderr, "call %d: a change half made\n", how);
            abort();
        }
        if (how < 3) {
            board->first[n]++;
            if (rand_r(&seed) % 64 == 0) {
                usleep(rand_r(&seed) % 300);
            }
            board->second[n] = board->first[n];
        }
        __atomic_fetch_add(&board->done, 1, __ATOMIC_RELAXED);
        IS(0, pthread_rwlock_unlock(lock));
    }
    return NULL;
}

static void kills(int seconds, unsigned seed) {
    struct board *board = map(sizeof *board);
    for (int n = 0; n < 4; n++) {
        IS(0, make(&board->locks[n]));
    }
    time_t end = time(NULL) + seconds;
    pid_t children[4] = {0};
    for (int n = 0; time(NULL) < end; n = rand_r(&seed) % 4) {
        if (children[n] != 0) {
            int status;
            if (rand_r(&seed) % 4 == 0) {
                kill(children[n], SIGSTOP);
                usleep(rand_r(&seed) % 3000);
            }
            IS(0, kill(children[n], SIGKILL));
            IS(children[n], waitpid(children[n], &status, 0));
            IS(1, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            board->kills++;
        }
        children[n] = start();
        if (children[n] == 0) {
            pthread_t thread;
            IS(0, pthread_create(&thread, NULL, works, board));
            works(board);
        }
        usleep(rand_r(&seed) % 10000);
    }
    for (int n = 0; n < 4; n++) {
        if (children[n] != 0) {
            IS(0, kill(children[n], SIGKILL));
            IS(children[n], waitpid(children[n], NULL, 0));
        }
    }
    for (int n = 0; n < 4; n++) {
        int answer = pthread_rwlock_wrlock(&board->locks[n]);
        IS(1, answer == EOWNERDEAD || (answer == 0 && board->first[n] == board->second[n]));
        IS(0, pthread_rwlock_unlock(&board->locks[n]));
        IS(0, pthread_rwlock_destroy(&board->locks[n]));
    }
    IS(1, board->done > 0 && board->kills > 0);
    printf("done %ld kills %ld\nall is well\n", board->done, board->kills);
}

int main(int number, char **arguments) {
    self = arguments[0];
    alarm(100);
    if (number == 3) {
        kills(atoi(arguments[1]), atoi(arguments[2]));
        return 0;
    }
    if (number == 2 && strcmp(arguments[1], "forks") == 0) {
        forks_while_it_opens();
        return 0;
    }
    if (number == 2 && strcmp(arguments[1], "strays") == 0) {
        strays();
        return 0;
    }
    if (number == 2) {
        leaves_its_folder();
        return 0;
    }
    destroyed();
    odd_addresses();
    damaged_bytes();
    other_pool();
    moved();
    children();
    closes_descriptors();
    cancelled();
    many();
    puts("all is well");
    return 0;
}
