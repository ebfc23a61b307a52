// What the test programs have in common: checks that say where they fail, and processes that end with their parent.

#ifndef CHECK_H
#define CHECK_H

#include <cenote.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void is(const char *file, int line, const char *call, long expected, long found) {
    if (expected != found) {
        fprintf(stderr, "%s:%d: %s: %ld instead of %ld (%s)\n", file, line, call, found, expected,
                cenote_last_error());
        exit(1);
    }
}

#define IS(expected, call) is(__FILE__, __LINE__, #call, (expected), (call))

// Starts a process; it is killed when this one ends. 0 in the child.
static inline pid_t start(void) {
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

static inline void ends_well(pid_t child) {
    int status;
    IS(child, waitpid(child, &status, 0));
    IS(1, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
