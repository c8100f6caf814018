/* Uses a directory the way programs do, and checks what it sees. Prints "done". */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno,     \
                    strerror(errno));                                                                \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

enum { BLOCK = 8192, BLOCKS = 300 };

static void whole_file(void) {
    char block[BLOCK], seen[BLOCK];
    int file = open("data", O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(file >= 0);
    for (int i = 0; i < BLOCKS; i++) {
        memset(block, 'a' + i % 26, BLOCK);
        CHECK(write(file, block, BLOCK) == BLOCK);
    }
    CHECK(lseek(file, 0, SEEK_CUR) == (off_t)BLOCK * BLOCKS);
    for (int i = BLOCKS - 1; i >= 0; i -= 7) {
        memset(block, 'a' + i % 26, BLOCK);
        CHECK(pread(file, seen, BLOCK, (off_t)i * BLOCK) == BLOCK && memcmp(block, seen, BLOCK) == 0);
    }
    struct iovec parts[2] = {{"head", 4}, {"tail", 4}};
    CHECK(pwritev(file, parts, 2, 100) == 8 && pread(file, seen, 8, 100) == 8 && memcmp(seen, "headtail", 8) == 0);
    CHECK(ftruncate(file, 105) == 0 && pread(file, seen, BLOCK, 100) == 5 && memcmp(seen, "headt", 5) == 0);
    CHECK(fsync(file) == 0);
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_size == 105 && (status.st_mode & 07777) == 0640);
    CHECK(close(file) == 0);
    CHECK(open("data", O_RDWR | O_CREAT | O_EXCL, 0640) == -1 && errno == EEXIST);
}

static void names(void) {
    CHECK(mkdir("sub", 0755) == 0 && rename("data", "sub/data") == 0 && symlink("sub/data", "link") == 0);
    int folder = open("sub", O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    CHECK(linkat(folder, "data", folder, "hard", 0) == 0);
    struct stat status;
    CHECK(fstatat(folder, "hard", &status, 0) == 0 && status.st_nlink == 2);
    DIR *stream = fdopendir(folder);
    CHECK(stream != NULL);
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) seen += entry->d_name[0] != '.';
    CHECK(seen == 2 && closedir(stream) == 0);
    char target[64];
    CHECK(readlink("link", target, sizeof target) == 8);
    CHECK(unlink("sub/hard") == 0 && rmdir("sub") == -1 && errno == ENOTEMPTY);
}

static void streams(void) {
    FILE *file = fopen("text", "w+");
    CHECK(file != NULL);
    for (int i = 0; i < 20000; i++) CHECK(fprintf(file, "line %d\n", i) > 0);
    CHECK(fseek(file, 0, SEEK_SET) == 0);
    char line[64];
    for (int i = 0; i < 20000; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "line %d\n", i);
        CHECK(fgets(line, sizeof line, file) != NULL && strcmp(line, expected) == 0);
    }
    CHECK(fgets(line, sizeof line, file) == NULL && fclose(file) == 0);
}

static void children(void) {
    int file = open("shared", O_RDWR | O_CREAT | O_APPEND, 0600);
    CHECK(file >= 0);
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            for (int j = 0; j < 50; j++) CHECK(write(file, "0123456789abcde\n", 16) == 16);
            _exit(0);
        }
    }
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
    CHECK(lseek(file, 0, SEEK_END) == 4 * 50 * 16);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
    CHECK(fcntl(file, F_SETLK, &lock) == 0 && flock(file, LOCK_EX) == 0);
    if (fork() == 0) {
        CHECK(fcntl(file, F_SETLK, &lock) == -1 && (errno == EAGAIN || errno == EACCES));
        _exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(close(file) == 0);
}

#ifndef WITHOUT_MAPPING
static void mapping(void) {
    int file = open("mapped", O_RDWR | O_CREAT, 0600);
    CHECK(file >= 0 && ftruncate(file, 100000) == 0);
    char *bytes = mmap(NULL, 100000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(bytes != MAP_FAILED);
    strcpy(bytes + 50000, "mapped");
    CHECK(msync(bytes, 100000, MS_SYNC) == 0);
    char seen[7];
    CHECK(pread(file, seen, 7, 50000) == 7 && strcmp(seen, "mapped") == 0);
    CHECK(pwrite(file, "MAP", 3, 50000) == 3 && memcmp(bytes + 50000, "MAPped", 6) == 0);
    CHECK(munmap(bytes, 100000) == 0 && close(file) == 0);
}
#endif

int main(int count, char **arguments) {
    CHECK(count == 2);
    char own[] = "files-XXXXXX";
    CHECK(chdir(arguments[1]) == 0 && mkdtemp(own) != NULL && chdir(own) == 0);
    umask(0);
    whole_file();
    names();
    streams();
    children();
#ifndef WITHOUT_MAPPING
    mapping();
#endif
    puts("done");
    return 0;
}
