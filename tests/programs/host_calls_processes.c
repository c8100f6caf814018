/* Cases of calls on processes, messages, readiness and limits; and of system calls by number. */
#include "host_calls.h"
#include <dlfcn.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <threads.h>

/* ---- processes ---- */

static void own_fork(const char *name, void *function) {
    (void)name;
    if (!begin("()")) return;
    int status = 0;
    errno = 0;
    volatile pid_t child = CALL(int);
    if (child == 0) BARE(SYS_exit_group, 7);
    result(child > 0);
    BARE(SYS_wait4, child, &status, 0, 0);
    also("status %x", status);
    end();
}

static void note_before(void) { write(worlds[EMPTY_FILE], "before", 6); }
static void note_parent(void) { write(worlds[EMPTY_FILE], "parent", 6); }
static void note_child(void) { write(worlds[EMPTY_FILE], "child", 5); }

static void own_handlers(const char *name, void *function) {
    (void)name;
    for (int which = 0; which < 8; which++) {
        if (!begin("(%d)", which)) continue;
        IN_CHILD {
            errno = 0;
            result(CALL(int, which & 1 ? note_before : NULL, which & 2 ? note_parent : NULL, which & 4 ? note_child : NULL, NULL));
            pid_t child = fork();
            if (child == 0) BARE(SYS_exit_group, 7);
            BARE(SYS_wait4, child, NULL, 0, 0);
        }
        end();
    }
}

static void own_library(const char *name, void *function) {
    (void)name;
    static const char *const files[] = {"libm.so.6", "/no/such/library.so", "no-such-library.so", "data", "./data", "", NULL};
    static const int ways[] = {RTLD_NOW, RTLD_LAZY | RTLD_NOLOAD, 0};
    EACH(i, files) EACH(j, ways) {
        if (!begin("(%s,%x)", files[i] ? files[i] : "null", ways[j])) continue;
        IN_CHILD {
            dlerror();
            errno = 0;
            void *handle = CALL(void *, files[i], ways[j]);
            also("%s %s", handle ? "handle" : "none", handle ? "-" : dlerror());
        }
        end();
    }
}

pid_t __vfork(void) __attribute__((returns_twice));

static void own_vfork(const char *name, void *function) {
    (void)function;
    if (!begin("()")) return;
    int status = 0;
    errno = 0;
    /* By its name alone: the compiler has to know that it returns twice. */
    volatile pid_t child = *name == '_' ? __vfork() : vfork();
    if (child == 0) {
        write(worlds[EMPTY_FILE], "child", 5);
        _exit(7);
    }
    result(child > 0);
    BARE(SYS_wait4, child, &status, 0, 0);
    also("status %x", status);
    end();
}

static int in_clone(void *argument) {
    write(worlds[EMPTY_FILE], argument, 5);
    return 9;
}

static void own_clone(const char *name, void *function) {
    (void)name;
    static char stack[1 << 16] __attribute__((aligned(16)));
    static const int flags[] = {SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD, CLONE_FILES | SIGCHLD, CLONE_THREAD};
    EACH(i, flags) {
        if (!begin("(%x)", flags[i])) continue;
        int status = 0;
        errno = 0;
        long child = CALL(int, in_clone, stack + sizeof stack, flags[i], "clone");
        result(child > 0 ? 1 : child);
        if (child > 0) BARE(SYS_wait4, child, &status, 0, 0);
        also("status %x", status);
        end();
    }
    if (begin("(no function)")) {
        errno = 0;
        result(CALL(int, NULL, stack + sizeof stack, SIGCHLD, NULL));
        end();
    }
}

static const char *const programs[] = {"./script", "script", "missing", "./file", "folder", "secret", "", "sh", "/bin/sh", "locked/inside"};
static char *const arguments[] = {"name", "-c", "exit 7", NULL};
static char *const variables[] = {"A=1", "PATH=/bin", NULL};

static void own_spawn(const char *name, void *function) {
    (void)name;
    EACH(i, programs) {
        if (!begin("(%s)", programs[i])) continue;
        pid_t child = -1;
        int status = 0;
        errno = 0;
        result(CALL(int, &child, programs[i], NULL, NULL, arguments, variables));
        if (child > 0) BARE(SYS_wait4, child, &status, 0, 0);
        also("status %x", status);
        end();
    }
    if (begin("(actions)")) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_CREAT, 0600);
        char *const words[] = {"sh", "-c", "echo $A", NULL};
        pid_t child = -1;
        int status = 0;
        errno = 0;
        result(CALL(int, &child, "/bin/sh", &actions, NULL, words, variables));
        if (child > 0) BARE(SYS_wait4, child, &status, 0, 0);
        also("status %x", status);
        end();
    }
    char *const *bad[] = {(char *const *)forbidden, NULL};
    EACH(i, bad) {
        if (!begin("(bad environment %zu)", i)) continue;
        pid_t child = -1;
        int status = 0;
        errno = 0;
        result(CALL(int, &child, "/bin/sh", NULL, NULL, arguments, bad[i]));
        if (child > 0) BARE(SYS_wait4, child, &status, 0, 0);
        also("status %x", status);
        end();
    }
}

static void execute(const char *name, void *function, const char *program, char *const *environment) {
    if (!strcmp(name, "execv") || !strcmp(name, "execvp")) result(CALL(int, program, arguments));
    else if (!strcmp(name, "execl") || !strcmp(name, "execlp")) result(CALL(int, program, "name", "-c", "exit 7", NULL));
    else if (!strcmp(name, "execle")) result(CALL(int, program, "name", "-c", "exit 7", NULL, environment));
    else if (!strcmp(name, "execveat")) result(CALL(int, AT_FDCWD, program, arguments, environment, 0));
    else if (!strcmp(name, "fexecve")) {
        int d = open(program, O_RDONLY);
        result(CALL(int, d, arguments, environment));
    } else result(CALL(int, program, arguments, environment));
}

static void own_exec(const char *name, void *function) {
    EACH(i, programs) {
        if (!begin("(%s)", programs[i])) continue;
        IN_CHILD {
            errno = 0;
            execute(name, function, programs[i], variables);
        }
        end();
    }
    char *wrong[] = {"A=1", forbidden, NULL};
    char *const *bad[] = {(char *const *)forbidden, NULL, wrong};
    EACH(i, bad) {
        if (!begin("(bad environment %zu)", i)) continue;
        IN_CHILD {
            errno = 0;
            execute(name, function, "./script", bad[i]);
        }
        end();
    }
    if (!strcmp(name, "execve") && begin("(bad path)")) {
        IN_CHILD {
            errno = 0;
            execute(name, function, forbidden, variables);
        }
        end();
    }
}

static void own_system(const char *name, void *function) {
    static const char *const commands[] = {"exit 7", "echo words > made", "kill -9 $$", "./missing 2>&-", "", NULL};
    EACH(i, commands) {
        if (!begin("(%s)", commands[i] ? commands[i] : "null") || (!commands[i] && !strcmp(name, "popen"))) continue;
        errno = 0;
        if (!strcmp(name, "popen")) {
            FILE *stream = CALL(FILE *, commands[i], "r");
            result_pointer(stream);
            also("got %d", getc(stream));
            errno = 0;
            also("closed %x", pclose(stream));
        } else result(CALL(int, commands[i]));
        end();
    }
    if (!strcmp(name, "popen") && begin("(mode)")) {
        errno = 0;
        result_pointer(CALL(FILE *, "exit 0", "q"));
        end();
    }
}

/* Ends of processes: what streams hold is written by `exit`, and by nothing else. */
static void own_exit(const char *name, void *function) {
    (void)name;
    for (int code = 0; code < 300; code += 257) {
        if (!begin("(%d)", code)) continue;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            FILE *stream = fdopen(worlds[EMPTY_FILE], "w");
            fputs("held", stream);
            CALL(void, code);
        }
        int status = 0;
        BARE(SYS_wait4, child, &status, 0, 0);
        also("status %x", status);
        end();
    }
}

static void show_identity(void) {
    unsigned r, e, s, list[32];
    BARE(SYS_getresuid, &r, &e, &s);
    also("users %u %u %u", r, e, s);
    BARE(SYS_getresgid, &r, &e, &s);
    also("groups %u %u %u", r, e, s);
    also("others %ld", BARE(SYS_getgroups, 32, list));
    also("open %d", open("secret", O_RDONLY));
    also("file %d", open("file", O_RDWR));
    also("make %d", open("new", O_WRONLY | O_CREAT, 0644));
}

static void own_identity(const char *name, void *function) {
    static const long numbers[][3] = {{65534, 65534, 65534}, {0, 0, 0}, {-1, -1, -1}, {-1, 65534, -1}, {65534, -1, -1}, {-2, -2, -2}};
    static const gid_t groups[] = {65534, 7};
    EACH(i, numbers) {
        if (!begin("(%ld,%ld,%ld)", numbers[i][0], numbers[i][1], numbers[i][2])) continue;
        IN_CHILD {
            errno = 0;
            if (!strcmp(name, "setgroups")) result(CALL(int, (long)i, i == 3 ? (gid_t *)forbidden : i > 3 ? NULL : groups));
            else if (!strcmp(name, "initgroups")) result(CALL(int, i ? "nobody" : "root", numbers[i][0]));
            else result(CALL(int, numbers[i][0], numbers[i][1], numbers[i][2]));
            show_identity();
        }
        end();
    }
}

static void own_view(const char *name, void *function) {
    static const long flags[] = {CLONE_FS, CLONE_FILES, 0, CLONE_THREAD, 0x7fffffff};
    if (!strcmp(name, "chroot")) {
        static const char *const places[] = {"folder", "missing", "file", "", "locked"};
        EACH(i, places) {
            if (!begin("(%s)", places[i])) continue;
            IN_CHILD {
                errno = 0;
                result(CALL(int, places[i]));
                also("%d", open("/one", O_RDONLY));
            }
            end();
        }
        return;
    }
    EACH(i, flags) {
        if (!begin("(%ld)", flags[i])) continue;
        IN_CHILD {
            errno = 0;
            result(!strcmp(name, "setns") ? CALL(int, i ? worlds[i] : -1, flags[i]) : CALL(int, flags[i]));
        }
        end();
    }
}

static void *in_thread(void *argument) {
    write(worlds[EMPTY_FILE], argument, 6);
    return argument;
}

static int in_c_thread(void *argument) {
    return in_thread(argument) != NULL;
}

static void own_thread(const char *name, void *function) {
    if (!begin("()")) return;
    errno = 0;
    if (name[0] == 'p') {
        pthread_t thread;
        result(CALL(int, &thread, NULL, in_thread, "thread"));
        void *answer = NULL;
        also("%d", pthread_join(thread, &answer));
        also("%s", (char *)answer);
    } else {
        thrd_t thread;
        result(CALL(int, &thread, in_c_thread, "thread"));
        int answer = 0;
        also("%d", thrd_join(thread, &answer));
        also("%d", answer);
    }
    end();
}

static void own_terminal(const char *name, void *function) {
    if (!strcmp(name, "login_tty")) {
        static const int kinds[] = {TERMINAL, READ_WRITE, PIPE_OUT};
        EACH(i, kinds) {
            if (!begin("(%s)", kind_names[kinds[i]])) continue;
            IN_CHILD {
                errno = 0;
                result(CALL(int, worlds[kinds[i]]));
            }
            end();
        }
        return;
    }
    if (!strcmp(name, "forkpty")) {
        if (!begin("()")) return;
        int terminal = -1, status = 0;
        errno = 0;
        pid_t child = CALL(int, &terminal, NULL, NULL, NULL);
        if (child == 0) {
            int is_terminal = isatty(0) && isatty(1);
            BARE(SYS_exit_group, 3 + is_terminal);
        }
        result(child > 0);
        BARE(SYS_wait4, child, &status, 0, 0);
        also("terminal %d status %x", terminal, status);
        end();
        return;
    }
    for (int keep = 0; keep < 4; keep++) {
        if (!begin("(%d,%d)", keep & 1, keep >> 1)) continue;
        /* The child's child goes on; what it says comes through a pipe of its own, whose end says that it is gone. */
        int ends[2], child, status;
        char words[64] = "";
        pipe2(ends, O_CLOEXEC);
        if ((child = fork()) == 0) {
            errno = 0;
            int answer = CALL(int, keep & 1, keep >> 1);
            char here[4096];
            long bytes = BARE(SYS_getcwd, here, sizeof here);
            snprintf(words, sizeof words, "%d %s %d", answer, bytes == 2 ? "/" : "elsewhere", keep >> 1 ? 0 : (int)BARE(SYS_lseek, 1, 0, SEEK_CUR));
            BARE(SYS_write, ends[1], words, strlen(words));
            BARE(SYS_exit_group, 0);
        }
        BARE(SYS_wait4, child, &status, 0, 0);
        BARE(SYS_close, ends[1]);
        also("status %x", status);
        BARE(SYS_read, ends[0], words, sizeof words - 1);
        BARE(SYS_close, ends[0]);
        also("%s", words);
        end();
    }
}

/* ---- messages and system calls by number ---- */

static void own_message(const char *name, void *function) {
    const int is_many = strstr(name, "mmsg") != NULL, is_sending = name[0] == 's';
    for (int kind = 0; kind < KINDS + 1; kind++) {
        if (!begin("(%s)", kind < KINDS ? kind_names[kind] : "closed")) continue;
        int d = kind < KINDS ? worlds[kind] : 61;
        char control[CMSG_SPACE(2 * sizeof(int))] = "";
        struct iovec part = {is_sending ? input : output, 5};
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control}};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message.msg_hdr);
        *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int))};
        memcpy(CMSG_DATA(head), (int[]){worlds[READ_WRITE], worlds[FOLDER]}, 2 * sizeof(int));
        if (!is_sending && kind == SOCKET) {
            struct msghdr sent = message.msg_hdr;
            BARE(SYS_sendmsg, worlds[OTHER_SOCKET], &sent, 0);
            memset(control, 0, sizeof control);
        }
        errno = 0;
        if (is_many) result(CALL(int, d, &message, 1, MSG_DONTWAIT, NULL));
        else result(CALL(long, d, &message.msg_hdr, MSG_DONTWAIT));
        also("%u %zu %d", message.msg_len, (size_t)message.msg_hdr.msg_controllen, message.msg_hdr.msg_flags);
        end();
    }
    if (begin("(bad)")) {
        errno = 0;
        result(is_many ? CALL(int, worlds[SOCKET], forbidden, 1, MSG_DONTWAIT, NULL) : CALL(long, worlds[SOCKET], forbidden, MSG_DONTWAIT));
        end();
    }
    if (begin("(bad control)")) {
        struct iovec part = {is_sending ? input : output, 5};
        struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = forbidden, .msg_controllen = 64}};
        errno = 0;
        result(is_many ? CALL(int, worlds[SOCKET], &message, 1, MSG_DONTWAIT, NULL) : CALL(long, worlds[SOCKET], &message.msg_hdr, MSG_DONTWAIT));
        end();
    }
}

#define NUMBER(call, ...) \
    if (begin("(" #call ", " #__VA_ARGS__ ")")) { \
        errno = 0; \
        result(CALL(long, (long)SYS_##call, __VA_ARGS__)); \
        end(); \
    }

static void own_syscall(const char *name, void *function) {
    (void)name;
    struct stat64 status;
    struct { unsigned long flags, mode, resolve; } how = {O_RDONLY, 0, 0}, beneath = {O_RDONLY, 0, 8};
    const long here = AT_FDCWD;
    NUMBER(read, (long)worlds[READ_WRITE], output, 8L)
    NUMBER(read, (long)worlds[READ_WRITE], forbidden, 8L)
    NUMBER(write, (long)worlds[READ_WRITE], input, 8L)
    NUMBER(write, (long)worlds[FULL_DEVICE], input, 8L)
    NUMBER(pread64, (long)worlds[READ_WRITE], output, 8L, 3L)
    NUMBER(pwrite64, (long)worlds[READ_ONLY], input, 8L, 3L)
    NUMBER(lseek, (long)worlds[READ_WRITE], 4L, (long)SEEK_SET)
    NUMBER(close, (long)worlds[READ_WRITE])
    NUMBER(close, -1L)
    NUMBER(dup, (long)worlds[READ_WRITE])
    NUMBER(dup3, (long)worlds[READ_WRITE], (long)worlds[READ_WRITE], 0L)
    NUMBER(fcntl, (long)worlds[READ_WRITE], (long)F_DUPFD, 30L)
    NUMBER(fsync, (long)worlds[PIPE_IN])
    NUMBER(ftruncate, (long)worlds[READ_WRITE], 3L)
    NUMBER(fallocate, (long)worlds[READ_WRITE], 0L, 0L, 100L)
    NUMBER(fchmod, (long)worlds[READ_WRITE], 0600L)
    NUMBER(fstat, (long)worlds[READ_WRITE], forbidden)
    NUMBER(getdents64, (long)worlds[FOLDER], output, 4L)
    NUMBER(openat, here, "new", (long)(O_CREAT | O_RDWR), 0640L)
    NUMBER(openat, here, forbidden, 0L, 0L)
    NUMBER(openat2, here, "file", &how, sizeof how)
    NUMBER(openat2, here, "../file", &beneath, sizeof beneath)
    NUMBER(openat2, here, "way/one", &beneath, sizeof beneath)
    NUMBER(openat2, here, "file", forbidden, sizeof how)
    NUMBER(openat2, here, "file", &how, 3L)
    NUMBER(newfstatat, here, "missing", &status, 0L)
    NUMBER(newfstatat, here, "file", &status, 0x4000000L)
    NUMBER(faccessat2, here, "secret", (long)R_OK, (long)AT_EACCESS)
    NUMBER(mkdirat, here, "new", 0700L)
    NUMBER(unlinkat, here, "folder", 0L)
    NUMBER(renameat2, here, "file", here, "folder/moved", 0L)
    NUMBER(linkat, here, "file", here, "other", 0L)
    NUMBER(symlinkat, "target", here, "new")
    NUMBER(readlinkat, here, "link", output, 40L)
    NUMBER(fchmodat, here, "file", 0600L)
    NUMBER(utimensat, here, "file", forbidden, 0L)
    NUMBER(truncate, "file", 3L)
    NUMBER(getxattr, "file", "user.a", output, 40L)
    NUMBER(umask, 077L)
    NUMBER(chdir, "folder")
    NUMBER(fchdir, (long)worlds[FOLDER])
    NUMBER(getcwd, forbidden, 4096L)
    NUMBER(mmap, 0L, 4096L, (long)PROT_READ, (long)MAP_PRIVATE, (long)worlds[FOLDER], 0L)
    if (begin("(no such call)")) {
        errno = 0;
        result(CALL(long, 9999L));
        end();
    }
}

/* ---- readiness, control and limits ---- */

static void own_poll(const char *name, void *function) {
    static const int wanted[] = {POLLIN, POLLOUT, POLLIN | POLLPRI, 0};
    struct timespec short_time = {0, 1000000};
    const int is_new = strstr(name, "ppoll") != NULL;
    for (int kind = 0; kind < KINDS + 2; kind++) EACH(i, wanted) {
        if (!begin("(%s,%d)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one", wanted[i])) continue;
        struct pollfd list[2] = {{kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1, wanted[i], 99}, {worlds[PIPE_OUT], POLLIN, 99}};
        errno = 0;
        result(is_new ? CALL(int, list, 2L, &short_time, NULL, sizeof list) : CALL(int, list, 2L, 1, sizeof list));
        also("%d %d %x %x", list[0].events, list[1].events, list[0].revents, list[1].revents);
        end();
    }
    struct pollfd *bad[] = {NULL, (struct pollfd *)forbidden, (struct pollfd *)constant};
    EACH(i, bad) {
        if (!begin("(bad %zu)", i)) continue;
        errno = 0;
        result(is_new ? CALL(int, bad[i], 1L, &short_time, NULL, 64L) : CALL(int, bad[i], 1L, 1, 64L));
        end();
    }
}

static void own_select(const char *name, void *function) {
    const int is_new = !strcmp(name, "pselect");
    for (int kind = 0; kind < KINDS + 1; kind++) {
        if (!begin("(%s)", kind < KINDS ? kind_names[kind] : "closed")) continue;
        fd_set sets[3];
        for (int i = 0; i < 3; i++) {
            FD_ZERO(&sets[i]);
            FD_SET(kind < KINDS ? worlds[kind] : 61, &sets[i]);
        }
        FD_SET(worlds[PIPE_OUT], &sets[0]);
        struct timespec short_time = {0, 1000000};
        struct timeval time = {0, 1000};
        errno = 0;
        result(is_new ? CALL(int, 64, &sets[0], &sets[1], &sets[2], &short_time, NULL) : CALL(int, 64, &sets[0], &sets[1], &sets[2], &time));
        for (int i = 0; i < 3; i++) also("%lx", *(long *)&sets[i]);
        end();
    }
    if (begin("(bad)")) {
        struct timespec time = {0, 1000};
        errno = 0;
        result(CALL(int, 5, forbidden, NULL, NULL, &time, NULL));
        end();
    }
}

static void own_epoll(const char *name, void *function) {
    (void)name;
    for (int kind = 0; kind < KINDS + 1; kind++) {
        if (!begin("(%s)", kind < KINDS ? kind_names[kind] : "closed")) continue;
        int epoll = BARE(SYS_epoll_create1, O_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN};
        errno = 0;
        result(CALL(int, epoll, EPOLL_CTL_ADD, kind < KINDS ? worlds[kind] : 61, &event));
        BARE(SYS_close, epoll);
        end();
    }
}

static void own_watch(const char *name, void *function) {
    (void)name;
    const struct { const char *name, *path; } paths[] = {
        {"folder", "."}, {"missing", "no-such-name"}, {"empty", ""}, {"null", NULL}, {"bad", forbidden}, {"root", "/"},
    };
    static const unsigned masks[] = {IN_ALL_EVENTS, IN_ONLYDIR | IN_DELETE, 0};
    EACH(i, paths) EACH(j, masks) for (int is_open = 0; is_open < 2; is_open++) {
        if (!begin("(%s,%x,%d)", paths[i].name, masks[j], is_open)) continue;
        int instance = is_open ? BARE(SYS_inotify_init1, IN_CLOEXEC) : 61;
        errno = 0;
        result(CALL(int, instance, paths[i].path, masks[j]));
        if (is_open) BARE(SYS_close, instance);
        end();
    }
}

static void own_control(const char *name, void *function) {
    static const unsigned long requests[] = {FIONREAD, FIOCLEX, FIONCLEX, FIONBIO, TCGETS, TIOCGWINSZ, FS_IOC_GETFLAGS, FICLONE, FIGETBSZ, 0x12345};
    for (int kind = 0; kind < KINDS + 2; kind++) EACH(i, requests) {
        if (i > 0 && strcmp(name, "ioctl")) continue;
        if (!begin("(%s,%lx)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one", requests[i])) continue;
        int d = kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1;
        static struct { int number; char rest[252]; } answer;
        memset(&answer, 0, sizeof answer);
        answer.number = 1;
        errno = 0;
        if (!strcmp(name, "isatty")) result(CALL(int, d));
        else if (!strcmp(name, "tcgetattr")) result(CALL(int, d, &answer));
        else result(CALL(int, d, requests[i], &answer));
        if (requests[i] == FIONREAD && strcmp(name, "tcgetattr") && kind != TERMINAL) also("%d", answer.number);
        end();
    }
    if (!strcmp(name, "ioctl") && begin("(read-write,FIONREAD,bad)")) {
        errno = 0;
        result(CALL(int, worlds[READ_WRITE], (unsigned long)FIONREAD, forbidden));
        end();
    }
}

static void own_limit(const char *name, void *function) {
    struct rlimit limits[] = {{8, 100}, {8, 4}, {RLIM_INFINITY, RLIM_INFINITY}};
    const int is_new = name[0] == 'p';
    EACH(i, limits) {
        if (!begin("(%zu)", i)) continue;
        IN_CHILD {
            struct rlimit before = {1, 1};
            errno = 0;
            result(is_new ? CALL(int, 0, RLIMIT_FSIZE, &limits[i], &before) : CALL(int, RLIMIT_FSIZE, &limits[i]));
            also("%lx %lx", (long)before.rlim_cur, (long)before.rlim_max);
            errno = 0;
            result(write(worlds[EMPTY_FILE], "more than eight bytes", 21));
        }
        end();
    }
    if (begin("(bad)")) {
        errno = 0;
        result(is_new ? CALL(int, 0, RLIMIT_FSIZE, forbidden, NULL) : CALL(int, RLIMIT_FSIZE, forbidden));
        end();
    }
}

const struct row process_rows[] = {
    {"poll __poll __poll_chk ppoll __ppoll_chk", 'o', "", own_poll},
    {"select __select pselect", 'o', "", own_select},
    {"epoll_ctl", 'o', "", own_epoll},
    {"inotify_add_watch", 'o', "", own_watch},
    {"ioctl isatty tcgetattr", 'o', "", own_control},
    {"setrlimit setrlimit64 prlimit prlimit64", 'o', "", own_limit},
    {"fork __fork _Fork", 'o', "", own_fork},
    {"__register_atfork", 'o', "", own_handlers},
    {"dlopen", 'o', "", own_library},
    {"vfork __vfork", 'o', "", own_vfork},
    {"clone __clone", 'o', "", own_clone},
    {"posix_spawn posix_spawnp", 'o', "", own_spawn},
    {"execve execv execvp execvpe fexecve execveat execl execlp execle", 'o', "", own_exec},
    {"system popen", 'o', "", own_system},
    {"_exit _Exit quick_exit", 'o', "", own_exit},
    {"setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups setfsuid setfsgid", 'o', "", own_identity},
    {"unshare setns chroot", 'o', "", own_view},
    {"pthread_create thrd_create", 'o', "", own_thread},
    {"daemon forkpty login_tty", 'o', "", own_terminal},
    {"sendmsg sendmmsg recvmsg recvmmsg", 'o', "", own_message},
    {"syscall", 'o', "", own_syscall},
    {NULL, 0, NULL, NULL},
};
