// Objects by the C interface: threads, processes, one that is killed while it writes, and careless calls.
//
// The only argument is the path of a pool that does not exist yet. Prints "all is well", or says which line failed.

#include "check.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static const char *path;

// A view of an object that must be there, with these bytes.
static cenote_object_view *seen(const cenote_objects *objects, const char *id, const char *expected) {
    cenote_object_view *view;
    const void *data;
    uint64_t size;
    IS(0, cenote_object_get(objects, id, strlen(id), NULL, &view, &data, &size));
    IS((long)strlen(expected), (long)size);
    IS(0, memcmp(data, expected, size));
    IS(0, (long)((uintptr_t)data % 64));
    return view;
}

static int put(const cenote_objects *objects, const char *id, const char *bytes) {
    return cenote_object_put(objects, id, strlen(id), bytes, strlen(bytes), NULL);
}

static int missing(const cenote_objects *objects, const char *id, const struct timespec *limit) {
    cenote_object_view *view;
    const void *data;
    uint64_t size;
    int answer = cenote_object_get(objects, id, strlen(id), limit, &view, &data, &size);
    IS(1, view == NULL && data == NULL);
    return answer;
}

static void careless(cenote_pool *pool, const cenote_objects *objects) {
    cenote_objects *none;
    cenote_object_writer *writer;
    void *room;
    struct timespec no_time = {.tv_sec = -1, .tv_nsec = 0};
    IS(EINVAL, cenote_objects_open(NULL, "a", &none));
    IS(EINVAL, cenote_objects_open_or_create(pool, "", NULL, &none));
    IS(ENOENT, cenote_objects_open(pool, "", &none));
    IS(EINVAL, cenote_objects_open(pool, NULL, &none));
    IS(ENOENT, cenote_objects_open(pool, "nothing", &none));
    IS(EINVAL, cenote_objects_open(pool, "store", NULL));
    IS(EINVAL, cenote_objects_close(NULL));
    IS(EINVAL, put(NULL, "a", "b"));
    IS(EINVAL, cenote_object_put(objects, NULL, 3, "b", 1, NULL));
    IS(EINVAL, cenote_object_put(objects, "a", 1, NULL, 3, NULL));
    IS(EINVAL, cenote_object_delete(objects, NULL, 1));
    IS(EINVAL, missing(objects, "a", &no_time));
    IS(EINVAL, cenote_object_create(objects, "a", 1, 8, NULL, NULL, &room));
    IS(EINVAL, cenote_object_create(objects, "a", 1, UINT64_MAX, NULL, &writer, &room));
    IS(ENOMEM, cenote_object_create(objects, "a", 1, 1ull << 40, NULL, &writer, &room));
    IS(1, writer == NULL && room == NULL);
    IS(EINVAL, cenote_object_seal(NULL));
    IS(EINVAL, cenote_object_abort(NULL));
    IS(EINVAL, cenote_object_view_close(NULL));
    IS(ENOENT, missing(objects, "a", NULL));
}

static void one_thread(const cenote_objects *objects) {
    struct timespec soon = {.tv_sec = 0, .tv_nsec = 1000000};
    IS(ENOENT, missing(objects, "one", NULL));
    IS(ETIMEDOUT, missing(objects, "one", &soon));
    IS(0, put(objects, "one", "first"));
    IS(EEXIST, put(objects, "one", "second"));
    cenote_object_view *first = seen(objects, "one", "first");
    cenote_object_options options = {
        .metadata = "what it is", .metadata_size = 10, .ttl_ms = 0, .replace = 1};
    IS(0, cenote_object_put(objects, "one", 3, "second", 6, &options));
    cenote_object_view *second = seen(objects, "one", "second");
    char metadata[4];
    size_t size;
    IS(ERANGE, cenote_object_metadata(second, metadata, sizeof metadata, &size));
    IS(10, (long)size);
    IS(0, memcmp(metadata, "what", 4));
    IS(0, cenote_object_metadata(first, NULL, 0, &size));
    IS(0, (long)size);
    IS(0, cenote_object_delete(objects, "one", 3));
    IS(ENOENT, cenote_object_delete(objects, "one", 3));
    IS(0, cenote_object_view_close(second));
    IS(0, cenote_object_view_close(first));
    // An empty id, and no bytes.
    IS(0, cenote_object_put(objects, NULL, 0, NULL, 0, NULL));
    IS(0, cenote_object_view_close(seen(objects, "", "")));
}

static void writers(const cenote_objects *objects) {
    cenote_object_writer *one, *two;
    void *of_one, *of_two;
    IS(0, cenote_object_create(objects, "both", 4, 3, NULL, &one, &of_one));
    IS(0, cenote_object_create(objects, "both", 4, 3, NULL, &two, &of_two));
    memcpy(of_one, "one", 3);
    memcpy(of_two, "two", 3);
    IS(ENOENT, missing(objects, "both", NULL));
    IS(0, cenote_object_seal(two));
    IS(EEXIST, cenote_object_seal(one));
    IS(0, cenote_object_view_close(seen(objects, "both", "two")));
    IS(EEXIST, cenote_object_create(objects, "both", 4, 3, NULL, &one, &of_one));
    IS(0, cenote_object_create(objects, "given up", 8, 1 << 20, NULL, &one, &of_one));
    IS(0, cenote_object_abort(one));
    IS(ENOENT, missing(objects, "given up", NULL));
}

struct shared {
    const cenote_objects *objects;
    cenote_object_view *view;
    cenote_object_writer *writer;
};

static void *elsewhere(void *of) {
    struct shared *shared = of;
    IS(0, put(shared->objects, "of a thread", "bytes"));
    IS(0, cenote_object_view_close(shared->view));
    IS(EPERM, cenote_object_seal(shared->writer));
    IS(EPERM, cenote_object_abort(shared->writer));
    return NULL;
}

static void threads(const cenote_objects *objects) {
    struct shared shared = {.objects = objects};
    pthread_t thread;
    void *room;
    IS(0, put(objects, "viewed", "by a thread"));
    shared.view = seen(objects, "viewed", "by a thread");
    IS(0, cenote_object_create(objects, "mine", 4, 4, NULL, &shared.writer, &room));
    IS(0, pthread_create(&thread, NULL, elsewhere, &shared));
    IS(0, pthread_join(thread, NULL));
    memcpy(room, "mine", 4);
    IS(0, cenote_object_seal(shared.writer));
    IS(0, cenote_object_view_close(seen(objects, "mine", "mine")));
    IS(0, cenote_object_view_close(seen(objects, "of a thread", "bytes")));
}

static void processes(const cenote_objects *objects) {
    struct timespec long_enough = {.tv_sec = 30, .tv_nsec = 0};
    pid_t child = start();
    if (child == 0) {
        cenote_pool *pool;
        cenote_objects *theirs;
        cenote_object_writer *writer;
        void *room;
        // What the parent has open is the parent's.
        IS(ESTALE, put(objects, "a", "b"));
        IS(0, cenote_pool_open(path, &pool));
        IS(0, cenote_objects_open(pool, "store", &theirs));
        IS(0, cenote_object_view_close(seen(theirs, "both", "two")));
        IS(0, cenote_object_create(theirs, "half", 4, 1 << 20, NULL, &writer, &room));
        memset(room, 1, 1 << 19);
        IS(0, put(theirs, "ready", "yes"));
        pause();
    }
    cenote_object_view *view;
    const void *data;
    uint64_t size;
    IS(0, cenote_object_get(objects, "ready", 5, &long_enough, &view, &data, &size));
    IS(0, cenote_object_view_close(view));
    IS(ENOENT, missing(objects, "half", NULL));
    IS(0, kill(child, SIGKILL));
    IS(child, waitpid(child, NULL, 0));
    IS(ENOENT, missing(objects, "half", NULL));
    IS(0, put(objects, "half", "whole"));
    IS(0, cenote_object_view_close(seen(objects, "half", "whole")));
}

// What a killed process was writing to one store is room for another one.
static void room_of_the_dead(const cenote_objects *objects) {
    static char bytes[48 << 20];
    pid_t child = start();
    if (child == 0) {
        cenote_pool *pool;
        cenote_objects *other;
        cenote_object_writer *writer;
        void *room;
        IS(0, cenote_pool_open(path, &pool));
        IS(0, cenote_objects_open_or_create(pool, "other", NULL, &other));
        IS(0, cenote_object_create(other, "large", 5, sizeof bytes, NULL, &writer, &room));
        kill(getpid(), SIGKILL);
    }
    IS(child, waitpid(child, NULL, 0));
    IS(0, cenote_object_put(objects, "large", 5, bytes, sizeof bytes, NULL));
    IS(0, cenote_object_delete(objects, "large", 5));
}

static void limits(const cenote_objects *objects) {
    static char id[4097];
    cenote_object_view *view;
    const void *data;
    uint64_t size;
    struct timespec while_it_ends = {.tv_sec = 0, .tv_nsec = 5000000};
    struct timespec long_time = {.tv_sec = 3600, .tv_nsec = 0};
    IS(EINVAL, cenote_object_get(objects, id, sizeof id, NULL, &view, &data, &size));
    IS(EINVAL, cenote_object_get(objects, id, sizeof id, &long_time, &view, &data, &size));
    IS(EINVAL, cenote_object_delete(objects, id, sizeof id));
    IS(EINVAL, cenote_object_put(objects, id, sizeof id, "", 0, NULL));
    IS(ENOENT, cenote_object_delete(objects, id, sizeof id - 1));
    cenote_object_options options = {.ttl_ms = 1};
    IS(0, cenote_object_put(objects, "short", 5, "lived", 5, &options));
    nanosleep(&while_it_ends, NULL);
    IS(ENOENT, cenote_object_delete(objects, "short", 5));
}

static void dropped(cenote_pool *pool) {
    cenote_objects *objects, *again;
    IS(EINVAL, cenote_objects_drop(NULL, "gone"));
    IS(EINVAL, cenote_objects_drop(pool, NULL));
    IS(EINVAL, cenote_objects_drop(pool, ""));
    IS(ENOENT, cenote_objects_drop(pool, "gone"));
    IS(0, cenote_objects_open_or_create(pool, "gone", NULL, &objects));
    IS(0, put(objects, "a", "seen"));
    cenote_object_view *view = seen(objects, "a", "seen");
    const void *data;
    uint64_t size;
    cenote_object_view *other;
    IS(0, cenote_object_get(objects, "a", 1, NULL, &other, &data, &size));
    IS(0, cenote_objects_drop(pool, "gone"));
    IS(EIDRM, put(objects, "b", "late"));
    IS(EIDRM, missing(objects, "a", NULL));
    IS(0, memcmp(data, "seen", 4));
    IS(0, cenote_object_view_close(other));
    IS(0, cenote_objects_open_or_create(pool, "gone", NULL, &again));
    IS(ENOENT, missing(again, "a", NULL));
    IS(0, put(again, "a", "new"));
    IS(EIDRM, put(objects, "b", "late"));
    IS(0, cenote_object_view_close(view));
    IS(0, cenote_objects_close(objects));
    IS(0, cenote_object_view_close(seen(again, "a", "new")));
    IS(0, cenote_objects_close(again));
    IS(0, cenote_objects_drop(pool, "gone"));
}

static cenote_objects *at_exit;

static void last(void) {
    IS(0, put(at_exit, "last", "words"));
    IS(0, cenote_object_view_close(seen(at_exit, "last", "words")));
    IS(0, cenote_object_delete(at_exit, "last", 4));
    IS(0, cenote_objects_close(at_exit));
}

int main(int count, char **arguments) {
    cenote_pool *pool;
    cenote_objects *objects, *cache;
    path = count > 1 ? arguments[1] : "/dev/shm/cenote-objects";
    cenote_options options = {.size = 1 << 20, .max = 64 << 20};
    IS(0, cenote_pool_create(path, &options, &pool));
    IS(0, cenote_objects_open_or_create(pool, "store", NULL, &objects));
    careless(pool, objects);
    one_thread(objects);
    writers(objects);
    threads(objects);
    processes(objects);
    room_of_the_dead(objects);
    limits(objects);
    dropped(pool);
    // A cache holds the newest, and refuses nothing that fits.
    cenote_objects_options settings = {.quota = 1 << 20, .ttl_ms = 0, .evict = 1};
    IS(0, cenote_objects_open_or_create(pool, "cache", &settings, &cache));
    static char bytes[100000];
    for (int n = 0; n < 50; n++) {
        IS(0, cenote_object_put(cache, &n, sizeof n, bytes, sizeof bytes, NULL));
    }
    settings.quota = 10000;
    settings.evict = 0;
    cenote_objects *small;
    IS(0, cenote_objects_open_or_create(pool, "small", &settings, &small));
    IS(EDQUOT, cenote_object_put(small, "a", 1, bytes, sizeof bytes, NULL));
    IS(0, cenote_objects_close(small));
    IS(0, cenote_objects_close(cache));
    IS(0, cenote_objects_close(objects));
    IS(0, cenote_objects_open(pool, "store", &at_exit));
    IS(0, put(at_exit, "first", "words"));
    atexit(last);
    IS(0, cenote_pool_close(pool));
    puts("all is well");
    return 0;
}
