/* Makes files in many ways, and says of each what a recorder must have seen: `NAME SIZE WRITTEN` a line.
 *   recorded FOLDER [mapped]    `mapped`: also by a shared mapping, and by freopen
 * FOLDER is entered: all names but one are relative. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, WRITES = 2000 };

static char block[4096];
static int lines[2];

static void check(int right, const char *what) {
    if (!right) {
        perror(what);
        exit(1);
    }
}

static int made(const char *name, int flags) {
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC | flags, 0644);
    check(file >= 0, name);
    return file;
}

static void all(int file, size_t count) {
    check(write(file, block, count) == (ssize_t)count, "write");
}

static void tell(const char *name, long size, long written) {
    dprintf(lines[1], "%s %ld %ld\n", name, size, written);
}

static void offsets(void) {
    int file = made("sparse", 0);
    check(pwrite(file, block, 10, 5000) == 10, "pwrite");
    all(file, 100);
    check(lseek(file, 7000, SEEK_SET) == 7000, "lseek");
    all(file, 1);
    check(lseek(file, 0, SEEK_SET) == 0, "lseek");
    struct iovec parts[2] = {{block, 30}, {block, 12}};
    check(writev(file, parts, 2) == 42, "writev");
    check(pwritev(file, parts, 2, 100) == 42, "pwritev");
    check(close(file) == 0, "close");
    tell("sparse", 7001, 10 + 100 + 1 + 42 + 42);

    file = open("read-between", O_CREAT | O_RDWR | O_TRUNC, 0644);
    check(file >= 0, "read-between");
    all(file, 4000);
    check(lseek(file, 10, SEEK_SET) == 10, "lseek");
    all(file, 10);
    check(read(file, block, 1000) == 1000, "read");
    all(file, 10);
    close(file);
    tell("read-between", 4000, 4020);

    file = made("appended", O_APPEND);
    all(file, 10);
    close(file);
    file = open("appended", O_WRONLY | O_APPEND);
    all(file, 20);
    check(pwrite(file, block, 5, 0) == 5, "pwrite to the end");
    close(file);
    tell("appended", 35, 35);

    file = (int)syscall(SYS_openat, AT_FDCWD, "by-number", O_CREAT | O_WRONLY, 0644);
    check(syscall(SYS_write, file, block, 11) == 11, "write by number");
    syscall(SYS_close, file);
    tell("by-number", 11, 11);

    file = open("existing", O_WRONLY);
    check(file >= 0 && pwrite(file, block, 3, 1) == 3, "existing");
    close(file);
    tell("existing", 4, 3);
}

static void duplicates(void) {
    int file = made("duplicated", 0);
    int second = dup(file), third = fcntl(file, F_DUPFD_CLOEXEC, 50);
    all(file, 1);
    close(file);
    file = made("in-between", 0);
    all(file, 7);
    all(second, 2);
    check(dup2(file, second) == second, "dup2");
    all(second, 3);
    all(third, 4);
    check(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0, "close_range");
    close(second);
    close(third);
    close(file);
    tell("duplicated", 7, 7);
    tell("in-between", 10, 10);
}

static void *writer(void *argument) {
    long number = (long)argument;
    int file = open("by-threads", O_WRONLY);
    check(file >= 0, "by-threads");
    for (long index = 0; index < WRITES; index++)
        check(pwrite(file, block, 8, (index * THREADS + number) * 8) == 8, "pwrite");
    close(file);
    return NULL;
}

static void threads(void) {
    pthread_t threads[THREADS];
    close(made("by-threads", 0));
    for (long index = 0; index < THREADS; index++)
        check(pthread_create(&threads[index], NULL, writer, (void *)index) == 0, "pthread_create");
    for (int index = 0; index < THREADS; index++)
        pthread_join(threads[index], NULL);
    tell("by-threads", 8L * WRITES * THREADS, 8L * WRITES * THREADS);
}

static void children(const char *self) {
    int status, file = made("with-child", 0);
    all(file, 10);
    pid_t child = fork();
    if (child == 0) {
        all(file, 20);
        int own = made("of-child", 0);
        all(own, 5);
        _exit(0);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "fork");
    all(file, 30);
    close(file);
    tell("with-child", 60, 60);
    tell("of-child", 5, 5);

    file = made("inherited", 0);
    all(file, 4);
    child = vfork();
    if (child == 0) {
        dup2(file, 1);
        execl(self, self, "--write", NULL);
        _exit(127);
    }
    check(waitpid(child, &status, 0) == child && status == 0, "vfork");
    all(file, 4);
    close(file);
    tell("inherited", 14, 14);

    check(system("echo shell > by-shell; echo more >> by-shell") == 0, "system");
    tell("by-shell", 11, 11);
}

static void streams(void) {
    FILE *stream = fopen("stream", "w");
    check(stream != NULL, "fopen");
    for (int index = 0; index < 1000; index++)
        fprintf(stream, "%09d\n", index);
    check(fclose(stream) == 0, "fclose");
    tell("stream", 10000, 10000);

    stream = fdopen(made("descriptor-stream", 0), "w");
    fputs("0123456789", stream);
    fclose(stream);
    tell("descriptor-stream", 10, 10);

    stream = fopen("left-open", "w");
    fputs("written at exit", stream);
    tell("left-open", 15, 15);

    int file = made("printed", 0);
    dprintf(file, "%d\n", 12345);
    close(file);
    tell("printed", 6, 6);
}

static void others(void) {
    char name[] = "temporary-XXXXXX";
    int file = mkstemp(name);
    check(file >= 0, "mkstemp");
    all(file, 9);
    close(file);
    check(rename(name, "renamed") == 0, "rename");
    tell(name, 9, 9);

    int input = open("stream", O_RDONLY);
    file = made("sent", 0);
    check(sendfile(file, input, NULL, 500) == 500, "sendfile");
    close(file);
    tell("sent", 500, 500);
    file = made("copied", 0);
    loff_t from = 0;
    check(copy_file_range(input, &from, file, NULL, 600, 0) == 600, "copy_file_range");
    close(file);
    close(input);
    tell("copied", 600, 600);

    close(made("empty", 0));
    tell("empty", 0, 0);
    close(made("gone", 0));
    check(unlink("gone") == 0, "unlink");
    tell("gone", 0, 0);
}

static int signalled;

static void handler(int number) {
    (void)number;
    int file = open("from-handler", O_CREAT | O_WRONLY, 0644);
    signalled = write(file, block, 12) == 12 && close(file) == 0;
}

static void signals(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    check(signalled, "handler");
    tell("from-handler", 12, 12);
}

static void mapped(void) {
    int file = open("mapped", O_CREAT | O_RDWR | O_TRUNC, 0644);
    check(ftruncate(file, 10000) == 0, "ftruncate");
    char *memory = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(memory != MAP_FAILED, "mmap");
    memset(memory, 'm', 10000);
    munmap(memory, 10000);
    close(file);
    tell("mapped", 10000, 10000);
    FILE *stream = fopen("first", "w");
    fputs("one", stream);
    stream = freopen("second", "w", stream);
    check(stream != NULL, "freopen");
    fputs("second", stream);
    fclose(stream);
    tell("first", 3, 3);
    tell("second", 6, 6);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--write") == 0)
        return write(1, "inside", 6) != 6;
    check(count >= 2 && pipe2(lines, O_CLOEXEC) == 0 && chdir(arguments[1]) == 0, arguments[1]);
    /* What is told stays in the pipe until the end: shorter than it. */
    offsets();
    duplicates();
    threads();
    children(arguments[0]);
    streams();
    others();
    signals();
    if (count > 2)
        mapped();
    close(lines[1]);
    static char text[65536];
    ssize_t length = read(lines[0], text, sizeof text);
    check(length > 0 && write(1, text, (size_t)length) == length, "result");
    return 0;
}
