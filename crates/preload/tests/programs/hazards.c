/* What interception gets wrong first: signal handlers, threads, forks, descriptors that are closed in bulk, sent or
 * inherited. Runs in the directory argv[1]; its output must be the same on a plain directory and on the store. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char base[PATH_MAX - 64];
static int is_prefix;
static const char *self;

static char *at(const char *name) {
    static _Thread_local char paths[4][PATH_MAX];
    static _Thread_local int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", base, name);
    return path;
}

static void check(int good, const char *what) { printf("%s: %s\n", what, good ? "yes" : "NO"); fflush(stdout); }

static long size_of(const char *name) {
    struct stat status;
    return stat(at(name), &status) == 0 ? (long)status.st_size : -1;
}

/* Every record of `bytes` in the file is one letter repeated. */
static int is_whole(const char *name, int bytes, long records) {
    char record[256];
    int d = open(at(name), O_RDONLY), good = size_of(name) == bytes * records;
    for (long i = 0; good && i < records; i++) {
        good = pread(d, record, bytes, i * bytes) == bytes;
        for (int j = 1; j < bytes; j++) good = good && record[j] == record[0];
        good = good && record[0] >= 'a' && record[0] <= 'z';
    }
    close(d);
    return good;
}

static int log_descriptor;
static volatile long handled;
static void on_alarm(int signal) {
    (void)signal;
    int before = errno;
    char record[8] = "hhhhhhhh";
    if (write(log_descriptor, record, 8) == 8) handled++;
    errno = before;
}

static void signals(void) {
    log_descriptor = open(at("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    int d = open(at("busy"), O_RDWR | O_CREAT, 0600);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &timer, NULL);
    int good = 1;
    for (int i = 0; i < 2000; i++) {
        char record[16], answer[16];
        memset(record, 'a' + i % 26, 16);
        good = good && write(d, record, 16) == 16;
        good = good && pread(d, answer, 16, i * 16) == 16 && memcmp(record, answer, 16) == 0;
        void *memory = malloc(100 + i);
        free(memory);
        struct stat status;
        good = good && stat(at("busy"), &status) == 0 && status.st_size == (i + 1) * 16;
    }
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    check(good, "calls under signals are right");
    check(is_whole("busy", 16, 2000), "the file is whole");
    check(size_of("log") == handled * 8, "every write of the handler is in the log");
    close(d);
    close(log_descriptor);
}

static int shared;
static void *writer(void *letter) {
    char record[32];
    memset(record, (int)(long)letter, sizeof record);
    for (int i = 0; i < 200; i++)
        if (write(shared, record, sizeof record) != sizeof record) return (void *)1;
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    shared = open(at("threads"), O_WRONLY | O_CREAT, 0600);
    for (long i = 0; i < 4; i++) pthread_create(&all[i], NULL, writer, (void *)('a' + i));
    int good = 1;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(all[i], &result);
        good = good && result == NULL;
    }
    close(shared);
    check(good && is_whole("threads", 32, 800), "threads share an offset");
    /* Forks in the midst of it. */
    shared = open(at("threads2"), O_WRONLY | O_CREAT, 0600);
    for (long i = 0; i < 2; i++) pthread_create(&all[i], NULL, writer, (void *)('m' + i));
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct stat status;
            _exit(stat(at("threads"), &status) == 0 ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        good = good && status == 0;
    }
    for (int i = 0; i < 2; i++) pthread_join(all[i], NULL);
    close(shared);
    check(good, "children of a threaded process reach the store");
    check(is_whole("threads2", 32, 400), "forks in the midst lose nothing");
}

static void *blocked(void *pipe) {
    char byte;
    read(*(int *)pipe, &byte, 1);
    return NULL;
}

static void cancellation(void) {
    int ends[2];
    pthread_t thread;
    void *result;
    pipe(ends);
    pthread_create(&thread, NULL, blocked, &ends[0]);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    check(result == PTHREAD_CANCELED, "a blocked read is cancelled");
    close(ends[0]);
    close(ends[1]);
}

static void bulk(void) {
    int d = open(at("bulk"), O_RDWR | O_CREAT, 0600);
    check(write(d, "one", 3) == 3, "before the bulk close");
    close_range(3, ~0U, 0);
    check(write(d, "x", 1) == -1 && errno == EBADF, "closed is closed");
    d = open(at("bulk"), O_RDWR);
    check(d == 3, "the lowest number is given");
    char buffer[8];
    check(read(d, buffer, 8) == 3, "after the bulk close");
    int refused = 0;
    for (int i = 4; i < 1024; i++) refused += dup2(0, i) != i;
    struct stat status;
    check(stat(at("bulk"), &status) == 0 && pread(d, buffer, 3, 0) == 3, "after dup2 over every number");
    for (int i = 4; i < 1024; i++) close(i);
    check(write(d, "two", 3) == 3 && size_of("bulk") == 6, "after closing every number");
    (void)refused;
    close(d);
}

static void forks(void) {
    int d = open(at("forks"), O_WRONLY | O_CREAT, 0600), status = -1;
    write(d, "aaaaaaaaaa", 10);
    pid_t child = fork();
    char record[10];
    memset(record, child ? 'p' : 'c', 10);
    int good = 1;
    for (int i = 0; i < 300; i++) good = good && write(d, record, 10) == 10;
    if (child == 0) _exit(good ? 0 : 1);
    waitpid(child, &status, 0);
    check(good && status == 0 && is_whole("forks", 10, 601), "parent and child share an offset");
    close(d);
    /* vfork and exec, with a redirection in the child. */
    d = open(at("vfork"), O_RDWR | O_CREAT, 0600);
    write(d, "head ", 5);
    child = vfork();
    if (child == 0) {
        dup2(d, 1);
        execlp("echo", "echo", "tail", (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    check(status == 0 && write(d, "end", 3) == 3 && size_of("vfork") == 13, "a vfork child's output is in order");
    close(d);
    d = open(at("spawn"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    write(d, "head ", 5);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, d, 1);
    char *arguments[] = {"echo", "tail", NULL};
    check(posix_spawnp(&child, "echo", &actions, NULL, arguments, environ) == 0, "spawned");
    waitpid(child, &status, 0);
    check(write(d, "end", 3) == 3 && size_of("spawn") == 13, "a spawned child's output is in order");
    close(d);
    char command[PATH_MAX + 32];
    snprintf(command, sizeof command, "echo system >> %s", at("system"));
    check(system(command) == 0 && size_of("system") == 7, "system");
    FILE *stream = popen("cat", "r");
    check(stream != NULL && pclose(stream) == 0, "popen");
}

static void sending(void) {
    int pair[2], d = open(at("sent"), O_RDWR | O_CREAT, 0600);
    write(d, "first ", 6);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &d, sizeof d);
    sendmsg(pair[0], &message, 0);
    recvmsg(pair[1], &message, 0);
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    check(received != d && write(received, "second ", 7) == 7 && write(d, "third", 5) == 5, "a sent descriptor works");
    check(size_of("sent") == 18, "and shares its offset");
    close(received);
    close(d);
    close(pair[0]);
    close(pair[1]);
}

static void inheritance(void) {
    int d = open(at("inherited"), O_RDWR | O_CREAT, 0600), status = -1;
    write(d, "0123456789", 10);
    lseek(d, 4, SEEK_SET);
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", d);
        execl(self, self, base, is_prefix ? "prefix" : "mount", "child", number, (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    check(status == 0, "a program finds its inherited descriptor");
    char buffer[4] = {0};
    check(read(d, buffer, 2) == 2 && memcmp(buffer, "67", 2) == 0, "and moves its offset for all");
    close(d);
}

static int child_main(int d) {
    char buffer[8];
    int good = read(d, buffer, 2) == 2 && memcmp(buffer, "45", 2) == 0;
    good = good && pread(d, buffer, 3, 1) == 3 && memcmp(buffer, "123", 3) == 0;
    good = good && pwrite(d, "Z", 1, 9) == 1;
    return good ? 0 : 1;
}

static void identity(void) {
    if (geteuid() != 0 || is_prefix) return;
    int d = open(at("secret"), O_WRONLY | O_CREAT, 0600), status = -1;
    write(d, "secret", 6);
    close(d);
    chmod(base, 0755);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        struct stat found;
        int opened = open(at("secret"), O_RDONLY), number = errno;
        int refused = unlink(at("secret")) == -1 && mkdir(at("nobody"), 0700) == -1 && truncate(at("secret"), 0) == -1;
        _exit(opened == -1 && number == EACCES && refused && stat(at("secret"), &found) == 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    check(status == 0, "who gives up root has given it up on the store");
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    self = arguments[0];
    snprintf(base, sizeof base, "%s", arguments[1]);
    is_prefix = strcmp(arguments[2], "prefix") == 0;
    if (count > 4) return child_main(atoi(arguments[4]));
    signals();
    threads();
    cancellation();
    bulk();
    forks();
    sending();
    inheritance();
    identity();
    return 0;
}
