/* Calls at the edges of what they allow, and the descriptors that children and other appenders share. Runs in the directory
 * argv[1]; the output must be the same on tmpfs and on the store. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

extern char **environ;
static int is_prefix;

/* Bytes that one call moves at most (MAX_RW_COUNT). */
#define CALL_BYTES 0x7ffff000L

static void run_child(int way) {
    pid_t child = 0;
    char *words[] = {"true", NULL};
    if (way == 0) child = fork();
    if (way == 1) posix_spawnp(&child, "true", NULL, NULL, words, environ);
    if (way == 2) system("true");
    if (way == 0 && child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
}

static void appends(void) {
    for (int way = 0; way < 4; way++) {
        struct stat status;
        int d = open(at("log"), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
        SAY(write(d, "0123456789", 10));
        run_child(way);
        SAY(write(d, "abcde", 5));
        SAY(lseek(d, 0, SEEK_CUR));
        /* Another appender, with a description of its own. */
        int other = open(at("log"), O_WRONLY | O_APPEND);
        SAY(write(other, "other", 5));
        SAY(lseek(other, 0, SEEK_CUR));
        SAY(lseek(d, 0, SEEK_CUR));
        SAY(write(d, "xyz", 3));
        SAY(lseek(d, 0, SEEK_CUR));
        SAY(fstat(d, &status));
        SAY(status.st_size);
        pid_t child = fork();
        if (child == 0) {
            write(d, "child", 5);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        SAY(lseek(d, 0, SEEK_CUR));
        SAY(ftruncate(d, 4));
        SAY(write(d, "!", 1));
        SAY(lseek(d, 0, SEEK_CUR));
        SAY(fcntl(d, F_SETFL, 0));
        SAY(lseek(d, 1, SEEK_SET));
        SAY(write(d, "--", 2));
        SAY(lseek(d, 0, SEEK_CUR));
        close(other);
        close(d);
    }
}

static void transfers(void) {
    long length = CALL_BYTES + (1 << 20);
    char *room = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int d = open(at("data"), O_RDWR | O_CREAT | O_TRUNC, 0600), folder = open(base, O_RDONLY | O_DIRECTORY);
    int reads = open(at("data"), O_RDONLY), writes = open(at("data"), O_WRONLY);
    struct iovec parts[2] = {{room, 4}, {room + 4096, length - 4096}}, wrong[2] = {{room, 4}, {room, -1}};
    SAY(write(d, "hello world", 11));
    SAY(pread(d, room, length, 0));
    SAY(lseek(d, 3, SEEK_SET));
    SAY(read(d, room, length));
    SAY(preadv(d, parts, 2, 0));
    SAY(lseek(d, 3, SEEK_SET));
    SAY(readv(d, parts, 2));
    SAY(readv(d, wrong, 2));
    SAY(read(d, room, -1));
    SAY(write(reads, room, length));
    SAY(read(writes, room, length));
    SAY(pwrite(d, "x", 1, LONG_MAX));
    SAY(pread(d, room, 1, LONG_MAX));
    SAY(lseek(d, LONG_MAX, SEEK_SET) == LONG_MAX);
    SAY(write(d, "x", 1));
    SAY(writev(d, parts, 1));
    SAY(read(d, room, 1));
    SAY(write(d, "x", 0));
    SAY(lseek(d, 0, SEEK_CUR) == LONG_MAX);
    SAY(write(folder, "x", 1));
    SAY(write(folder, "x", 0));
    SAY(pwrite(folder, "x", 1, 0));
    SAY(writev(folder, parts, 1));
    SAY(read(folder, room, 1));
    SAY(pread(folder, room, 1, 0));
    munmap(room, length);
    close(d);
    close(reads);
    close(writes);
    close(folder);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    snprintf(base, sizeof base, "%s", words[1]);
    is_prefix = count > 2 && strcmp(words[2], "prefix") == 0;
    (void)is_prefix;
    appends();
    transfers();
    return 0;
}
