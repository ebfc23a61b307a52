// An ordinary program with process-shared reader-writer locks of pthread's, which knows nothing of Cenote.
//
// `shared count`: processes that count under a lock, and one that is killed while it has the lock; prints "counted N". With libc's locks it waits for ever.
// `shared hold FILE`: makes a lock in a file, takes it, prints "taken", and waits to be killed. `shared take FILE`: takes it. `shared leave`: a thread's
// destructor unlocks. `shared dead`: what the next call returns after a death. `shared rest`: the other calls, and private locks.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

enum { PROCESSES = 4, ROUNDS = 1000 };

struct shared {
    pthread_rwlock_t lock;
    volatile long count;
    volatile long copy;
    volatile int has_it;
};

static struct shared *map(int file) {
    int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
    return mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, flags, file, 0);
}

static void initialise(struct shared *shared) {
    pthread_rwlockattr_t attribute;
    IS(0, pthread_rwlockattr_init(&attribute));
    IS(0, pthread_rwlockattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    IS(0, pthread_rwlock_init(&shared->lock, &attribute));
    IS(0, pthread_rwlockattr_destroy(&attribute));
}

static struct shared *make(void) {
    struct shared *shared = map(-1);
    initialise(shared);
    return shared;
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

static pid_t hold(struct shared *shared) {
    shared->has_it = 0;
    pid_t owner = start();
    if (owner == 0) {
        IS(0, pthread_rwlock_wrlock(&shared->lock));
        shared->has_it = 1;
        pause();
    }
    while (!shared->has_it) {
        usleep(1000);
    }
    return owner;
}

static void end(pid_t owner) {
    IS(0, kill(owner, SIGKILL));
    IS(owner, waitpid(owner, NULL, 0));
}

static void count(void) {
    struct shared *shared = make();
    pid_t owner = hold(shared), children[PROCESSES];
    for (int n = 0; n < PROCESSES; n++) {
        children[n] = start();
        if (children[n] == 0) {
            for (int round = 0; round < ROUNDS; round++) {
                IS(0, pthread_rwlock_wrlock(&shared->lock));
                shared->copy = shared->count + 1;
                shared->count = shared->copy;
                IS(0, pthread_rwlock_unlock(&shared->lock));
                IS(0, pthread_rwlock_rdlock(&shared->lock));
                IS(shared->count, shared->copy);
                IS(0, pthread_rwlock_unlock(&shared->lock));
            }
            exit(0);
        }
    }
    usleep(50000);
    end(owner);
    for (int n = 0; n < PROCESSES; n++) {
        ends_well(children[n]);
    }
    printf("counted %ld\n", shared->count);
    IS(0, pthread_rwlock_destroy(&shared->lock));
}

static void dead(void) {
    struct shared *shared = make();
    end(hold(shared));
    printf("returned %d\n", pthread_rwlock_wrlock(&shared->lock));
    IS(0, pthread_rwlock_unlock(&shared->lock));
}

static struct timespec soon(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    now.tv_nsec += 20000000;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    return now;
}

static void *again(void *of) {
    IS(0, pthread_rwlock_rdlock(of));
    IS(0, pthread_rwlock_unlock(of));
    return NULL;
}

static void rest(void) {
    struct shared *shared = make();
    pthread_rwlock_t *lock = &shared->lock;
    pid_t owner = hold(shared);
    IS(EBUSY, pthread_rwlock_tryrdlock(lock));
    IS(EBUSY, pthread_rwlock_trywrlock(lock));
    IS(EBUSY, pthread_rwlock_destroy(lock));
    struct timespec at = soon(CLOCK_REALTIME);
    IS(ETIMEDOUT, pthread_rwlock_timedrdlock(lock, &at));
    IS(ETIMEDOUT, pthread_rwlock_timedwrlock(lock, &at));
    at = soon(CLOCK_MONOTONIC);
    IS(ETIMEDOUT, pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &at));
    IS(ETIMEDOUT, pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &at));
    end(owner);
    IS(0, pthread_rwlock_rdlock(lock));
    IS(0, pthread_rwlock_rdlock(lock));
    pthread_t thread;
    IS(0, pthread_create(&thread, NULL, again, lock));
    IS(0, pthread_join(thread, NULL));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_wrlock(lock));
    IS(EDEADLK, pthread_rwlock_wrlock(lock));
    IS(0, pthread_rwlock_unlock(lock));
    IS(0, pthread_rwlock_destroy(lock));
    // More locks than there are words for in a thread's log, all held at a time.
    enum { MANY = 40 };
    struct shared *many[MANY];
    for (int n = 0; n < MANY; n++) {
        many[n] = make();
        IS(0, pthread_rwlock_wrlock(&many[n]->lock));
    }
    for (int n = 0; n < MANY; n++) {
        IS(0, pthread_rwlock_unlock(&many[n]->lock));
        IS(0, pthread_rwlock_destroy(&many[n]->lock));
    }
    // Private ones are libc's: it has the owner's thread in its words, and a mark of ours is not there.
    static pthread_rwlock_t fixed = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_t private;
    IS(0, pthread_rwlock_init(&private, NULL));
    for (int n = 0; n < 2; n++) {
        pthread_rwlock_t *one = n == 0 ? &fixed : &private;
        IS(0, pthread_rwlock_wrlock(one));
        IS(gettid(), one->__data.__cur_writer);
        IS(EBUSY, pthread_rwlock_tryrdlock(one));
        IS(0, pthread_rwlock_unlock(one));
        IS(0, pthread_rwlock_rdlock(one));
        IS(0, pthread_rwlock_unlock(one));
        IS(0, pthread_rwlock_destroy(one));
    }
    puts("all is well");
}

// Programs that have nothing but a file in common.
static void in_file(const char *path, int makes) {
    int file = open(path, O_RDWR | (makes ? O_CREAT | O_EXCL : 0), 0600);
    IS(1, file >= 0);
    IS(0, ftruncate(file, sizeof(struct shared)));
    struct shared *shared = map(file);
    if (makes) {
        initialise(shared);
    }
    IS(0, pthread_rwlock_wrlock(&shared->lock));
    puts("taken");
    fflush(stdout);
    if (makes) {
        pause();
    }
    IS(0, pthread_rwlock_unlock(&shared->lock));
    IS(0, pthread_rwlock_destroy(&shared->lock));
}

static void unlock(void *of) {
    IS(0, pthread_rwlock_unlock(of));
}

static pthread_key_t key;

static void *lock_until_its_end(void *of) {
    IS(0, pthread_rwlock_wrlock(of));
    IS(0, pthread_key_create(&key, unlock));
    IS(0, pthread_setspecific(key, of));
    return NULL;
}

static void leave(void) {
    struct shared *shared = make();
    pthread_t thread;
    IS(0, pthread_create(&thread, NULL, lock_until_its_end, &shared->lock));
    IS(0, pthread_join(thread, NULL));
    IS(0, pthread_rwlock_wrlock(&shared->lock));
    IS(0, pthread_rwlock_unlock(&shared->lock));
    puts("all is well");
}

int main(int number, char **arguments) {
    IS(1, number == 2 || number == 3);
    alarm(100);
    if (number == 3) {
        in_file(arguments[2], strcmp(arguments[1], "hold") == 0);
        return 0;
    }
    if (strcmp(arguments[1], "count") == 0) {
        count();
    } else if (strcmp(arguments[1], "dead") == 0) {
        dead();
    } else if (strcmp(arguments[1], "leave") == 0) {
        leave();
    } else {
        rest();
    }
    return 0;
}
