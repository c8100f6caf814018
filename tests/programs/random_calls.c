/* Plays steps of random calls: one line of its input is one step, one line of its output the answer.
 *
 *     random_calls              the steps come from standard input
 *
 * `tests/random_calls` has the steps, and compares the answers on several file systems. A step that forks, spawns or
 * executes gives the input and the output on to the new process, and `exit` gives them back.
 */

#include "random_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_BYTES = 4 * PATH_MAX,
    /* Times before this one were set by a step. */
    SET_SECONDS_MAX = 1000000000,
};

extern char **environ;

int descriptors[SLOTS];
char root[ROOT_BYTES];
unsigned char buffer[BUFFER_BYTES];

static char line[LINE_BYTES];
static char *rest;
static char *answer;
static size_t answer_bytes, answer_room;
/* How many processes gave their input to this one. */
static int depth;
static char *program;

const char *word(void) {
    const char *found = strtok_r(NULL, " \n", &rest);
    return found ? found : "";
}

long long number(void) { return strtoll(word(), NULL, 0); }

int slot(void) { return (int)((unsigned long long)number() % SLOTS); }

int descriptor(void) { return descriptors[slot()]; }

struct place place(void) {
    const char *base = word(), *path = word();
    if (strcmp(path, "-") == 0)
        path = "";
    struct place found = {.is_plain = *base == '.' || *base == '/', .at = AT_FDCWD};
    if (*base == '/')
        snprintf(found.path, sizeof found.path, "%s/%s", root, path);
    else
        snprintf(found.path, sizeof found.path, "%s", path);
    if (*base >= '0' && *base <= '9')
        found.at = descriptors[(*base - '0') % SLOTS];
    return found;
}

void keep(int which, int opened) {
    if (opened >= 0 && descriptors[which] >= 0 && descriptors[which] != opened)
        close(descriptors[which]);
    if (opened >= 0)
        descriptors[which] = opened;
    outcome(opened);
}

void say(const char *format, ...) {
    char text[PATH_MAX * 2];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (answer_bytes + (size_t)length + 2 > answer_room) {
        answer_room = 2 * (answer_room + (size_t)length + 2);
        answer = realloc(answer, answer_room);
        if (!answer)
            abort();
    }
    memcpy(answer + answer_bytes, text, (size_t)length);
    answer_bytes += (size_t)length;
}

bool outcome(long long result) {
    if (result < 0)
        say("%s", strerrorname_np(errno));
    else
        say("%lld", result);
    return result >= 0;
}

void say_bytes(const unsigned char *bytes, size_t count) {
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && bytes[end] == bytes[begin]; end++)
            ;
        say(" %02x*%zu", bytes[begin], end - begin);
    }
}

static void say_time(const char *name, const struct timespec *moment) {
    if (moment->tv_sec < SET_SECONDS_MAX)
        say(" %s=%lld.%09ld", name, (long long)moment->tv_sec, moment->tv_nsec);
    else
        say(" %s=now", name);
}

void say_status(const struct stat *status) {
    say(" mode=%o links=%lu owner=%u:%u inode=%lu", status->st_mode, (unsigned long)status->st_nlink, status->st_uid,
        status->st_gid, (unsigned long)status->st_ino);
    if (!S_ISDIR(status->st_mode))
        say(" size=%lld", (long long)status->st_size);
    say_time("modified", &status->st_mtim);
}

static void send_answer(void) {
    answer[answer_bytes++] = '\n';
    for (size_t sent = 0; sent < answer_bytes;) {
        ssize_t part = write(STDOUT_FILENO, answer + sent, answer_bytes - sent);
        if (part <= 0)
            _exit(1);
        sent += (size_t)part;
    }
    answer_bytes = 0;
}

/* Lines come one by one, each after the answer to the one before, so no process reads what another one was sent. */
static bool read_line(void) {
    size_t length = 0;
    while (length == 0 || line[length - 1] != '\n') {
        ssize_t part = read(STDIN_FILENO, line + length, sizeof line - 1 - length);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        length += (size_t)part;
    }
    line[length] = 0;
    return true;
}

/* `reset ROOT`, in the first process: forget all that the last sequence has left, and begin in the directory of the next. */
static void reset(void) {
    close_streams();
    close_mappings();
    for (int each = 0; each < SLOTS; each++) {
        if (descriptors[each] >= 0)
            close(descriptors[each]);
        descriptors[each] = -1;
    }
    umask(022);
    snprintf(root, sizeof root, "%s", word());
    outcome(chdir(root));
}

/* Wait for the process that got the input. Its `exit` is answered here. */
static void await(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    answer_bytes = 0;
    if (WIFSIGNALED(status))
        say("killed by %s", sigabbrev_np(WTERMSIG(status)));
    else
        say("ended %d", WEXITSTATUS(status));
}

static void fork_step(void) {
    pid_t child = fork();
    if (child > 0) {
        await(child);
        return;
    }
    if (child == 0)
        depth++;
    outcome(child);
}

/* The arguments with which this program goes on in a new process. */
static char **arguments(int deeper) {
    static char texts[SLOTS + 1][16];
    static char *all[SLOTS + 5];
    int count = 0;
    all[count++] = program;
    all[count++] = root;
    snprintf(texts[SLOTS], sizeof texts[SLOTS], "%d", depth + deeper);
    all[count++] = texts[SLOTS];
    for (int each = 0; each < SLOTS; each++) {
        snprintf(texts[each], sizeof texts[each], "%d", descriptors[each]);
        all[count++] = texts[each];
    }
    all[count] = NULL;
    return all;
}

static void spawn_step(void) {
    pid_t child;
    errno = posix_spawn(&child, program, NULL, NULL, arguments(1), environ);
    if (errno == 0)
        await(child);
    else
        outcome(-1);
}

static void exec_step(void) {
    execv(program, arguments(0));
    outcome(-1);
}

static void exit_step(void) {
    if (depth > 0)
        _exit(0);
    say("stays");
}

static void umask_step(void) { outcome(umask((mode_t)number())); }

const struct command process_commands[] = {
    {"reset", reset},    {"fork", fork_step},  {"spawn", spawn_step}, {"exec", exec_step},
    {"exit", exit_step}, {"umask", umask_step}, {NULL, NULL},
};

static void play(void) {
    const struct command *tables[] = {process_commands, name_commands, file_commands, stream_commands};
    const char *name = strtok_r(line, " \n", &rest);
    for (size_t table = 0; name && table < sizeof tables / sizeof *tables; table++)
        for (const struct command *each = tables[table]; each->name; each++)
            if (strcmp(each->name, name) == 0) {
                each->run();
                return;
            }
    fprintf(stderr, "unknown step %s\n", name ? name : "");
    exit(2);
}

int main(int count, char **words) {
    program = words[0];
    for (int each = 0; each < SLOTS; each++)
        descriptors[each] = count > 3 + each ? atoi(words[3 + each]) : -1;
    if (count > 2) {
        snprintf(root, sizeof root, "%s", words[1]);
        depth = atoi(words[2]);
        say("goes on");
        send_answer();
    }
    while (read_line()) {
        play();
        send_answer();
    }
    return 0;
}
