// Two locks under the same calls of three threads, one after another: one of libc's, and one that is process-shared. Their answers must be the same.
//
// `compared SEED CALLS`. Only what POSIX defines is called, and never what would wait. One difference is meant: a thread that reads and asks to write until a moment is told
// EDEADLK, where libc's waits for itself until then.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 3, KINDS = 13 };

static pthread_rwlock_t *locks[2];
static int readers[THREADS], writer = -1;

// What a thread is to call, and what the locks have answered.
static struct {
    pthread_barrier_t told, done;
    int thread, kind, answers[2];
} call;

static int make(int kind, pthread_rwlock_t *lock) {
    static const struct timespec past = {1, 0}, none = {1, 1000000000}, negative = {-1, 0};
    switch (kind) {
    case 0: return pthread_rwlock_tryrdlock(lock);
    case 1: return pthread_rwlock_trywrlock(lock);
    case 2: return pthread_rwlock_timedrdlock(lock, &past);
    case 3: return pthread_rwlock_timedwrlock(lock, &past);
    case 4: return pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &past);
    case 5: return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, &negative);
    case 6: return pthread_rwlock_timedrdlock(lock, &none);
    case 7: return pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &none);
    case 8: return pthread_rwlock_clockrdlock(lock, CLOCK_PROCESS_CPUTIME_ID, &past);
    case 9: return pthread_rwlock_clockwrlock(lock, 99, &past);
    case 10: return pthread_rwlock_rdlock(lock);
    case 11: return pthread_rwlock_wrlock(lock);
    default: return pthread_rwlock_unlock(lock);
    }
}

static void *work(void *number) {
    for (;;) {
        pthread_barrier_wait(&call.told);
        if (call.thread == (int)(long)number) {
            for (int n = 0; n < 2; n++) {
                call.answers[n] = make(call.kind, locks[n]);
            }
        }
        pthread_barrier_wait(&call.done);
    }
    return NULL;
}

static int is_allowed(int thread, int kind) {
    int all = 0;
    for (int n = 0; n < THREADS; n++) {
        all += readers[n];
    }
    switch (kind) {
    case 10: return writer < 0 || writer == thread;
    case 11: return (writer < 0 && all == 0) || writer == thread;
    case 12: return writer == thread || readers[thread] > 0;
    default: return 1;
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    unsigned seed = atoi(arguments[1]);
    int calls = atoi(arguments[2]), took = 0, refused = 0;
    pthread_rwlockattr_t attribute;
    pthread_rwlockattr_init(&attribute);
    for (int n = 0; n < 2; n++) {
        locks[n] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_rwlockattr_setpshared(&attribute, n == 0 ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED);
        if (pthread_rwlock_init(locks[n], &attribute) != 0) {
            return 1;
        }
    }
    pthread_barrier_init(&call.told, NULL, THREADS + 1);
    pthread_barrier_init(&call.done, NULL, THREADS + 1);
    for (long n = 0; n < THREADS; n++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)n);
    }
    while (calls > 0) {
        call.thread = rand_r(&seed) % THREADS;
        // Every second one is an unlock if there is something to unlock.
        call.kind = rand_r(&seed) % 2 ? 12 : rand_r(&seed) % KINDS;
        if (!is_allowed(call.thread, call.kind)) {
            continue;
        }
        calls--;
        pthread_barrier_wait(&call.told);
        pthread_barrier_wait(&call.done);
        int libcs = call.answers[0], ours = call.answers[1];
        int is_meant = readers[call.thread] > 0 && libcs == ETIMEDOUT && ours == EDEADLK;
        if (libcs != ours && !is_meant) {
            printf("seed %s: thread %d, call %d: libc's lock answers %d, the other %d\n", arguments[1], call.thread,
                   call.kind, libcs, ours);
            return 1;
        }
        if (ours != 0) {
            refused++;
            continue;
        }
        took++;
        if (call.kind == 12 && writer == call.thread) {
            writer = -1;
        } else if (call.kind == 12) {
            readers[call.thread]--;
        } else if (call.kind % 2 == 0) {
            readers[call.thread]++;
        } else {
            writer = call.thread;
        }
    }
    printf("took %d refused %d\n", took, refused);
    return took > 0 && refused > 0 ? 0 : 1;
}
