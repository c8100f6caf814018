/* The world of a case, and its report; see host_calls.h. */
#include "host_calls.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <sched.h>
#include <linux/mount.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Bytes of one line of the report, and of one look at the world. */
#define LINE 65536
/* Descriptors that are looked at. */
#define DESCRIPTORS 64
/* Time stamps of files that nobody has touched since. */
#define LONG_AGO 1000000000L

const char *const kind_names[KINDS] = {
    "read-write", "read-only", "write-only", "appending", "path-only", "folder", "folder-path", "pipe-out", "pipe-in",
    "broken-pipe", "terminal", "full", "null", "socket", "other-socket", "empty",
};
int worlds[KINDS];
char *forbidden, *edge, *constant;
char output[ROOM], input[ROOM], second[ROOM];
int case_number, first_case;
const char *current;
static const char *root;
static char line[LINE], before[LINE], after[LINE];
static size_t length;

long bare(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long answer;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(answer) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#endif
}

static void add(char *text, size_t *used, const char *format, va_list list) {
    int added = vsnprintf(text + *used, LINE - *used, format, list);
    if (added > 0) *used += (size_t)added < LINE - *used ? (size_t)added : LINE - *used - 1;
}

static void append(char *text, size_t *used, const char *format, ...) {
    va_list list;
    va_start(list, format);
    add(text, used, format, list);
    va_end(list);
}

void also(const char *format, ...) {
    va_list list;
    append(line, &length, " ");
    va_start(list, format);
    add(line, &length, format, list);
    va_end(list);
}

static const char *error_name(int number) {
    const char *name = strerrorname_np(number);
    return number == 0 ? "-" : name ? name : "?";
}

void result(long value) {
    int number = errno;
    append(line, &length, " = %ld %s", value, error_name(number));
}

void result_pointer(const void *value) {
    int number = errno;
    append(line, &length, " = %s %s", value ? "pointer" : "null", error_name(number));
}

/* Bytes as text. */
static void quote(char *text, size_t *used, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned char c = bytes[i];
        append(text, used, c >= ' ' && c < 127 && c != '\\' ? "%c" : "\\%02x", c);
    }
}

/* ---- the directory ---- */

static void make_file(const char *name, const char *content, int mode) {
    int d = BARE(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    BARE(SYS_write, d, content, strlen(content));
    BARE(SYS_fchmod, d, mode);
    BARE(SYS_close, d);
}

static void age(const char *name) {
    struct timespec times[2] = {{LONG_AGO, 0}, {LONG_AGO, 0}};
    BARE(SYS_utimensat, AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW);
}

/* Calls `visit` for each entry below the directory `d`, deepest first. */
static void walk(int d, char *path, size_t used, void (*visit)(int, const char *, const char *)) {
    char entries[4096], *names[128];
    int count = 0;
    char *kept = malloc(16384);
    size_t filled = 0;
    for (long bytes; (bytes = BARE(SYS_getdents64, d, entries, sizeof entries)) > 0;) {
        for (long at = 0; at < bytes;) {
            struct dirent64 *entry = (void *)(entries + at);
            at += entry->d_reclen;
            if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || count == 128) continue;
            names[count++] = kept + filled;
            filled += 1 + (size_t)sprintf(kept + filled, "%s", entry->d_name);
        }
    }
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && strcmp(names[j - 1], names[j]) > 0; j--) {
            char *other = names[j];
            names[j] = names[j - 1];
            names[j - 1] = other;
        }
    for (int i = 0; i < count; i++) {
        sprintf(path + used, "%s%s", used ? "/" : "", names[i]);
        int below = BARE(SYS_openat, d, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (below >= 0) {
            walk(below, path, strlen(path), visit);
            BARE(SYS_close, below);
        }
        sprintf(path + used, "%s%s", used ? "/" : "", names[i]);
        visit(d, names[i], path);
    }
    free(kept);
}

static void in_root(void (*visit)(int, const char *, const char *)) {
    char path[4096] = "";
    int d = BARE(SYS_openat, AT_FDCWD, root, O_RDONLY | O_DIRECTORY);
    if (d >= 0) walk(d, path, 0, visit);
    BARE(SYS_close, d);
}

static void remove_one(int d, const char *name, const char *path) {
    (void)path;
    if (BARE(SYS_unlinkat, d, name, 0) < 0) BARE(SYS_unlinkat, d, name, AT_REMOVEDIR);
}

static void open_up(int d, const char *name, const char *path) {
    (void)path;
    struct stat64 found;
    if (!BARE(SYS_newfstatat, d, name, &found, AT_SYMLINK_NOFOLLOW) && S_ISDIR(found.st_mode))
        BARE(SYS_fchmodat, d, name, 0700);
}

static void make_directory(void) {
    BARE(SYS_umask, 022);
    if (BARE(SYS_chdir, root)) BARE(SYS_exit_group, 9);
    BARE(SYS_fchmodat, AT_FDCWD, root, 0755);
    BARE(SYS_removexattr, root, "user.a");
    BARE(SYS_removexattr, root, "user.b");
    in_root(open_up);
    in_root(remove_one);
    make_file("file", "abcdefghijklmnopqrstuvwxyz", 0644);
    make_file("other", "other", 0644);
    make_file("empty", "", 0644);
    make_file("secret", "secret", 0);
    make_file("script", "#!/bin/sh\nexit 7\n", 0755);
    BARE(SYS_mkdirat, AT_FDCWD, "folder", 0755);
    make_file("folder/one", "1", 0644);
    make_file("folder/two", "22", 0600);
    BARE(SYS_mkdirat, AT_FDCWD, "empty-folder", 0755);
    BARE(SYS_mkdirat, AT_FDCWD, "locked", 0755);
    make_file("locked/inside", "x", 0644);
    BARE(SYS_symlinkat, "file", AT_FDCWD, "link");
    BARE(SYS_symlinkat, "nowhere", AT_FDCWD, "dangling");
    BARE(SYS_symlinkat, "loop", AT_FDCWD, "loop");
    BARE(SYS_symlinkat, "folder", AT_FDCWD, "way");
    BARE(SYS_setxattr, "file", "user.a", "1", 1, 0);
    const char *names[] = {"locked/inside", "folder/one", "folder/two", "file", "other", "empty", "secret", "script",
                           "folder", "empty-folder", "locked", "link", "dangling", "loop", "way"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) age(names[i]);
    BARE(SYS_fchmodat, AT_FDCWD, "locked", 0);
}

/* ---- the descriptors ---- */

/* The world's own come from libc's functions, as a program's do. */
static void open_all(void) {
    int pair[2];
    worlds[READ_WRITE] = open("file", O_RDWR);
    worlds[READ_ONLY] = open("file", O_RDONLY);
    worlds[WRITE_ONLY] = open("other", O_WRONLY);
    worlds[APPENDING] = open("other", O_RDWR | O_APPEND);
    worlds[PATH_ONLY] = open("file", O_PATH);
    worlds[FOLDER] = open("folder", O_RDONLY | O_DIRECTORY);
    worlds[FOLDER_PATH] = open("folder", O_PATH | O_DIRECTORY);
    worlds[FULL_DEVICE] = open("/dev/full", O_RDWR);
    worlds[NULL_DEVICE] = open("/dev/null", O_RDWR);
    worlds[EMPTY_FILE] = open("empty", O_RDWR);
    worlds[TERMINAL] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    pipe2(pair, O_NONBLOCK);
    worlds[PIPE_OUT] = pair[0], worlds[PIPE_IN] = pair[1];
    BARE(SYS_write, pair[1], "0123456789", 10);
    pipe2(pair, O_NONBLOCK);
    worlds[BROKEN_PIPE] = pair[1];
    BARE(SYS_close, pair[0]);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    worlds[SOCKET] = pair[0], worlds[OTHER_SOCKET] = pair[1];
}

static void close_all(void) {
    for (int d = REPORT + 1; d < DESCRIPTORS; d++) BARE(SYS_close, d);
}

/* ---- what is to be seen ---- */

static char *view;
static size_t viewed;

static const char *moment(const struct stat64 *found) {
    return found->st_mtim.tv_sec == LONG_AGO ? "old" : found->st_mtim.tv_sec > 1700000000L ? "new" : "set";
}

static void look_at(int d, const char *name, const char *path) {
    struct stat64 found;
    if (BARE(SYS_newfstatat, d, name, &found, AT_SYMLINK_NOFOLLOW)) return;
    append(view, &viewed, "%s:%o:%ld:%u:%u:", path, found.st_mode, (long)found.st_nlink, found.st_uid, found.st_gid);
    append(view, &viewed, S_ISDIR(found.st_mode) ? "" : "%s:", moment(&found));
    if (!S_ISDIR(found.st_mode) && found.st_mtim.tv_sec < 1700000000L && found.st_mtim.tv_sec != LONG_AGO)
        append(view, &viewed, "%ld.%ld:%ld.%ld:", (long)found.st_atim.tv_sec, found.st_atim.tv_nsec,
               (long)found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
    char content[512];
    long bytes = 0;
    if (S_ISLNK(found.st_mode)) bytes = BARE(SYS_readlinkat, d, name, content, sizeof content);
    if (S_ISREG(found.st_mode)) {
        if (!(found.st_mode & 0400)) BARE(SYS_fchmodat, d, name, 0400);
        int file = BARE(SYS_openat, d, name, O_RDONLY | O_NOATIME);
        bytes = BARE(SYS_pread64, file, content, sizeof content, 0);
        append(view, &viewed, "%ld:", (long)found.st_size);
        BARE(SYS_close, file);
        if (!(found.st_mode & 0400)) BARE(SYS_fchmodat, d, name, found.st_mode & 07777);
        char list[256];
        char own[4200];
        snprintf(own, sizeof own, "%s/%s", root, path);
        long names = BARE(SYS_llistxattr, own, list, sizeof list);
        if (names > 0) quote(view, &viewed, list, names);
        append(view, &viewed, ":");
    }
    if (bytes > 0) quote(view, &viewed, content, bytes);
    append(view, &viewed, "\n");
}

static void look(char *text) {
    view = text, viewed = 0;
    text[0] = 0;
    for (int d = 0; d < DESCRIPTORS; d++) {
        struct stat64 found;
        long flags = BARE(SYS_fcntl, d, F_GETFL), close_on_exec = BARE(SYS_fcntl, d, F_GETFD);
        if (d == REPORT || flags < 0 || BARE(SYS_fstat, d, &found)) continue;
        int waiting = -1;
        BARE(SYS_ioctl, d, FIONREAD, &waiting);
        /* Who reads the standard streams does so when it likes. */
        if (d < REPORT) waiting = 0;
        long offset = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) ? BARE(SYS_lseek, d, 0, SEEK_CUR) : -1;
        /* The file system gives directories offsets of its own making. */
        if (S_ISDIR(found.st_mode)) offset = offset > 0;
        append(text, &viewed, "descriptor %d:%o:%lo:%ld:%ld:%d\n", d, found.st_mode, flags, close_on_exec, offset,
               S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode) ? waiting : 0);
    }
    char here[4096];
    long bytes = BARE(SYS_getcwd, here, sizeof here);
    append(text, &viewed, "working directory %s\n", bytes > 0 ? here : "?");
    long mask = BARE(SYS_umask, 022);
    BARE(SYS_umask, mask);
    append(text, &viewed, "mask %lo\n", mask);
    in_root(look_at);
}

/* Adds the lines of `one` that `two` lacks. */
static void lacking(const char *sign, const char *one, const char *two) {
    while (*one) {
        size_t bytes = strcspn(one, "\n");
        const char *place = two;
        int has = 0;
        while (*place && !has) {
            size_t other = strcspn(place, "\n");
            has = other == bytes && !memcmp(one, place, bytes);
            place += other + 1;
        }
        if (!has) append(line, &length, " %s{%.*s}", sign, (int)bytes, one);
        one += bytes + 1;
    }
}

static void show_buffer(const char *name, const char *buffer, const char *filling) {
    size_t changed = 0;
    for (size_t i = 0; i < ROOM; i++)
        if (buffer[i] != filling[i]) changed = i + 1;
    if (!changed) return;
    append(line, &length, " %s:", name);
    quote(line, &length, buffer, changed);
}

/* ---- cases ---- */

static char filling[ROOM];
static volatile int *shared_number;

int begin(const char *format, ...) {
    int number = case_number++;
    if (number < first_case) return 0;
    *shared_number = number;
    close_all();
    make_directory();
    open_all();
    look(before);
    memset(filling, FILLING, ROOM);
    memset(output, FILLING, ROOM);
    memset(second, FILLING, ROOM);
    memset(input, 'i', ROOM);
    memcpy(edge, "edge", 4);
    va_list list;
    length = 0;
    append(line, &length, "%s ", current);
    va_start(list, format);
    add(line, &length, format, list);
    va_end(list);
    errno = 0;
    return 1;
}

void end(void) {
    look(after);
    lacking("+", after, before);
    lacking("-", before, after);
    show_buffer("output", output, filling);
    show_buffer("second", second, filling);
    if (memcmp(edge, "edge", 4)) also("edge:%.4s", edge);
    append(line, &length, "\n");
    BARE(SYS_write, REPORT, line, length);
}

int start_child(void) {
    return fork();
}

int in_parent(int child) {
    if (child == 0) return 0;
    int status = 0;
    BARE(SYS_wait4, child, &status, 0, 0);
    also("child %s %d", WIFEXITED(status) ? "exited" : "killed by",
         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 1;
}

void leave_child(void) {
    append(line, &length, " (child)\n");
    BARE(SYS_write, REPORT, line, length);
    BARE(SYS_exit_group, 0);
}

void *found(const char *name) {
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.3.4", "GLIBC_2.4", "GLIBC_2.33"};
    void *function = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; !function && i < sizeof versions / sizeof *versions; i++)
        function = dlvsym(RTLD_DEFAULT, name, versions[i]);
    return function;
}

/* Root could harm the machine by a wrong case, so where it can it sees all but the directory as read-only. */
static void shut_out(const char *directory) {
    struct mount_attr closed = {.attr_set = MOUNT_ATTR_RDONLY}, opened = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (BARE(SYS_unshare, CLONE_NEWNS)) return;
    BARE(SYS_mount, 0, "/", 0, MS_REC | MS_PRIVATE, 0);
    if (BARE(SYS_mount, "world", directory, "tmpfs", 0, "mode=755")) return;
    BARE(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &closed, sizeof closed);
    BARE(SYS_mount_setattr, AT_FDCWD, directory, 0, &opened, sizeof opened);
}

void prepare(const char *directory) {
    static char below[4096];
    BARE(SYS_mkdirat, AT_FDCWD, directory, 0755);
    if (BARE(SYS_geteuid) == 0) shut_out(directory);
    /* The one other place that can be written: what the library records. */
    snprintf(below, sizeof below, "%s/trace", directory);
    BARE(SYS_mkdirat, AT_FDCWD, below, 0755);
    /* One deeper, so that `..` is no place of the host either. */
    snprintf(below, sizeof below, "%s/world", directory);
    root = below;
    BARE(SYS_mkdirat, AT_FDCWD, root, 0755);
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    edge = pages + 4096 - 4, forbidden = pages + 4096, constant = pages + 8192;
    mprotect(constant, 4096, PROT_READ);
    shared_number = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared_number = -1;
}

/* The case in which a process of this program died. */
int last_case(void) {
    return *shared_number;
}
