/* The steps of random calls about names: each by the forms of the call that libc has. */

#include "random_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NAMES_MAX = 256, DEPTH_MAX = 8 };

static void mkdir_step(void) {
    struct place place_ = place();
    mode_t mode = (mode_t)number();
    outcome(place_.is_plain ? mkdir(place_.path, mode) : mkdirat(place_.at, place_.path, mode));
}

static void rmdir_step(void) {
    struct place place_ = place();
    outcome(place_.is_plain ? rmdir(place_.path) : unlinkat(place_.at, place_.path, AT_REMOVEDIR));
}

static void unlink_step(void) {
    struct place place_ = place();
    outcome(place_.is_plain ? unlink(place_.path) : unlinkat(place_.at, place_.path, 0));
}

static void remove_step(void) {
    struct place place_ = place();
    outcome(remove(place_.path));
}

static void mknod_step(void) {
    struct place place_ = place();
    mode_t mode = S_IFREG | (mode_t)number();
    outcome(place_.is_plain ? mknod(place_.path, mode, 0) : mknodat(place_.at, place_.path, mode, 0));
}

static void rename_step(void) {
    struct place old = place(), new = place();
    unsigned flags = (unsigned)number();
    if (flags)
        outcome(renameat2(old.at, old.path, new.at, new.path, flags));
    else
        outcome(old.is_plain && new.is_plain ? rename(old.path, new.path) : renameat(old.at, old.path, new.at, new.path));
}

static void link_step(void) {
    struct place old = place(), new = place();
    int flags = (int)number();
    if (old.is_plain && new.is_plain && !flags)
        outcome(link(old.path, new.path));
    else
        outcome(linkat(old.at, old.path, new.at, new.path, flags));
}

static void symlink_step(void) {
    const char *target = word();
    struct place place_ = place();
    outcome(place_.is_plain ? symlink(target, place_.path) : symlinkat(target, place_.at, place_.path));
}

static void readlink_step(void) {
    struct place place_ = place();
    char target[PATH_MAX + 1];
    ssize_t length = place_.is_plain ? readlink(place_.path, target, PATH_MAX)
                                     : readlinkat(place_.at, place_.path, target, PATH_MAX);
    if (outcome(length))
        say(" %.*s", (int)length, target);
}

static void stat_step(void) {
    struct place place_ = place();
    int flags = (int)number();
    struct stat status;
    int result;
    if (!place_.is_plain)
        result = fstatat(place_.at, place_.path, &status, flags);
    else
        result = flags & AT_SYMLINK_NOFOLLOW ? lstat(place_.path, &status) : stat(place_.path, &status);
    if (outcome(result))
        say_status(&status);
}

static void statx_step(void) {
    struct place place_ = place();
    int flags = (int)number();
    struct statx status;
    if (outcome(statx(place_.at, place_.path, flags, STATX_BASIC_STATS, &status)))
        say(" mode=%o links=%u inode=%llu", status.stx_mode, status.stx_nlink, (unsigned long long)status.stx_ino);
}

static void access_step(void) {
    struct place place_ = place();
    int mode = (int)number(), flags = (int)number();
    outcome(place_.is_plain ? access(place_.path, mode) : faccessat(place_.at, place_.path, mode, flags));
}

static void chmod_step(void) {
    struct place place_ = place();
    mode_t mode = (mode_t)number();
    outcome(place_.is_plain ? chmod(place_.path, mode) : fchmodat(place_.at, place_.path, mode, 0));
}

static void chown_step(void) {
    struct place place_ = place();
    uid_t user = (uid_t)number();
    gid_t group = (gid_t)number();
    int flags = (int)number();
    if (!place_.is_plain)
        outcome(fchownat(place_.at, place_.path, user, group, flags));
    else
        outcome(flags & AT_SYMLINK_NOFOLLOW ? lchown(place_.path, user, group) : chown(place_.path, user, group));
}

/* The times are read again at once: later calls may change the time of access on one file system alone. */
static void utimens_step(void) {
    struct place place_ = place();
    struct timespec times[2];
    for (int each = 0; each < 2; each++) {
        times[each].tv_sec = (time_t)number();
        times[each].tv_nsec = (long)number();
    }
    int flags = (int)number();
    struct stat status;
    bool is_set = outcome(utimensat(place_.at, place_.path, times, flags));
    if (is_set && times[0].tv_nsec >= 0 && times[0].tv_nsec < 1000000000 &&
        fstatat(place_.at, place_.path, &status, flags) == 0)
        say(" accessed=%lld.%09ld", (long long)status.st_atim.tv_sec, status.st_atim.tv_nsec);
}

static void truncate_step(void) {
    struct place place_ = place();
    outcome(truncate(place_.path, (off_t)number()));
}

static void chdir_step(void) {
    struct place place_ = place();
    outcome(chdir(place_.path));
}

static void fchdir_step(void) { outcome(fchdir(descriptor())); }

static void getcwd_step(void) {
    char path[PATH_MAX];
    if (getcwd(path, sizeof path))
        say(" %s", path);
    else
        outcome(-1);
}

static void realpath_step(void) {
    struct place place_ = place();
    char path[PATH_MAX];
    if (realpath(place_.path, path))
        say(" %s", path);
    else
        outcome(-1);
}

/* The attribute's value is a repeated byte. */
static void setxattr_step(void) {
    struct place place_ = place();
    const char *name = word();
    int byte = (int)number();
    size_t length = (size_t)number();
    int flags = (int)number();
    memset(buffer, byte, length);
    outcome(lsetxattr(place_.path, name, buffer, length, flags));
}

static void fsetxattr_step(void) {
    int file = descriptor();
    const char *name = word();
    int byte = (int)number();
    size_t length = (size_t)number();
    int flags = (int)number();
    memset(buffer, byte, length);
    outcome(fsetxattr(file, name, buffer, length, flags));
}

static void getxattr_step(void) {
    struct place place_ = place();
    const char *name = word();
    ssize_t length = getxattr(place_.path, name, buffer, (size_t)number());
    if (outcome(length))
        say_bytes(buffer, (size_t)length);
}

static void removexattr_step(void) {
    struct place place_ = place();
    outcome(removexattr(place_.path, word()));
}

static int by_text(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static void say_sorted(char **names, int count) {
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int each = 0; each < count; each++) {
        say(" %s", names[each]);
        free(names[each]);
    }
}

static void say_attributes(const char *path) {
    char names[4096], *found[NAMES_MAX];
    ssize_t length = llistxattr(path, names, sizeof names);
    int count = 0;
    for (char *each = names; length > 0 && each < names + length && count < NAMES_MAX; each += strlen(each) + 1)
        found[count++] = strdup(each);
    say(" attributes:");
    say_sorted(found, count);
}

static void listxattr_step(void) {
    struct place place_ = place();
    say_attributes(place_.path);
}

static const char *kind_name(unsigned char kind) {
    return kind == DT_DIR ? "/" : kind == DT_LNK ? "@" : kind == DT_REG ? "" : "?";
}

/* All entries, sorted: their order is not the same on two file systems. */
static int entries(DIR *directory, char **names) {
    int count = 0;
    for (struct dirent *entry; count < NAMES_MAX && (entry = readdir(directory));) {
        char name[300];
        snprintf(name, sizeof name, "%s%s", entry->d_name, kind_name(entry->d_type));
        names[count++] = strdup(name);
    }
    return count;
}

static void list_step(void) {
    struct place place_ = place();
    DIR *directory = NULL;
    if (place_.is_plain) {
        directory = opendir(place_.path);
    } else {
        int opened = openat(place_.at, place_.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (opened >= 0 && !(directory = fdopendir(opened)))
            close(opened);
    }
    if (!directory) {
        outcome(-1);
        return;
    }
    char *names[NAMES_MAX];
    int count = entries(directory, names);
    rewinddir(directory);
    char *again[NAMES_MAX];
    int recount = entries(directory, again);
    closedir(directory);
    say("%d %d:", count, recount);
    say_sorted(names, count);
    for (int each = 0; each < recount; each++)
        free(again[each]);
}

static void say_content(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        say(" %s", strerrorname_np(errno));
        return;
    }
    ssize_t length = read(file, buffer, sizeof buffer);
    say(" holds");
    if (outcome(length))
        say_bytes(buffer, (size_t)length);
    close(file);
}

static void say_tree(const char *path, int depth) {
    struct stat status;
    char *names[NAMES_MAX];
    DIR *directory = opendir(path);
    if (!directory) {
        say(" %s", strerrorname_np(errno));
        return;
    }
    int count = entries(directory, names);
    closedir(directory);
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int each = 0; each < count; each++) {
        char below[PATH_MAX];
        char *name = names[each];
        size_t length = strlen(name);
        bool is_directory = name[length - 1] == '/';
        if (is_directory || name[length - 1] == '@')
            name[length - 1] = 0;
        snprintf(below, sizeof below, "%s/%s", path, name);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            say("; %s", below + strlen(root));
            if (lstat(below, &status) == 0)
                say_status(&status);
            else
                say(" %s", strerrorname_np(errno));
            say_attributes(below);
            if (S_ISREG(status.st_mode))
                say_content(below);
            if (is_directory && depth < DEPTH_MAX)
                say_tree(below, depth + 1);
        }
        free(name);
    }
}

static void tree_step(void) {
    say("tree");
    say_tree(root, 0);
}

const struct command name_commands[] = {
    {"mkdir", mkdir_step},         {"rmdir", rmdir_step},         {"unlink", unlink_step},
    {"remove", remove_step},       {"mknod", mknod_step},         {"rename", rename_step},
    {"link", link_step},           {"symlink", symlink_step},     {"readlink", readlink_step},
    {"stat", stat_step},           {"statx", statx_step},         {"access", access_step},
    {"chmod", chmod_step},         {"chown", chown_step},         {"utimens", utimens_step},
    {"truncate", truncate_step},   {"chdir", chdir_step},         {"fchdir", fchdir_step},
    {"getcwd", getcwd_step},       {"realpath", realpath_step},   {"setxattr", setxattr_step},
    {"fsetxattr", fsetxattr_step}, {"getxattr", getxattr_step},   {"removexattr", removexattr_step},
    {"listxattr", listxattr_step}, {"list", list_step},           {"tree", tree_step},
    {NULL, NULL},
};
