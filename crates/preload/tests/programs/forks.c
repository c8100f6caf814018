/* A handler that `pthread_atfork` registered before the first call on the store. argv[2] says what the handler does, and
 * when: 'p' before the fork, 'o' in the parent, 'c' in the child, 's' whenever a signal comes during many forks. Runs in the
 * directory argv[1]. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

/* No wait of the child is longer: a child that hangs ends by the signal. */
enum { PATIENCE_SECONDS = 60, FORKS = 300, SIGNALS_EACH_MICROSECONDS = 500 };

static int ends[2], descriptor = -1;
static char what;

static void handler(void) {
    if (what == 'w') write(ends[1], "x", 1);
    if (what == 'n') close(open("/dev/null", O_RDONLY));
    if (what == 's') write(descriptor, "s", 1);
    if (what == 'f') { FILE *f = fopen("/dev/null", "r"); fclose(f); }
    if (what == 'm') { int d = open(at("made"), O_CREAT | O_WRONLY | O_APPEND, 0644); write(d, "m", 1); close(d); }
    if (what == 'r') { int d = open(at("file"), O_RDONLY); char byte; read(d, &byte, 1); close(d); }
}

static void on_signal(int number) { (void)number; handler(); }

/* Forks under a hail of signals. Another process ends this one if it hangs. */
static void fork_under_signals(void) {
    pid_t watcher = fork();
    if (watcher == 0) {
        sleep(PATIENCE_SECONDS);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval each = {{0, SIGNALS_EACH_MICROSECONDS}, {0, SIGNALS_EACH_MICROSECONDS}}, none = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
    int ended = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        ended += waitpid(child, NULL, 0) == child;
    }
    setitimer(ITIMER_REAL, &none, NULL);
    SAY(ended);
    kill(watcher, SIGKILL);
    waitpid(watcher, NULL, 0);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    snprintf(base, sizeof base, "%s", words[1]);
    what = words[2][1];
    char when = words[2][0];
    pthread_atfork(when == 'p' ? handler : NULL, when == 'o' ? handler : NULL, when == 'c' ? handler : NULL);
    pipe2(ends, O_NONBLOCK);
    descriptor = open(at("file"), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    SAY(write(descriptor, "a", 1));
    if (when == 's') fork_under_signals();
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE_SECONDS);
        write(descriptor, "c", 1);
        _exit(3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    SAY(status);
    SAY(write(descriptor, "b", 1));
    SAY(lseek(descriptor, 0, SEEK_CUR));
    struct stat found;
    SAY(fstat(descriptor, &found));
    SAY(found.st_size);
    SAY(stat(at("made"), &found));
    unlink(at("made"));
    return 0;
}
