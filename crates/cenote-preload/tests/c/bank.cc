// A program on Kyoto Cabinet: processes take turns on one database file, under a process-shared lock of pthread's.
//
// `bank DATABASE PROCESSES ROUNDS`: each turn opens the database, moves money between accounts and counts the turn, in a transaction, and closes it. One
// process is killed in the middle of a turn, with the database open and the lock taken. Prints "turns N sum N".

#include <kchashdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static const int ACCOUNTS = 16;
static const int64_t EACH = 1000;

struct Shared {
    pthread_rwlock_t lock;
    volatile int has_it;
};

static void must(bool is, const char *what) {
    if (!is) {
        std::fprintf(stderr, "%s failed\n", what);
        std::exit(1);
    }
}

#define MUST(call) must((call), #call)

static void open(kyotocabinet::HashDB &db, const std::string &path) {
    using kyotocabinet::HashDB;
    MUST(db.open(path, HashDB::OWRITER | HashDB::OCREATE));
}

static void turn(const std::string &path, unsigned &seed, Shared *dies) {
    kyotocabinet::HashDB db;
    open(db, path);
    MUST(db.begin_transaction());
    int64_t amount = rand_r(&seed) % 100;
    int from = rand_r(&seed) % ACCOUNTS, to = rand_r(&seed) % ACCOUNTS;
    MUST(db.increment(std::to_string(from), -amount) != kyotocabinet::INT64MIN);
    if (dies != NULL) {
        dies->has_it = 1;
        pause();
    }
    MUST(db.increment(std::to_string(to), amount) != kyotocabinet::INT64MIN);
    MUST(db.increment("turns", 1) != kyotocabinet::INT64MIN);
    MUST(db.end_transaction(true));
    MUST(db.close());
}

static pid_t start() {
    pid_t parent = getpid();
    std::fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

int main(int count, char **arguments) {
    MUST(count == 4);
    alarm(100);
    std::string path = arguments[1];
    int processes = std::atoi(arguments[2]), rounds = std::atoi(arguments[3]);
    {
        kyotocabinet::HashDB db;
        open(db, path);
        for (int account = 0; account < ACCOUNTS; account++) {
            MUST(db.increment(std::to_string(account), EACH) == EACH);
        }
        MUST(db.close());
    }
    Shared *shared = (Shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlockattr_t attribute;
    MUST(pthread_rwlockattr_init(&attribute) == 0);
    MUST(pthread_rwlockattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED) == 0);
    MUST(pthread_rwlock_init(&shared->lock, &attribute) == 0);
    pid_t victim = start();
    if (victim == 0) {
        unsigned seed = 0;
        MUST(pthread_rwlock_wrlock(&shared->lock) == 0);
        turn(path, seed, shared);
    }
    while (!shared->has_it) {
        usleep(1000);
    }
    std::vector<pid_t> children;
    for (int n = 0; n < processes; n++) {
        pid_t child = start();
        if (child == 0) {
            unsigned seed = n + 1;
            for (int round = 0; round < rounds; round++) {
                MUST(pthread_rwlock_wrlock(&shared->lock) == 0);
                turn(path, seed, NULL);
                MUST(pthread_rwlock_unlock(&shared->lock) == 0);
            }
            std::exit(0);
        }
        children.push_back(child);
    }
    usleep(50000);
    MUST(kill(victim, SIGKILL) == 0);
    MUST(waitpid(victim, NULL, 0) == victim);
    for (pid_t child : children) {
        int status;
        MUST(waitpid(child, &status, 0) == child);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    kyotocabinet::HashDB db;
    open(db, path);
    int64_t sum = 0;
    for (int account = 0; account < ACCOUNTS; account++) {
        sum += db.increment(std::to_string(account), 0);
    }
    std::printf("turns %lld sum %lld\n", (long long)db.increment("turns", 0), (long long)sum);
    MUST(db.close());
    MUST(pthread_rwlock_destroy(&shared->lock) == 0);
    return 0;
}
