/* Put before the C library (LD_PRELOAD), what positioned reads of shards do on network disks: answer that the handle is
   stale so many times before each good answer in a thread (STALE), or bring at most so many bytes (SHORT). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread int refused;

static int number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static int is_shard(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 4 && !memcmp(path + length - 4, ".tar", 4);
}

static int is_stale(int descriptor) {
    if (!is_shard(descriptor) || !number("STALE"))
        return 0;
    if (refused++ < number("STALE")) {
        errno = ESTALE;
        return 1;
    }
    refused = 0;
    return 0;
}

static size_t shortened(int descriptor, size_t count) {
    size_t most = number("SHORT");
    return most && count > most && is_shard(descriptor) ? most : count;
}

ssize_t pread64(int descriptor, void *into, size_t count, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real)
        real = dlsym(RTLD_NEXT, "pread64");
    return is_stale(descriptor) ? -1 : real(descriptor, into, shortened(descriptor, count), at);
}

ssize_t preadv64v2(int descriptor, const struct iovec *into, int count, off64_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off64_t, int);
    if (!real)
        real = dlsym(RTLD_NEXT, "preadv64v2");
    if (is_stale(descriptor))
        return -1;
    struct iovec first = into[0];
    first.iov_len = shortened(descriptor, first.iov_len);
    if (first.iov_len < into[0].iov_len)
        return real(descriptor, &first, 1, at, flags);
    return real(descriptor, into, count, at, flags);
}

ssize_t preadv2(int descriptor, const struct iovec *into, int count, off_t at, int flags) {
    return preadv64v2(descriptor, into, count, at, flags);
}

ssize_t preadv64(int descriptor, const struct iovec *into, int count, off64_t at) {
    return preadv64v2(descriptor, into, count, at, 0);
}

ssize_t pread(int descriptor, void *into, size_t count, off_t at) { return pread64(descriptor, into, count, at); }

ssize_t preadv(int descriptor, const struct iovec *into, int count, off_t at) {
    return preadv64(descriptor, into, count, at);
}
