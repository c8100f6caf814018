/* Makes every call that the preload library defines on files of the host, and tells what each answered and did.
 *
 *     host_calls DIRECTORY [SYMBOL...]    a line for each case; DIRECTORY is made and used up
 *     host_calls --list                   the symbols that have cases
 *
 * With the library and without it the lines must be the same. Each argument of a call takes each value of its list
 * while the others keep their first; calls of another shape have functions of their own in host_calls_files.c and host_calls_processes.c. */
#include "host_calls.h"
#include <fnmatch.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>

/* Values of one argument. */
#define VALUES 40

struct value {
    const char *label;
    long value;
};

static struct value values[VALUES];
static int count;

static void value(const char *label, long number) {
    if (count < VALUES) values[count++] = (struct value){label, number};
}

static void numbers(int many, const long *list) {
    static char labels[VALUES][24];
    for (int i = 0; i < many; i++) {
        sprintf(labels[i], "%ld", list[i]);
        value(labels[i], list[i]);
    }
}
#define NUMBERS(...) numbers(sizeof((long[]){__VA_ARGS__}) / sizeof(long), (long[]){__VA_ARGS__})

static char long_name[300], long_path[5000];
static struct iovec vectors[3], empty_vectors[2], null_vectors[2], bad_vectors[2], late_vectors[2];
static struct timespec times[2], omitted[2], wrong_times[2];
static struct timeval old_times[2], wrong_old[2];
static struct utimbuf oldest;
static long offset;
static dev_t device;
static union {
    struct stat64 stat;
    struct statx statx;
    struct statfs statfs;
    struct statvfs statvfs;
    char bytes[512];
} answer;

/* Prepares what the values of arguments point to. */
static void prepare_values(void) {
    memset(long_name, 'n', sizeof long_name - 1);
    memset(long_path, '/', sizeof long_path - 1);
    vectors[0] = (struct iovec){output, 5}, vectors[1] = (struct iovec){second, 7};
    empty_vectors[0] = (struct iovec){output, 0}, empty_vectors[1] = (struct iovec){second, 0};
    null_vectors[0] = (struct iovec){NULL, 8}, null_vectors[1] = (struct iovec){second, 7};
    bad_vectors[0] = (struct iovec){forbidden, 8}, bad_vectors[1] = (struct iovec){second, 7};
    late_vectors[0] = (struct iovec){output, 5}, late_vectors[1] = (struct iovec){forbidden, 8};
    times[0] = (struct timespec){1234, 5}, times[1] = (struct timespec){6789, 7};
    omitted[0] = (struct timespec){0, UTIME_OMIT}, omitted[1] = (struct timespec){0, UTIME_NOW};
    wrong_times[0] = (struct timespec){1, -7}, wrong_times[1] = (struct timespec){1, 1000000000};
    old_times[0] = (struct timeval){1234, 5}, old_times[1] = (struct timeval){6789, 7};
    wrong_old[0] = (struct timeval){1, -7}, wrong_old[1] = (struct timeval){1, 1000000};
    oldest = (struct utimbuf){1234, 6789};
    device = 0;
}

static void paths(const char *first) {
    value(first, (long)first);
    const char *usual[] = {"file", "missing", "missing/below", "file/below", "file/", "folder", "folder/", "empty-folder",
                           "locked/inside", "secret", "link", "dangling", "loop", "way/one", "way", "./file", "folder/../file",
                           ".", "..", "", "folder/one"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i], first)) value(usual[i][0] ? usual[i] : "empty-path", (long)usual[i]);
    value("long-name", (long)long_name);
    value("long-path", (long)long_path);
    value("null", 0);
    value("bad", (long)forbidden);
    value("one", 1);
    value("unended", (long)edge);
}

static void buffers(char *good) {
    value("good", (long)good);
    value("null", 0);
    value("bad", (long)forbidden);
    value("edge", (long)edge);
    value("constant", (long)constant);
    value("minus-one", -1);
}

/* Descriptor lists: all kinds, some number that is not open, and none. */
static void descriptors(int first, int with_devices) {
    value(kind_names[first], worlds[first]);
    for (int i = 0; i < KINDS; i++)
        if (i != first && (with_devices || (i != FULL_DEVICE && i != NULL_DEVICE && i != TERMINAL))) value(kind_names[i], worlds[i]);
    value("closed", 61);
    value("minus-one", -1);
    value("current-directory", AT_FDCWD);
    value("huge", 0x7fffffff);
}

static void flags(char letter) {
    switch (letter) {
    case 'f': /* open */
        NUMBERS(O_RDONLY, O_WRONLY, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_EXCL, O_RDWR | O_TRUNC, O_DIRECTORY,
                O_NOFOLLOW, O_PATH, O_PATH | O_NOFOLLOW, O_WRONLY | O_APPEND, O_TMPFILE | O_RDWR, O_RDWR | O_WRONLY,
                O_CLOEXEC, O_DIRECTORY | O_CREAT, O_RDWR | O_SYNC, O_NONBLOCK, 1 << 30, -1);
        break;
    case 'a': /* *at */
        NUMBERS(0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_REMOVEDIR, AT_NO_AUTOMOUNT,
                AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, 0x4000000, 1, -1);
        break;
    case 'A': /* access */
        NUMBERS(R_OK, W_OK, X_OK, F_OK, 7, 8, -1);
        break;
    case 'w': /* lseek */
        NUMBERS(SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 5, -1);
        break;
    case 'r': /* renameat2 */
        NUMBERS(0, 1, 2, 3, 4, 8, -1);
        break;
    case 'l': /* flock */
        NUMBERS(LOCK_SH | LOCK_NB, LOCK_EX | LOCK_NB, LOCK_UN, 0, 77);
        break;
    case 'k': /* lockf */
        NUMBERS(F_TLOCK, F_TEST, F_ULOCK, 9, -1);
        break;
    default: /* fallocate */
        NUMBERS(0, 1, 3, 0x10, 0x11, 8, 0x20, 2, 0x100);
    }
}

/* The values of an argument by its letter; the first is the one that it keeps while others change. */
static void list(char letter) {
    count = 0;
    switch (letter) {
    case 'd': descriptors(READ_WRITE, 1); break;
    /* Devices are the machine's: only their bytes are touched. */
    case 'q': descriptors(READ_WRITE, 0); break;
    case 'i': descriptors(READ_ONLY, 1); break;
    case 'j': descriptors(SOCKET, 1); break;
    case 'h': descriptors(FOLDER, 0); break;
    case 'D':
        value("current-directory", AT_FDCWD);
        descriptors(FOLDER, 0);
        break;
    case 'p': paths("file"); break;
    case 'e': paths("folder"); break;
    case 'E': paths("empty-folder"); break;
    case 'y': paths("link"); break;
    case 'n': paths("new"); break;
    case 's': paths("script"); break;
    case 'b': buffers(output); break;
    case 'B': buffers(input); break;
    case 'z': NUMBERS(8, 0, 1, 40); break;
    case 'Z': NUMBERS(40, 0, 1, 64); break;
    case 'o': NUMBERS(0, 5, 30, -1, 1L << 40, 0x7fffffffffffffff, -0x7fffffffffffffff - 1); break;
    case 'L': NUMBERS(5, 0, 30, 4096, -1, -0x7fffffffffffffff - 1); break;
    case 'v':
        value("two", (long)vectors);
        value("empty", (long)empty_vectors);
        value("null-part", (long)null_vectors);
        value("bad-part", (long)bad_vectors);
        value("late-bad-part", (long)late_vectors);
        value("null", 0);
        value("bad", (long)forbidden);
        break;
    case 'c': NUMBERS(2, 0, 1, -1, 1025, 0x7fffffff); break;
    case 'P': NUMBERS(0, 1, 2, 4, 8, 0x10, 0x4000, -1); break;
    case 'm': NUMBERS(0640, 0, 07777, 0170000 | 0600, S_IFIFO | 0600, S_IFSOCK | 0600, S_IFDIR | 0700, S_IFCHR | 0600, -1); break;
    case 'u': NUMBERS(-1, 0, 65534); break;
    case 't':
        value("times", (long)times);
        value("omitted", (long)omitted);
        value("wrong", (long)wrong_times);
        value("null", 0);
        value("bad", (long)forbidden);
        break;
    case 'T':
        value("times", (long)old_times);
        value("wrong", (long)wrong_old);
        value("null", 0);
        value("bad", (long)forbidden);
        break;
    case 'U':
        value("times", (long)&oldest);
        value("null", 0);
        value("bad", (long)forbidden);
        break;
    case 'O':
        value("null", 0);
        value("given", (long)&offset);
        value("bad", (long)forbidden);
        value("constant", (long)constant);
        break;
    case 'g':
        value("device", (long)&device);
        value("bad", (long)forbidden);
        break;
    case 'x':
        value("user.a", (long)"user.a");
        value("user.b", (long)"user.b");
        value("system.x", (long)"system.x");
        value("bare", (long)"bare");
        value("empty", (long)"");
        value("long", (long)long_name);
        value("longest", (long)long_path);
        value("null", 0);
        value("bad", (long)forbidden);
        break;
    case 'N': NUMBERS(_PC_NAME_MAX, _PC_PATH_MAX, _PC_LINK_MAX, _PC_PIPE_BUF, _PC_FILESIZEBITS, _PC_CHOWN_RESTRICTED, _PC_ASYNC_IO, _PC_VDISABLE, 999, -1); break;
    case 'C': NUMBERS(0, 1, 2, 3, 8); break;
    case 'S': buffers(answer.bytes); break;
    case 'V': NUMBERS(1, 0, 3, -1); break;
    case 'M': NUMBERS(STATX_BASIC_STATS, 0, STATX_ALL, STATX_MNT_ID, 0x80000000L, -1); break;
    case 'R': NUMBERS(ROOM, 4096, 4); break;
    case '0': NUMBERS(0); break;
    default: flags(letter);
    }
}

static const struct row rows[] = {
    {"read __read", 'l', "dbz"}, {"__read_chk", 'l', "dbzR"}, {"write __write", 'l', "dBz"},
    {"pread pread64 __pread64", 'l', "dbzo"}, {"__pread_chk __pread64_chk", 'l', "dbzoR"},
    {"pwrite pwrite64 __pwrite64", 'l', "dBzo"}, {"readv writev", 'l', "dvc"},
    {"preadv preadv64 pwritev pwritev64", 'l', "dvco"},
    {"preadv2 preadv64v2 pwritev2 pwritev64v2", 'l', "dvcoP"},
    {"sendfile sendfile64", 'l', "jdOz"}, {"splice", 'l', "iOjOzP"}, {"copy_file_range", 'l', "iOdOz0"},
    {"fallocate fallocate64", 'i', "dXoL"}, {"posix_fallocate posix_fallocate64", 'i', "doL"},
    {"posix_fadvise posix_fadvise64", 'i', "doLC"}, {"readahead", 'l', "dozz"}, {"sync_file_range", 'i', "doLC"},
    {"open open64 __open __open64", 'i', "pfm"}, {"__open_2 __open64_2", 'i', "pf"},
    {"openat openat64", 'i', "Dpfm"}, {"__openat_2 __openat64_2", 'i', "Dpf"}, {"creat creat64", 'i', "nm"},
    {"close __close", 'i', "d"}, {"dup", 'i', "d"}, {"dup2 __dup2", 'i', "dd"}, {"dup3", 'i', "ddf"},
    {"lseek lseek64 llseek __lseek", 'l', "dow"}, {"fsync fdatasync syncfs", 'i', "d"}, {"flock", 'i', "dl"},
    {"lockf lockf64", 'i', "dkL"}, {"ftruncate ftruncate64", 'i', "do"}, {"fchmod", 'i', "qm"}, {"fchown", 'i', "quu"},
    {"futimens", 'i', "qt"}, {"futimes", 'i', "qT"}, {"fstat fstat64", 'i', "dS"},
    {"__fxstat __fxstat64", 'i', "VdS"}, {"fstatfs fstatfs64 __fstatfs", 'i', "dS"}, {"fstatvfs fstatvfs64", 'i', "dS"},
    {"fgetxattr", 'l', "dxbZ"}, {"fsetxattr", 'i', "qxBzC"}, {"flistxattr", 'l', "dbZ"}, {"fremovexattr", 'i', "qx"},
    {"getdents64", 'l', "ibz"}, {"fchdir", 'i', "h"},
    {"stat stat64 lstat lstat64", 'i', "pS"}, {"fstatat fstatat64", 'i', "DpSa"},
    {"__xstat __xstat64 __lxstat __lxstat64", 'i', "VpS"}, {"__fxstatat __fxstatat64", 'i', "VDpSa"},
    {"statx", 'i', "DpaMS"}, {"access", 'i', "pA"}, {"euidaccess eaccess", 'i', "pA"}, {"faccessat", 'i', "DpAa"},
    {"statfs statfs64 __statfs", 'i', "pS"}, {"statvfs statvfs64", 'i', "pS"},
    {"mkdir", 'i', "nm"}, {"mkdirat", 'i', "Dnm"}, {"mknod", 'i', "nm0"}, {"mknodat", 'i', "Dnm0"},
    {"__xmknod", 'i', "Vnmg"}, {"__xmknodat", 'i', "VDnmg"}, {"mkfifo", 'i', "nm"}, {"mkfifoat", 'i', "Dnm"},
    {"unlink", 'i', "p"}, {"rmdir", 'i', "E"}, {"unlinkat", 'i', "Dpa"}, {"remove", 'i', "p"},
    {"rename", 'i', "pn"}, {"renameat", 'i', "DpDn"}, {"renameat2", 'i', "DpDnr"}, {"link", 'i', "pn"},
    {"linkat", 'i', "DpDna"}, {"symlink", 'i', "pn"}, {"symlinkat", 'i', "pDn"}, {"readlink", 'l', "ybZ"},
    {"readlinkat", 'l', "DybZ"}, {"__readlink_chk", 'l', "ybzR"}, {"__readlinkat_chk", 'l', "DybzR"},
    {"umask", 'i', "m"}, {"chmod lchmod", 'i', "pm"}, {"fchmodat", 'i', "Dpma"}, {"chown lchown", 'i', "puu"},
    {"fchownat", 'i', "Dpuua"}, {"utimensat", 'i', "Dpta"}, {"utimes lutimes", 'i', "pT"}, {"futimesat", 'i', "DpT"},
    {"utime", 'i', "pU"}, {"truncate truncate64", 'i', "po"},
    {"getxattr lgetxattr", 'l', "pxbZ"}, {"setxattr lsetxattr", 'i', "pxBzC"}, {"listxattr llistxattr", 'l', "pbZ"},
    {"removexattr lremovexattr", 'i', "px"}, {"chdir", 'i', "e"},
    /* Of other libraries than libc. */
    {"io_setup io_queue_init io_uring_setup", 'i', "00"}, {"io_uring_queue_init io_uring_queue_init_params", 'i', "000"},
    {"io_uring_queue_init_mem", 'i', "00000"},
    {"name_to_handle_at", 'i', "Dp00a"}, {"pathconf", 'l', "pN"}, {"fpathconf", 'l', "dN"},
    {NULL, 0, NULL, NULL},
};

/* What a structure says that is the same in every world. */
static void show_answer(const char *name, long value) {
    if (value != 0) return;
    if (strstr(name, "statx"))
        also("statx %o %ld %u", answer.statx.stx_mode, (long)answer.statx.stx_size, answer.statx.stx_mask);
    else if (strstr(name, "statvfs"))
        also("statvfs %ld %ld", (long)answer.statvfs.f_bsize, (long)answer.statvfs.f_namemax);
    else if (strstr(name, "statfs"))
        also("statfs %lx %ld", (long)answer.statfs.f_type, (long)answer.statfs.f_namelen);
    else if (strstr(name, "stat"))
        also("stat %o %ld %ld", answer.stat.st_mode, (long)answer.stat.st_nlink,
             S_ISREG(answer.stat.st_mode) ? (long)answer.stat.st_size : 0);
}

typedef long (*function)(long, long, long, long, long, long);

static void call(const struct row *row, const char *name, function call, int changed, int which) {
    struct value chosen[6] = {{"", 0}};
    int arguments = (int)strlen(row->arguments);
    char text[256];
    size_t used = 0;
    for (int i = 0; i < arguments; i++) {
        list(row->arguments[i]);
        chosen[i] = values[i == changed ? which : 0];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", chosen[i].label);
        if (used >= sizeof text) used = sizeof text - 1;
    }
    if (!begin("(%s)", text)) return;
    /* The descriptors of a fresh world have the numbers of the last one, but they may be others at first. */
    for (int i = 0; i < arguments; i++) {
        list(row->arguments[i]);
        chosen[i] = values[i == changed ? which : 0];
    }
    memset(&answer, FILLING, sizeof answer);
    offset = 3;
    errno = 0;
    long value = call(chosen[0].value, chosen[1].value, chosen[2].value, chosen[3].value, chosen[4].value, chosen[5].value);
    if (row->result == 'i') value = (int)value;
    result(value);
    if (offset != 3) also("offset %ld", offset);
    show_answer(name, value);
    /* A structure that did not fit begins with the number of the device, which is another one each time. */
    if (strchr(row->arguments, 'S')) memcpy(edge, "edge", 4);
    end();
}

static void run(const char *name) {
    void *symbol = found(name);
    current = name;
    if (!symbol) {
        if (begin("is not there")) end();
        return;
    }
    for (size_t i = 0; rows[i].names; i++) {
        char padded[256], sought[64];
        snprintf(padded, sizeof padded, " %s ", rows[i].names);
        snprintf(sought, sizeof sought, " %s ", name);
        if (!strstr(padded, sought)) continue;
        for (int changed = 0; rows[i].arguments[changed]; changed++) {
            list(rows[i].arguments[changed]);
            int many = count;
            /* The case in which all arguments have their first values is made once. */
            for (int which = changed ? 1 : 0; which < many; which++) call(&rows[i], name, (function)symbol, changed, which);
        }
    }
    const struct row *own[] = {file_rows, process_rows};
    for (size_t table = 0; table < 2; table++)
        for (const struct row *row = own[table]; row->names; row++) {
            char padded[256], sought[64];
            snprintf(padded, sizeof padded, " %s ", row->names);
            snprintf(sought, sizeof sought, " %s ", name);
            if (strstr(padded, sought)) row->own(name, symbol);
        }
}

/* Runs the cases of a symbol in children: one that dies is told, and the next goes on behind it. */
static void run_in_children(const char *name) {
    for (first_case = 0;;) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            case_number = 0;
            run(name);
            BARE(SYS_exit_group, 0);
        }
        int status = 0;
        BARE(SYS_wait4, child, &status, 0, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
        char text[128];
        int bytes = snprintf(text, sizeof text, "%s case %d = died of %d\n", name, last_case(),
                             WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status));
        BARE(SYS_write, REPORT, text, bytes);
        first_case = last_case() + 1;
    }
}

static void each_name(void (*visit)(const char *), int many, char **wanted) {
    const struct row *tables[] = {rows, file_rows, process_rows};
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++) {
        for (const struct row *row = tables[table]; row->names; row++) {
            char names[512];
            snprintf(names, sizeof names, "%s", row->names);
            for (char *rest = names, *name; (name = strsep(&rest, " "));) {
                int is_wanted = many == 0;
                for (int j = 0; j < many; j++) is_wanted |= !fnmatch(wanted[j], name, 0);
                if (is_wanted) visit(name);
            }
        }
    }
}

static void print_name(const char *name) {
    printf("%s\n", name);
}

/* Root may do without permission what others may not; the cases are to be refused too. */
static void give_up_privileges(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (BARE(SYS_capget, &head, data)) return;
    const int given_up[] = {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_SYS_RESOURCE};
    for (size_t i = 0; i < sizeof given_up / sizeof *given_up; i++) data[0].effective &= ~(1U << given_up[i]);
    BARE(SYS_capset, &head, data);
}

int main(int many, char **words) {
    if (many > 1 && !strcmp(words[1], "--list")) {
        each_name(print_name, 0, NULL);
        return 0;
    }
    if (many < 2) return 2;
    if (getenv("HOST_CALLS_STORE")) {
        /* The process uses the store beside: its client is connected, and its tables are not empty. */
        int own = open(getenv("HOST_CALLS_STORE"), O_RDWR | O_CREAT, 0600);
        if (write(own, "store", 5) != 5) {
            fprintf(stderr, "%s: %s\n", getenv("HOST_CALLS_STORE"), strerror(errno));
            return 3;
        }
        if (dup2(own, 500) != 500 || close(own)) return 4;
    }
    BARE(SYS_dup3, 1, REPORT, O_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit none = {0, 0};
    BARE(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL);
    prepare(words[1]);
    prepare_values();
    give_up_privileges();
    each_name(run_in_children, many - 2, words + 2);
    return 0;
}
