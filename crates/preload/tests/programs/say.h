/* What programs share that print the answers of calls in a directory. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static char base[PATH_MAX - 64];

static char *at(const char *name) {
    static char paths[8][PATH_MAX];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", base, name);
    return path;
}

#define SAY(call) do { errno = 0; long answer_ = (long)(call); \
    printf("%-58.58s = %ld%s%s\n", #call, answer_, answer_ < 0 ? " " : "", answer_ < 0 ? strerrorname_np(errno) : ""); \
    fflush(stdout); } while (0)
