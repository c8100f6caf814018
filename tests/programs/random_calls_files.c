/* The steps of random calls about open files: bytes, holes, positions, locks and mappings. */

#include "random_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    unsigned char *bytes;
    size_t length;
    int file;
} mappings[SLOTS];

static sigjmp_buf on_fault;

static void open_step(void) {
    int kept = slot();
    struct place place_ = place();
    int flags = (int)number();
    mode_t mode = (mode_t)number();
    keep(kept, place_.is_plain ? open(place_.path, flags, mode) : openat(place_.at, place_.path, flags, mode));
}

static void openat2_step(void) {
    int kept = slot();
    struct place place_ = place();
    struct open_how how = {.flags = (unsigned long long)number()};
    how.mode = (unsigned long long)number();
    how.resolve = (unsigned long long)number();
    keep(kept, (int)syscall(SYS_openat2, place_.at, place_.path, &how, sizeof how));
}

static void close_step(void) {
    int closed = slot();
    outcome(close(descriptors[closed]));
    descriptors[closed] = -1;
}

static void dup_step(void) {
    int kept = slot();
    keep(kept, dup(descriptor()));
}

/* Onto the number of another slot, so both slots name one description from then on. */
static void dup2_step(void) {
    int over = descriptor();
    outcome(dup2(descriptor(), over));
}

static void getfl_step(void) {
    int flags = fcntl(descriptor(), F_GETFL);
    if (flags < 0)
        outcome(flags);
    else
        say("%o", flags);
}

static void setfl_step(void) {
    int file = descriptor();
    outcome(fcntl(file, F_SETFL, (int)number()));
}

/* The kernel learns when it is asked that others have made a file shorter (docs/reference/limits.md, "append through the mount after
 * another client made the file shorter"). */
void ask_size(int file) {
    struct stat status;
    fstat(file, &status);
}

static void read_step(void) {
    int file = descriptor();
    ssize_t length = read(file, buffer, (size_t)number());
    if (outcome(length))
        say_bytes(buffer, (size_t)length);
}

static void pread_step(void) {
    int file = descriptor();
    size_t count = (size_t)number();
    ssize_t length = pread(file, buffer, count, (off_t)number());
    if (outcome(length))
        say_bytes(buffer, (size_t)length);
}

static void write_step(void) {
    int file = descriptor();
    size_t count = (size_t)number();
    memset(buffer, (int)number(), count);
    ask_size(file);
    outcome(write(file, buffer, count));
}

static void pwrite_step(void) {
    int file = descriptor();
    size_t count = (size_t)number();
    off_t offset = (off_t)number();
    memset(buffer, (int)number(), count);
    outcome(pwrite(file, buffer, count, offset));
}

/* Two parts of one vector. */
static void writev_step(void) {
    int file = descriptor();
    size_t count = (size_t)number();
    memset(buffer, (int)number(), count);
    struct iovec parts[] = {{buffer, count / 3}, {buffer + count / 3, count - count / 3}};
    ask_size(file);
    outcome(writev(file, parts, 2));
}

static void readv_step(void) {
    int file = descriptor();
    size_t count = (size_t)number();
    struct iovec parts[] = {{buffer, count / 3}, {buffer + count / 3, count - count / 3}};
    ssize_t length = readv(file, parts, 2);
    if (outcome(length))
        say_bytes(buffer, (size_t)length);
}

/* Whether a file reads as zeros from one offset to another. */
static bool is_hole(int file, off_t begin, off_t end) {
    while (begin < end) {
        size_t want = end - begin < BUFFER_BYTES ? (size_t)(end - begin) : BUFFER_BYTES;
        ssize_t length = pread(file, buffer, want, begin);
        // A descriptor that cannot be read proves nothing.
        if (length <= 0)
            return true;
        for (ssize_t each = 0; each < length; each++)
            if (buffer[each])
                return false;
        begin += length;
    }
    return true;
}

/* File systems may take zeros for data. The answer is what all of them have to keep: bytes that are not zeros are data. */
static void say_seek(int file, off_t offset, int whence, off_t found, off_t size) {
    if (found < offset || found > size)
        say("out of bounds");
    else if (whence == SEEK_DATA)
        say("%s", is_hole(file, offset, found) ? "data" : "skipped data");
    else
        say("%s", found == size || is_hole(file, found, found + 1) ? "hole" : "no hole");
}

static void lseek_step(void) {
    int file = descriptor();
    off_t offset = (off_t)number();
    int whence = (int)number();
    struct stat status;
    bool is_known = fstat(file, &status) == 0;
    if (is_known && S_ISDIR(status.st_mode)) {
        say("each file system has its own positions in directories");
        return;
    }
    off_t found = lseek(file, offset, whence);
    if ((whence != SEEK_DATA && whence != SEEK_HOLE) || !is_known) {
        outcome(found);
        return;
    }
    if (found >= 0)
        say_seek(file, offset, whence, found, status.st_size);
    else if (errno == ENXIO && offset < status.st_size && whence == SEEK_DATA)
        say("%s", is_hole(file, offset, status.st_size) ? "data" : "skipped data");
    else
        outcome(found);
    // Where the position is now depends on the file system.
    lseek(file, 0, SEEK_SET);
}

static void ftruncate_step(void) {
    int file = descriptor();
    outcome(ftruncate(file, (off_t)number()));
}

/* tmpfs has no FALLOC_FL_ZERO_RANGE: a hole and a length have the same effect. */
static int zeroed(int file, int mode, off_t offset, off_t length) {
    struct stat status;
    int result = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
    bool is_longer = result == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && fstat(file, &status) == 0;
    return is_longer && status.st_size < offset + length ? ftruncate(file, offset + length) : result;
}

static void fallocate_step(void) {
    int file = descriptor();
    int mode = (int)number();
    off_t offset = (off_t)number(), length = (off_t)number();
    int result = fallocate(file, mode, offset, length);
    if (result < 0 && errno == EOPNOTSUPP && mode & FALLOC_FL_ZERO_RANGE)
        result = zeroed(file, mode, offset, length);
    outcome(result);
}

static void fsync_step(void) {
    int file = descriptor();
    outcome(number() ? fdatasync(file) : fsync(file));
}

static void fstat_step(void) {
    struct stat status;
    if (outcome(fstat(descriptor(), &status)))
        say_status(&status);
}

static void fchmod_step(void) {
    int file = descriptor();
    outcome(fchmod(file, (mode_t)number()));
}

static void fchown_step(void) {
    int file = descriptor();
    uid_t user = (uid_t)number();
    outcome(fchown(file, user, (gid_t)number()));
}

static void futimens_step(void) {
    int file = descriptor();
    struct timespec times[2];
    for (int each = 0; each < 2; each++) {
        times[each].tv_sec = (time_t)number();
        times[each].tv_nsec = (long)number();
    }
    outcome(futimens(file, times));
}

/* A negative offset stands for the position of the description. */
static void copy_step(void) {
    int from = descriptor();
    off_t from_offset = (off_t)number();
    int to = descriptor();
    off_t to_offset = (off_t)number();
    size_t count = (size_t)number();
    outcome(copy_file_range(from, from_offset < 0 ? NULL : &from_offset, to, to_offset < 0 ? NULL : &to_offset, count, 0));
}

static void sendfile_step(void) {
    int to = descriptor(), from = descriptor();
    off_t offset = (off_t)number();
    size_t count = (size_t)number();
    struct stat one, other;
    if (fstat(to, &one) == 0 && fstat(from, &other) == 0 && one.st_ino == other.st_ino) {
        say("what is read of a file that is being written depends on the kernel");
        return;
    }
    outcome(sendfile(to, from, offset < 0 ? NULL : &offset, count));
}

static void advise_step(void) {
    int file = descriptor();
    off_t offset = (off_t)number(), length = (off_t)number();
    errno = posix_fadvise(file, offset, length, (int)number());
    outcome(errno ? -1 : 0);
}

/* docs/reference/limits.md, "locks on directories" */
static bool is_directory(int file) {
    struct stat status;
    bool is_one = fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
    if (is_one)
        say("locks on directories are not compared");
    return is_one;
}

/* `lock SLOT KIND BEGIN LENGTH COMMAND`: no step waits for a lock, because another one of the same client would end it. */
static void lock_step(void) {
    int file = descriptor();
    struct flock lock = {.l_type = (short)number(), .l_whence = SEEK_SET};
    lock.l_start = (off_t)number();
    lock.l_len = (off_t)number();
    int command = (int)number();
    if (is_directory(file))
        return;
    bool is_asked = outcome(fcntl(file, command, &lock));
    // Which one of several locks is shown is not fixed.
    if (is_asked && (command == F_GETLK || command == F_OFD_GETLK))
        say("%s", lock.l_type == F_UNLCK ? " free" : " taken");
}

static void flock_step(void) {
    int file = descriptor();
    if (is_directory(file))
        return;
    outcome(flock(file, LOCK_NB | (int)number()));
}

static void unmap(int which) {
    if (mappings[which].bytes)
        munmap(mappings[which].bytes, mappings[which].length);
    mappings[which].bytes = NULL;
}

void close_mappings(void) {
    for (int each = 0; each < SLOTS; each++)
        unmap(each);
}

/* `mmap MAPPING SLOT OFFSET LENGTH PROTECTION FLAGS` */
static void mmap_step(void) {
    int which = slot(), file = descriptor();
    off_t offset = (off_t)number();
    size_t length = (size_t)number();
    int protection = (int)number();
    void *made = mmap(NULL, length, protection, (int)number(), file, offset);
    if (made == MAP_FAILED) {
        outcome(-1);
        return;
    }
    unmap(which);
    mappings[which].bytes = made;
    mappings[which].length = length;
    outcome(0);
}

static void fault(int signal) {
    (void)signal;
    siglongjmp(on_fault, 1);
}

/* Copy between memory and a mapping; a fault of the mapping is an answer. */
static bool moved(unsigned char *to, const unsigned char *from, size_t count) {
    struct sigaction handler = {.sa_handler = fault}, before[2];
    sigaction(SIGBUS, &handler, &before[0]);
    sigaction(SIGSEGV, &handler, &before[1]);
    bool is_moved = false;
    if (sigsetjmp(on_fault, 1) == 0) {
        memcpy(to, from, count);
        is_moved = true;
    }
    sigaction(SIGBUS, &before[0], NULL);
    sigaction(SIGSEGV, &before[1], NULL);
    return is_moved;
}

static bool part(int *which, size_t *offset, size_t *count) {
    *which = slot();
    *offset = (size_t)number();
    *count = (size_t)number();
    bool is_inside = mappings[*which].bytes && *offset <= mappings[*which].length;
    if (!is_inside) {
        say("not mapped");
        return false;
    }
    if (*count > mappings[*which].length - *offset)
        *count = mappings[*which].length - *offset;
    return true;
}

static void mapped_read_step(void) {
    int which;
    size_t offset, count;
    if (!part(&which, &offset, &count))
        return;
    if (moved(buffer, mappings[which].bytes + offset, count)) {
        outcome((long long)count);
        say_bytes(buffer, count);
    } else {
        say("fault");
    }
}

/* Other clients are promised what was stored when it was synced. */
static void mapped_write_step(void) {
    int which;
    size_t offset, count;
    if (!part(&which, &offset, &count))
        return;
    memset(buffer, (int)number(), count);
    if (moved(mappings[which].bytes + offset, buffer, count))
        outcome(msync(mappings[which].bytes, mappings[which].length, MS_SYNC));
    else
        say("fault");
}

static void munmap_step(void) {
    int which = slot();
    say(mappings[which].bytes ? "unmapped" : "not mapped");
    unmap(which);
}

const struct command file_commands[] = {
    {"open", open_step},           {"openat2", openat2_step},     {"close", close_step},
    {"dup", dup_step},             {"dup2", dup2_step},           {"getfl", getfl_step},
    {"setfl", setfl_step},         {"read", read_step},           {"pread", pread_step},
    {"write", write_step},         {"pwrite", pwrite_step},       {"writev", writev_step},
    {"readv", readv_step},         {"lseek", lseek_step},         {"ftruncate", ftruncate_step},
    {"fallocate", fallocate_step}, {"fsync", fsync_step},         {"fstat", fstat_step},
    {"fchmod", fchmod_step},       {"fchown", fchown_step},       {"futimens", futimens_step},
    {"copy", copy_step},           {"sendfile", sendfile_step},   {"advise", advise_step},
    {"lock", lock_step},           {"flock", flock_step},         {"mmap", mmap_step},
    {"mapped-read", mapped_read_step}, {"mapped-write", mapped_write_step}, {"munmap", munmap_step},
    {NULL, NULL},
};
