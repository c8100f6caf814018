/* Calls at the edges of what they allow, and the descriptors that children and other appenders share. Runs in the directory
 * argv[1]; the output must be the same on tmpfs and on the store. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
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
    volatile size_t endless = -1;
    SAY(read(d, room, endless));
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

static void space(void) {
    int reads = open(at("data"), O_RDONLY), folder = open(base, O_RDONLY | O_DIRECTORY);
    SAY(fallocate(reads, 0, 0, 4096));
    SAY(fallocate(folder, 0, 0, 4096));
    SAY(fallocate(folder, 0, -1, 4096));
    SAY(fallocate(reads, 0, 0, 0));
    SAY(posix_fallocate(reads, 0, 4096));
    SAY(ftruncate(reads, 1));
    close(reads);
    close(folder);
}

static void times(void) {
    struct timespec wrong[2] = {{1, 1000000000}, {1, 0}}, negative[2] = {{1, 0}, {1, -5}};
    int d = open(at("data"), O_RDWR);
    SAY(utimensat(AT_FDCWD, at("data"), wrong, 0));
    SAY(utimensat(AT_FDCWD, at("data"), negative, AT_SYMLINK_NOFOLLOW));
    SAY(utimensat(AT_FDCWD, at("missing"), wrong, 0));
    SAY(futimens(d, wrong));
    SAY(futimens(d, negative));
    close(d);
}

static void links(void) {
    char name[64];
    int d = open(at("gone"), O_RDWR | O_CREAT, 0600);
    SAY(unlink(at("gone")));
    snprintf(name, sizeof name, "/proc/self/fd/%d", d);
    SAY(linkat(AT_FDCWD, name, AT_FDCWD, at("back"), AT_SYMLINK_FOLLOW));
    SAY(linkat(d, "", AT_FDCWD, at("back"), AT_EMPTY_PATH));
    SAY(access(at("back"), F_OK));
    close(d);
}

static volatile int handled;
static void on_alarm(int number) { handled += number == SIGALRM; }

/* A wait for a lock goes on after a handler that was set up with SA_RESTART, and ends with EINTR after another. */
static void waits(void) {
    static const int restarts[] = {SA_RESTART, 0};
    for (int kind = 0; kind < 4; kind++) {
        int holder[2], d = open(at("lock"), O_RDWR | O_CREAT, 0600);
        char byte = 0;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int told[2];
        pipe(holder);
        pipe(told);
        pid_t child = fork();
        if (child == 0) {
            int own = open(at("lock"), O_RDWR);
            if (kind < 2) flock(own, LOCK_EX); else fcntl(own, F_SETLK, &lock);
            write(told[1], "x", 1);
            close(holder[1]);
            /* The parent's signal comes long before the end of the wait. */
            struct pollfd end = {holder[0], POLLIN, 0};
            poll(&end, 1, 1500);
            _exit(0);
        }
        close(holder[0]);
        read(told[0], &byte, 1);
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = restarts[kind % 2]};
        sigaction(SIGALRM, &action, NULL);
        /* Again and again: on a busy machine the first signal may come before the wait. */
        struct itimerval soon = {{0, 100000}, {0, 100000}}, never = {{0, 0}, {0, 0}};
        handled = 0;
        setitimer(ITIMER_REAL, &soon, NULL);
        if (kind < 2) SAY(flock(d, LOCK_EX)); else SAY(fcntl(d, F_SETLKW, &lock));
        SAY(handled > 0);
        setitimer(ITIMER_REAL, &never, NULL);
        close(holder[1]);
        close(told[0]);
        close(told[1]);
        waitpid(child, NULL, 0);
        close(d);
    }
}

static void holes(void) {
    if (is_prefix) return;
    int d = open(at("holes"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    SAY(ftruncate(d, 1 << 20));
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, d, 0);
    mapped[512 << 10] = 'x';
    SAY(lseek(d, 0, SEEK_DATA));
    SAY(lseek(d, 0, SEEK_HOLE));
    munmap(mapped, 1 << 20);
    close(d);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    snprintf(base, sizeof base, "%s", words[1]);
    is_prefix = count > 2 && strcmp(words[2], "prefix") == 0;
    appends();
    transfers();
    space();
    times();
    links();
    waits();
    holes();
    return 0;
}
