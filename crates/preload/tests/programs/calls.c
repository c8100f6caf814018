/* Exercises the intercepted calls in the directory argv[1] and prints what they answer. The same program runs on a
 * plain directory and on the store; its output must not differ. Inode numbers, devices and times are not printed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#include "say.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static int is_prefix;

static void content(int d) {
    char buffer[4096];
    ssize_t n = pread(d, buffer, sizeof buffer, 0);
    printf("  content %zd: ", n);
    for (ssize_t i = 0; i < n && i < 80; i++) putchar(buffer[i] ? buffer[i] : '.');
    putchar('\n');
}

static void data_calls(void) {
    char buffer[256];
    struct stat status;
    int d = open(at("data"), O_RDWR | O_CREAT | O_TRUNC, 0640);
    printf("data: %s\n", d >= 0 ? "open" : strerror(errno));
    SAY(write(d, "hello world", 11));
    SAY(lseek(d, 0, SEEK_CUR));
    SAY(lseek(d, 6, SEEK_SET));
    SAY(read(d, buffer, 5));
    printf("  read %.5s\n", buffer);
    SAY(read(d, buffer, 5));
    SAY(pwrite(d, "J", 1, 0));
    SAY(lseek(d, 0, SEEK_CUR));
    struct iovec out[2] = {{"abc", 3}, {"defg", 4}};
    SAY(writev(d, out, 2));
    SAY(pwritev(d, out, 2, 100));
    struct iovec in[2] = {{buffer, 4}, {buffer + 10, 4}};
    SAY(preadv(d, in, 2, 0));
    SAY(pwritev2(d, out, 1, -1, 0));
    SAY(preadv2(d, in, 1, 1, 0));
    SAY(lseek(d, 0, SEEK_SET));
    SAY(readv(d, in, 2));
    SAY(lseek(d, 0, SEEK_END));
    SAY(lseek(d, -1, SEEK_SET));
    SAY(lseek(d, 5, 99));
    SAY(pread(d, buffer, 1, -1));
    SAY(write(d, buffer, 0));
    content(d);
    SAY(fstat(d, &status));
    printf("  size %lld mode %o links %d\n", (long long)status.st_size, status.st_mode, (int)status.st_nlink);
    SAY(ftruncate(d, 5));
    SAY(fstat(d, &status));
    printf("  size %lld\n", (long long)status.st_size);
    SAY(ftruncate(d, 5000));
    SAY(pread(d, buffer, 10, 4995));
    SAY(ftruncate(d, -1));
    SAY(fsync(d));
    SAY(fdatasync(d));
    SAY(posix_fadvise(d, 0, 0, POSIX_FADV_SEQUENTIAL));
    SAY(posix_fallocate(d, 0, 9000));
    SAY(fallocate(d, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    SAY(fstat(d, &status));
    printf("  size %lld\n", (long long)status.st_size);
    SAY(close(d));
    SAY(close(d));
    SAY(read(d, buffer, 1));
    SAY(d = open(at("data"), O_RDONLY));
    SAY(write(d, "x", 1));
    SAY(close(d));
    SAY(d = open(at("data"), O_WRONLY | O_APPEND));
    SAY(write(d, "end", 3));
    SAY(lseek(d, 0, SEEK_CUR));
    SAY(pwrite(d, "END", 3, 0));
    SAY(lseek(d, 0, SEEK_END));
    SAY(read(d, buffer, 1));
    SAY(fcntl(d, F_GETFL) & (O_APPEND | O_ACCMODE));
    SAY(fcntl(d, F_SETFL, 0));
    SAY(pwrite(d, "zz", 2, 0));
    SAY(lseek(d, 0, SEEK_END));
    SAY(close(d));
    SAY(open(at("data"), O_RDWR | O_CREAT | O_EXCL, 0600));
    SAY(open(at("missing"), O_RDONLY));
    SAY(open(at("data/x"), O_RDONLY));
    SAY(open(at("data"), O_RDONLY | O_DIRECTORY));
}

static void duplicates(void) {
    char buffer[64] = {0};
    int d = open(at("dup"), O_RDWR | O_CREAT | O_TRUNC, 0600), e, f;
    SAY(write(d, "0123456789", 10));
    e = dup(d);
    SAY(lseek(e, 2, SEEK_SET));
    SAY(read(d, buffer, 3));
    printf("  %.3s\n", buffer);
    f = fcntl(d, F_DUPFD_CLOEXEC, 50);
    SAY(f >= 50);
    SAY(read(f, buffer, 2));
    printf("  %.2s\n", buffer);
    SAY(close(d));
    SAY(lseek(e, 0, SEEK_CUR));
    SAY(dup2(e, 60) == 60);
    SAY(write(60, "ab", 2));
    SAY(lseek(f, 0, SEEK_CUR));
    SAY(dup2(e, e) == e);
    SAY(dup3(e, e, 0));
    SAY(dup2(99, 61));
    SAY(dup3(e, 62, O_CLOEXEC) == 62);
    SAY(fcntl(62, F_GETFD));
    content(62);
    SAY(close_range(50, 100, 0));
    SAY(lseek(62, 0, SEEK_CUR));
    SAY(lseek(e, 0, SEEK_CUR));
    SAY(close(e));
    /* The offset is shared with a child. */
    d = open(at("dup"), O_RDWR);
    SAY(read(d, buffer, 2));
    pid_t child = fork();
    if (child == 0) {
        char c[4];
        _exit(read(d, c, 3) == 3 && c[0] == '2' && write(d, "XY", 2) == 2 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    SAY(status);
    SAY(lseek(d, 0, SEEK_CUR));
    SAY(read(d, buffer, 1));
    printf("  %c\n", buffer[0]);
    content(d);
    SAY(lseek(d, 1, SEEK_SET));
    child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 3", (char *)0);
        _exit(127);
    }
    waitpid(child, &status, 0);
    SAY(WEXITSTATUS(status));
    SAY(read(d, buffer, 2));
    printf("  %.2s\n", buffer);
    SAY(lseek(d, 4, SEEK_SET));
    child = fork();
    if (child == 0) {
        dup2(d, 0);
        execlp("head", "head", "-c", "2", (char *)0);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("\n");
    SAY(status);
    SAY(close(d));
}

static void names(void) {
    struct stat status;
    char buffer[PATH_MAX];
    SAY(mkdir(at("dir"), 0755));
    SAY(mkdir(at("dir"), 0755));
    SAY(mkdir(at("dir/sub/"), 0700));
    SAY(mkdir(at("no/sub"), 0700));
    SAY(rmdir(at("dir")));
    int directory = open(at("dir"), O_RDONLY | O_DIRECTORY);
    SAY(directory >= 0);
    SAY(mkdirat(directory, "under", 0700));
    int d = openat(directory, "file", O_CREAT | O_WRONLY, 0644);
    SAY(write(d, "12345", 5));
    SAY(close(d));
    SAY(fstatat(directory, "file", &status, 0));
    printf("  size %lld\n", (long long)status.st_size);
    SAY(linkat(directory, "file", directory, "hard", 0));
    SAY(stat(at("dir/hard"), &status));
    printf("  links %d mode %o\n", (int)status.st_nlink, status.st_mode);
    SAY(symlinkat("file", directory, "soft"));
    SAY(readlinkat(directory, "soft", buffer, sizeof buffer));
    SAY(readlink(at("dir/soft"), buffer, 2));
    SAY(readlink(at("dir/file"), buffer, 2));
    SAY(lstat(at("dir/soft"), &status));
    printf("  mode %o size %lld\n", status.st_mode, (long long)status.st_size);
    SAY(stat(at("dir/soft"), &status));
    printf("  mode %o size %lld\n", status.st_mode, (long long)status.st_size);
    SAY(stat(at("dir/soft/"), &status));
    SAY(stat(at("dir/./file"), &status));
    SAY(stat(at("dir/sub/../file"), &status));
    SAY(stat(at("dir/gone"), &status));
    SAY(stat("", &status));
    SAY(rename(at("dir/hard"), at("dir/harder")));
    SAY(renameat2(directory, "harder", directory, "file", RENAME_NOREPLACE));
    SAY(renameat2(directory, "harder", directory, "soft", RENAME_EXCHANGE));
    SAY(lstat(at("dir/harder"), &status));
    printf("  mode %o\n", status.st_mode);
    SAY(rename(at("dir/gone"), at("dir/any")));
    SAY(rename(at("dir"), at("dir/sub/x")));
    SAY(unlink(at("dir/sub")));
    SAY(rmdir(at("dir/file")));
    SAY(access(at("dir/file"), R_OK | W_OK));
    SAY(access(at("dir/file"), F_OK));
    SAY(access(at("dir/gone"), F_OK));
    SAY(faccessat(directory, "file", R_OK, AT_EACCESS));
    SAY(euidaccess(at("dir/file"), R_OK));
    SAY(chmod(at("dir/file"), 0604));
    SAY(stat(at("dir/file"), &status));
    printf("  mode %o\n", status.st_mode);
    SAY(fchmodat(directory, "file", 0600, 0));
    SAY(fchmodat(directory, "file", 0640, AT_SYMLINK_NOFOLLOW));
    SAY(fchmodat(directory, "sub", 0750, AT_SYMLINK_NOFOLLOW));
    SAY(fchmodat(directory, "harder", 0640, AT_SYMLINK_NOFOLLOW));
    SAY(syscall(SYS_fchmodat2, directory, "file", 0604, 0));
    SAY(syscall(SYS_fchmodat2, directory, "sub", 0700, AT_SYMLINK_NOFOLLOW));
    /* libraries change what an O_PATH descriptor stands for by its name in /proc */
    int held = open(at("dir/file"), O_PATH | O_NOFOLLOW);
    snprintf(buffer, sizeof buffer, "/proc/self/fd/%d", held);
    SAY(chmod(buffer, 0614));
    SAY(truncate(buffer, 4));
    SAY(access(buffer, W_OK));
    SAY(stat(buffer, &status));
    printf("  mode %o size %lld\n", status.st_mode, (long long)status.st_size);
    SAY(lstat(buffer, &status));
    printf("  link %d\n", S_ISLNK(status.st_mode));
    SAY(syscall(SYS_fchmodat2, held, "", 0600, AT_EMPTY_PATH));
    SAY(close(held));
    SAY(chown(at("dir/file"), -1, -1));
    SAY(lchown(at("dir/soft"), getuid(), getgid()));
    struct timespec times[2] = {{1000, 5}, {2000, 6}};
    SAY(utimensat(directory, "file", times, 0));
    SAY(stat(at("dir/file"), &status));
    printf("  times %lld.%ld %lld.%ld\n", (long long)status.st_atime, status.st_atim.tv_nsec,
           (long long)status.st_mtime, status.st_mtim.tv_nsec);
    struct timeval old[2] = {{3, 4}, {5, 6}};
    SAY(utimes(at("dir/file"), old));
    struct utimbuf older = {7, 8};
    SAY(utime(at("dir/file"), &older));
    SAY(stat(at("dir/file"), &status));
    printf("  times %lld %lld\n", (long long)status.st_atime, (long long)status.st_mtime);
    SAY(truncate(at("dir/file"), 2));
    SAY(stat(at("dir/file"), &status));
    printf("  size %lld\n", (long long)status.st_size);
    SAY(truncate(at("dir"), 2));
    umask(077);
    SAY(mkdir(at("dir/masked"), 0777));
    SAY(stat(at("dir/masked"), &status));
    printf("  mode %o\n", status.st_mode);
    umask(022);
    struct statx extended;
    SAY(statx(directory, "file", 0, STATX_BASIC_STATS, &extended));
    printf("  size %llu mode %o\n", (unsigned long long)extended.stx_size, extended.stx_mode);
    SAY(statx(directory, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended));
    printf("  mode %o\n", extended.stx_mode);
    SAY(fchdir(directory));
    SAY(stat("file", &status));
    SAY(mkdir("relative", 0700));
    SAY(access("relative", X_OK));
    SAY(chdir("relative"));
    SAY(stat("../file", &status));
    SAY(getcwd(buffer, sizeof buffer) != NULL);
    printf("  %s\n", buffer + strlen(base));
    SAY(getcwd(buffer, 3) != NULL);
    d = open("made", O_CREAT | O_RDWR, 0600);
    SAY(write(d, "m", 1));
    SAY(close(d));
    SAY(unlink("made"));
    /* Nothing leads anywhere from a working directory that was removed. */
    SAY(rmdir(at("dir/relative")));
    SAY(open("new", O_CREAT | O_RDWR, 0600));
    SAY(mkdir("new", 0700));
    SAY(stat("new", &status));
    SAY(unlink("new"));
    SAY(rename("new", "newer"));
    SAY(rename(at("dir/file"), "newer"));
    SAY(symlink("a", "new"));
    SAY(chdir("new"));
    SAY(chdir("/"));
    SAY(unlinkat(directory, "soft", 0));
    SAY(unlinkat(directory, "under", AT_REMOVEDIR));
    SAY(close(directory));
    SAY(statfs(base, &(struct statfs){0}));
    SAY(statvfs(base, &(struct statvfs){0}));
    SAY(setxattr(at("dir/file"), "user.key", "value", 5, 0));
    SAY(setxattr(at("dir/file"), "user.key", "value", 5, XATTR_CREATE));
    SAY(getxattr(at("dir/file"), "user.key", buffer, 100));
    SAY(getxattr(at("dir/file"), "user.key", buffer, 2));
    SAY(getxattr(at("dir/file"), "user.none", buffer, 2));
    SAY(listxattr(at("dir/file"), buffer, 100));
    SAY(removexattr(at("dir/file"), "user.key"));
    SAY(remove(at("dir/masked")));
    SAY(remove(at("dir/gone")));
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int visit(const char *path, const struct stat *status, int kind, struct FTW *position) {
    (void)status;
    (void)path;
    printf("  visit level %d kind %d\n", position->level, kind);
    return 0;
}

static void trees(void) {
    char name[64];
    SAY(mkdir(at("tree"), 0755));
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "tree/entry-%03d", i);
        close(open(at(name), O_CREAT | O_WRONLY, 0600));
    }
    DIR *stream = opendir(at("tree"));
    SAY(stream != NULL);
    int count = 0, regular = 0;
    struct dirent *entry;
    long middle = 0;
    while ((entry = readdir(stream))) {
        if (++count == 100) middle = telldir(stream);
        regular += entry->d_type == DT_REG;
    }
    printf("  entries %d regular %d\n", count, regular);
    seekdir(stream, middle);
    int left = 0;
    while (readdir(stream)) left++;
    SAY(left);
    rewinddir(stream);
    count = 0;
    while (readdir(stream)) count++;
    SAY(count);
    struct stat status;
    SAY(fstat(dirfd(stream), &status));
    SAY(closedir(stream));
    struct dirent **list;
    SAY(count = scandir(at("tree"), &list, NULL, alphasort));
    if (count > 3) printf("  %s %s %s\n", list[0]->d_name, list[2]->d_name, list[count - 1]->d_name);
    glob_t found;
    SAY(glob(at("tree/entry-01*"), 0, NULL, &found));
    printf("  found %zu\n", found.gl_pathc);
    SAY(mkdir(at("tree2"), 0755));
    SAY(mkdir(at("tree2/a"), 0755));
    close(open(at("tree2/a/f"), O_CREAT | O_WRONLY, 0600));
    SAY(nftw(at("tree2"), visit, 10, FTW_DEPTH | FTW_PHYS));
    char resolved[PATH_MAX];
    SAY(symlink("tree2/a", at("shortcut")));
    SAY(realpath(at("shortcut/../a/f"), resolved) != NULL);
    printf("  %s\n", resolved + strlen(base));
    SAY(realpath(at("nothing/here"), resolved) != NULL);
    SAY(opendir(at("data")) != NULL);
    char records[1024];
    int d = open(at("tree2"), O_RDONLY | O_DIRECTORY);
    SAY(syscall(SYS_getdents64, d, records, sizeof records) > 0);
    SAY(syscall(SYS_getdents64, d, records, sizeof records));
    SAY(close(d));
}

static void streams(void) {
    char line[100];
    FILE *stream = fopen(at("stream"), "w+");
    SAY(stream != NULL);
    SAY(fprintf(stream, "line %d\nline %d\n", 1, 2));
    SAY(fseek(stream, 0, SEEK_SET));
    SAY(fgets(line, sizeof line, stream) != NULL);
    printf("  %s", line);
    SAY(ftell(stream));
    SAY(fileno(stream) >= 0);
    SAY(fclose(stream));
    int printed = open(at("printed"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    SAY(write(printed, "head ", 5));
    SAY(dprintf(printed, "%d %s %.2f %d %d %d %s %.1f", 1, "two", 3.5, 4, 5, 6, "seven", 8.5));
    SAY(write(printed, " tail", 5));
    content(printed);
    SAY(close(printed));
    stream = fopen(at("stream"), "a");
    SAY(fputs("more\n", stream) >= 0);
    SAY(fclose(stream));
    int d = open(at("stream"), O_RDONLY);
    content(d);
    stream = fdopen(d, "r");
    SAY(getc(stream));
    SAY(fclose(stream));
    SAY(read(d, line, 1));
    SAY(fopen(at("none"), "r") != NULL);
    /* A stream of libc's own goes on with a file of the store. */
    stream = fopen("/dev/null", "r");
    SAY((stream = freopen(at("stream"), "r", stream)) != NULL);
    SAY(fgets(line, sizeof line, stream) != NULL);
    printf("  %s", line);
    SAY(fseek(stream, -5, SEEK_END));
    SAY(fgets(line, sizeof line, stream) != NULL);
    printf("  %s", line);
    SAY(fclose(stream));
    SAY(freopen(at("none"), "r", fopen("/dev/null", "r")) != NULL);
    char *template = at("temporary-XXXXXX");
    SAY(d = mkstemp(template));
    SAY(write(d, "t", 1));
    SAY(close(d));
    SAY(unlink(template));
    template = at("folder-XXXXXX");
    SAY(mkdtemp(template) != NULL);
    SAY(rmdir(template));
    /* A number that libc closed must not lead to the old file. */
    int first = open(at("old"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    SAY(write(first, "old", 3));
    stream = fdopen(first, "w");
    SAY(fclose(stream));
    int second = open(at("new"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    SAY(second == first);
    SAY(write(second, "new", 3));
    SAY(syscall(SYS_close, second));
    second = open("/dev/null", O_WRONLY);
    SAY(write(second, "none", 4));
    SAY(close(second));
    d = open(at("old"), O_RDONLY);
    content(d);
    close(d);
    d = open(at("new"), O_RDONLY);
    content(d);
    close(d);
}

/* Both ends of a copy may be one descriptor, if the ranges do not overlap. */
static void one_description(void) {
    static char bytes[200000];
    memset(bytes, 'a', sizeof bytes);
    bytes[7] = 'b';
    int d = open(at("one"), O_RDWR | O_CREAT | O_TRUNC, 0600), twin = dup(d);
    SAY(pwrite(d, bytes, sizeof bytes, 0));
    off_t from = 0, to = 150000;
    SAY(copy_file_range(d, &from, d, &to, 1000, 0));
    printf("  %lld %lld\n", (long long)from, (long long)to);
    SAY(pread(d, bytes, 10, 150000));
    printf("  %.10s\n", bytes);
    from = 0, to = 500;
    SAY(copy_file_range(d, &from, twin, &to, 1000, 0));
    SAY(copy_file_range(d, NULL, twin, NULL, 1000, 0));
    to = 300000;
    SAY(lseek(d, 5, SEEK_SET));
    SAY(copy_file_range(d, NULL, twin, &to, 1000, 0));
    SAY(lseek(twin, 0, SEEK_CUR));
    from = 0;
    SAY(copy_file_range(d, &from, twin, NULL, 100, 0));
    SAY(lseek(d, 0, SEEK_END));
    SAY(close(d));
    SAY(close(twin));
}

static void moves(void) {
    char buffer[100];
    int from = open(at("from"), O_RDWR | O_CREAT | O_TRUNC, 0600), to = open(at("to"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    SAY(write(from, "abcdefghij", 10));
    SAY(lseek(from, 2, SEEK_SET));
    SAY(copy_file_range(from, NULL, to, NULL, 4, 0));
    SAY(lseek(from, 0, SEEK_CUR));
    SAY(lseek(to, 0, SEEK_CUR));
    off_t start = 0;
    SAY(copy_file_range(from, &start, to, NULL, 2, 0));
    SAY(start);
    content(to);
    one_description();
    SAY(lseek(to, 0, SEEK_SET));
    SAY(sendfile(to, from, NULL, 100));
    content(to);
    SAY(lseek(from, 0, SEEK_CUR));
    start = 1;
    SAY(sendfile(to, from, &start, 3));
    SAY(start);
    SAY(sendfile(to, from, NULL, 3));
    SAY(sendfile(from, 99, NULL, 3));
    SAY(sendfile(99, from, NULL, 3));
    SAY(fcntl(to, F_SETFL, O_APPEND));
    SAY(sendfile(to, from, NULL, 3));
    SAY(fcntl(to, F_SETFL, 0));
    content(to);
    int pipes[2];
    SAY(pipe(pipes));
    start = 0;
    SAY(sendfile(pipes[1], from, &start, 4));
    SAY(read(pipes[0], buffer, 100));
    printf("  %.4s\n", buffer);
    SAY(sendfile(to, pipes[0], NULL, 4));
    close(pipes[0]);
    close(pipes[1]);
    if (!is_prefix) {
        char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
        SAY(shared != MAP_FAILED);
        SAY(memcmp(shared, "abcdefghij", 10));
        shared[0] = 'Z';
        SAY(msync(shared, 4096, MS_SYNC));
        SAY(pread(from, buffer, 1, 0));
        printf("  %c\n", buffer[0]);
        SAY(munmap(shared, 4096));
    }
    SAY(pwrite(from, "Z", 1, 0));
    char *private = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, from, 0);
    SAY(private != MAP_FAILED);
    printf("  %.10s\n", private);
    SAY(munmap(private, 4096));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 5};
    SAY(fcntl(from, F_SETLK, &lock));
    pid_t child = fork();
    if (child == 0) {
        struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4, .l_len = 5};
        int d = open(at("from"), O_RDWR), taken = fcntl(d, F_SETLK, &other), number = errno;
        other.l_type = F_WRLCK;
        fcntl(d, F_GETLK, &other);
        _exit(taken == -1 && (number == EAGAIN || number == EACCES) && other.l_type == F_WRLCK &&
              other.l_start == 0 && other.l_len == 5 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    SAY(status);
    lock.l_type = F_UNLCK;
    SAY(fcntl(from, F_SETLK, &lock));
    SAY(flock(from, LOCK_EX | LOCK_NB));
    int other = open(at("from"), O_RDWR);
    SAY(flock(other, LOCK_SH | LOCK_NB));
    SAY(flock(from, LOCK_UN));
    SAY(flock(other, LOCK_SH | LOCK_NB));
    SAY(close(other));
    /* Locks are gone when the parent hears of the end. */
    int refused = 0;
    for (int i = 0; i < 40; i++) {
        child = fork();
        if (child == 0) {
            int own = open(at("from"), O_RDWR);
            struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            int failed = fcntl(own, F_SETLK, &whole) || (is_prefix && flock(own, LOCK_EX | LOCK_NB));
            if (i % 2) _exit(failed);
            exit(failed);
        }
        waitpid(child, &status, 0);
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        refused += status != 0;
        refused += fcntl(from, F_SETLK, &whole) != 0;
        refused += is_prefix && flock(from, LOCK_EX | LOCK_NB) != 0;
        whole.l_type = F_UNLCK;
        fcntl(from, F_SETLK, &whole);
        flock(from, LOCK_UN);
    }
    SAY(refused);
    SAY(lockf(from, F_TLOCK, 3));
    SAY(lockf(from, F_ULOCK, 3));
    SAY(close(from));
    SAY(close(to));
    long d = syscall(SYS_openat, AT_FDCWD, at("raw"), O_RDWR | O_CREAT, 0600);
    SAY(syscall(SYS_write, d, "raw", 3));
    SAY(syscall(SYS_lseek, d, 1, SEEK_SET));
    SAY(syscall(SYS_read, d, buffer, 2));
    printf("  %.2s\n", buffer);
    SAY(syscall(SYS_close, d));
    SAY(syscall(SYS_mkdirat, AT_FDCWD, at("rawdir"), 0700));
    SAY(syscall(SYS_unlinkat, AT_FDCWD, at("rawdir"), AT_REMOVEDIR));
    /* An unlinked file lives while it is open. */
    d = open(at("raw"), O_RDWR);
    SAY(unlink(at("raw")));
    SAY(write(d, "still", 5));
    content(d);
    SAY(close(d));
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    snprintf(base, sizeof base, "%s", arguments[1]);
    is_prefix = count > 2 && strcmp(arguments[2], "prefix") == 0;
    umask(022);
    (void)compare;
    data_calls();
    duplicates();
    names();
    trees();
    streams();
    moves();
    return 0;
}
