/* Cases of calls on descriptors, streams, directories and paths that take more than numbers and plain addresses. */
#include "host_calls.h"
#include <wchar.h>
#include <aio.h>
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <stdarg.h>
#include <sys/mman.h>

static const char *const some_paths[] = {"file", "new", "missing/new", "folder", "locked/inside", "secret", "dangling", "", "/dev/full"};

/* ---- descriptors ---- */

static void own_fcntl(const char *name, void *function) {
    (void)name;
    static const int commands[] = {F_GETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_GET_SEALS, F_GETOWN, F_GETLEASE, 999};
    for (int kind = 0; kind < KINDS + 2; kind++) {
        EACH(i, commands) {
            if (!begin("(%s,%d)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one", commands[i])) continue;
            int d = kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1;
            errno = 0;
            result(CALL(int, d, commands[i], 40));
            end();
        }
        static const int set[] = {O_APPEND, O_NONBLOCK, O_DIRECT, 0, -1};
        EACH(i, set) {
            if (kind >= KINDS || !begin("(%s,F_SETFL,%d)", kind_names[kind], set[i])) continue;
            errno = 0;
            result(CALL(int, worlds[kind], F_SETFL, set[i]));
            end();
        }
    }
    static const int locks[] = {F_SETLK, F_SETLKW, F_GETLK, F_OFD_SETLK, F_OFD_GETLK};
    static const short types[] = {F_RDLCK, F_WRLCK, F_UNLCK, 17};
    for (int kind = READ_WRITE; kind <= PIPE_OUT; kind++)
        EACH(i, locks) EACH(j, types) {
            if (!begin("(%s,%d,%d)", kind_names[kind], locks[i], types[j])) continue;
            struct flock lock = {.l_type = types[j], .l_whence = SEEK_SET, .l_start = 2, .l_len = 5};
            errno = 0;
            result(CALL(int, worlds[kind], locks[i], &lock));
            also("%d %d %ld %ld %d", lock.l_type, lock.l_whence, (long)lock.l_start, (long)lock.l_len, lock.l_pid);
            end();
        }
    EACH(i, locks) {
        if (!begin("(read-write,%d,bad)", locks[i])) continue;
        errno = 0;
        result(CALL(int, worlds[READ_WRITE], locks[i], forbidden));
        end();
    }
}

static void own_mmap(const char *name, void *function) {
    (void)name;
    static const int flags[] = {MAP_PRIVATE, MAP_SHARED, MAP_PRIVATE | MAP_ANONYMOUS, 0, MAP_PRIVATE | MAP_FIXED_NOREPLACE};
    static const int protections[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_NONE, 99};
    for (int kind = 0; kind < KINDS + 2; kind++)
        EACH(i, flags) EACH(j, protections) {
            if (!begin("(%s,%d,%d)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one", flags[i], protections[j])) continue;
            int d = kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1;
            errno = 0;
            char *mapped = CALL(char *, 0L, 4096L, (long)protections[j], (long)flags[i], (long)d, 0L);
            result(mapped == MAP_FAILED ? -1 : 0);
            if (mapped != MAP_FAILED) {
                if (protections[j] == PROT_READ && kind == READ_WRITE) also("%.5s", mapped);
                if (protections[j] == (PROT_READ | PROT_WRITE) && kind == READ_WRITE && !(flags[i] & MAP_ANONYMOUS)) {
                    mapped[1] = 'M';
                    also("through read %zd:%.3s", pread(worlds[READ_WRITE], output, 3, 0), output);
                }
                munmap(mapped, 4096);
            }
            end();
        }
    static const long lengths[] = {0, 1, 100000, -1};
    EACH(i, lengths) {
        if (!begin("length %ld", lengths[i])) continue;
        errno = 0;
        char *mapped = CALL(char *, 0L, lengths[i], (long)PROT_READ, (long)MAP_PRIVATE, (long)worlds[READ_ONLY], 4096L * (i == 2));
        result(mapped == MAP_FAILED ? -1 : 0);
        end();
    }
}

static void own_unmap(const char *name, void *function) {
    const int is_move = !strcmp(name, "mremap");
    static const int kinds[] = {READ_WRITE, READ_ONLY, -1};
    static const long lengths[] = {4096, 8192, 0, -1, 12288};
    static const int flags[] = {0, MREMAP_MAYMOVE, MREMAP_FIXED, 64};
    EACH(k, kinds) EACH(i, lengths) for (size_t j = 0; j < (is_move ? 4 : 1); j++) for (int aside = 0; aside < 2; aside++) {
        if (!begin("(%s,%ld,%d,%d)", kinds[k] < 0 ? "anonymous" : kind_names[kinds[k]], lengths[i], flags[j], aside)) continue;
        int anonymous = kinds[k] < 0 ? MAP_ANONYMOUS : 0, d = kinds[k] < 0 ? -1 : worlds[kinds[k]];
        char *mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED | anonymous, d, 0);
        errno = 0;
        if (is_move) {
            char *moved = CALL(char *, mapped + aside, 8192L, lengths[i], (long)flags[j], 0L);
            result(moved == MAP_FAILED ? -1 : 0);
            if (moved != MAP_FAILED && kinds[k] >= 0) also("%.3s", moved);
        } else result(CALL(int, mapped + aside, lengths[i]));
        unsigned char present;
        also("%d", BARE(SYS_mincore, mapped, 4096, &present) == 0);
        end();
    }
}

static void own_close_range(const char *name, void *function) {
    const int is_range = !strcmp(name, "close_range");
    static const unsigned bounds[][3] = {{5, 9, 0}, {5, 9, 4}, {12, 10, 0}, {8, ~0U, 0}, {5, 6, 2}, {5, 6, 64}, {200, 300, 0}};
    EACH(i, bounds) {
        if (!begin("(%u,%u,%u)", bounds[i][0], bounds[i][1], bounds[i][2])) continue;
        IN_CHILD {
            errno = 0;
            if (is_range) result(CALL(int, bounds[i][0], bounds[i][1], bounds[i][2]));
            else CALL(void, bounds[i][0]);
            for (int d = 4; d < 30; d++) also("%ld", BARE(SYS_fcntl, d, F_GETFD));
        }
        end();
    }
}

/* ---- streams ---- */

static void show_stream(FILE *stream) {
    also("error %d end %d tell %ld", ferror(stream), feof(stream), ftell(stream));
}

static const char *const modes[] = {"r", "w", "a", "r+", "w+", "a+", "wx", "re", "q", "", "r,ccs=UTF-8"};

static void own_fopen(const char *name, void *function) {
    (void)name;
    EACH(i, some_paths) EACH(j, modes) {
        if (!begin("(%s,%s)", some_paths[i], modes[j])) continue;
        errno = 0;
        FILE *stream = CALL(FILE *, some_paths[i], modes[j]);
        result_pointer(stream);
        if (stream) {
            also("descriptor %d", fileno(stream));
            also("wrote %d", fputs("some words", stream));
            rewind(stream);
            also("read %zu %s", fread(output, 1, 6, stream), output);
            show_stream(stream);
            errno = 0;
            int closed = fclose(stream);
            also("closed");
            result(closed);
        }
        end();
    }
    const char *bad[] = {NULL, forbidden, (char *)1};
    EACH(i, bad) {
        if (!begin("(bad %zu)", i)) continue;
        errno = 0;
        result_pointer(CALL(FILE *, bad[i], "r"));
        end();
    }
}

static void own_wide(const char *name, void *function) {
    static const int kinds[] = {READ_WRITE, READ_ONLY, WRITE_ONLY, EMPTY_FILE};
    EACH(i, kinds) for (int count = 1; count < 8; count += 3) {
        if (!begin("(%s,%d)", kind_names[kinds[i]], count)) continue;
        wchar_t text[ROOM] = L"";
        FILE *stream = fdopen(worlds[kinds[i]], kinds[i] == WRITE_ONLY ? "w" : "r");
        errno = 0;
        if (strstr(name, "getwc")) result(CALL(int, stream));
        else if (strstr(name, "_chk")) result_pointer(CALL(void *, text, (size_t)ROOM, count, stream));
        else result_pointer(CALL(void *, text, count, stream));
        for (int at = 0; at < count; at++) also("%d", (int)text[at]);
        also("error %d end %d", ferror(stream) != 0, feof(stream) != 0);
        fclose(stream);
        end();
    }
}

static void own_fdopen(const char *name, void *function) {
    (void)name;
    for (int kind = 0; kind < KINDS + 2; kind++)
        EACH(j, modes) {
            if (!begin("(%s,%s)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one", modes[j])) continue;
            errno = 0;
            FILE *stream = CALL(FILE *, kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1, modes[j]);
            result_pointer(stream);
            if (stream) {
                also("wrote %d", fputs("some words", stream));
                errno = 0;
                int flushed = fflush(stream);
                also("flushed");
                result(flushed);
                also("read %zu", fread(output, 1, 6, stream));
                show_stream(stream);
                errno = 0;
                int closed = fclose(stream);
                also("closed");
                result(closed);
            }
            end();
        }
}

/* Streams in every state that a close finds: bytes that cannot be written, that were not read, a descriptor gone. */
static void own_fclose(const char *name, void *function) {
    (void)name;
    for (int kind = 0; kind < KINDS; kind++)
        for (int state = 0; state < 6; state++) {
            if (!begin("(%s, state %d)", kind_names[kind], state)) continue;
            static const char *const ways[] = {"r+", "w", "r", "r+", "a", "r"};
            FILE *stream = fdopen(worlds[kind], ways[state]);
            if (!stream) {
                also("no stream");
                end();
                continue;
            }
            if (state == 0 || state == 1 || state == 4) fputs("bytes that wait", stream);
            if (state == 2 || state == 5) also("got %d", getc(stream));
            if (state == 3 || state == 5) BARE(SYS_close, worlds[kind]);
            if (state == 3) fputs("lost", stream);
            errno = 0;
            result(CALL(int, stream));
            end();
        }
    if (begin("(unbuffered on a full device)")) {
        FILE *stream = fdopen(worlds[FULL_DEVICE], "w");
        setvbuf(stream, NULL, _IONBF, 0);
        also("put %d", fputs("x", stream));
        errno = 0;
        result(CALL(int, stream));
        end();
    }
    if (begin("(after a flush that failed)")) {
        FILE *stream = fdopen(worlds[FULL_DEVICE], "w");
        fputs("x", stream);
        also("flushed %d", fflush(stream));
        errno = 0;
        result(CALL(int, stream));
        end();
    }
    if (begin("(bytes that were pushed back)")) {
        FILE *stream = fdopen(worlds[READ_WRITE], "r");
        also("%d %d", getc(stream), ungetc('Z', stream));
        errno = 0;
        result(CALL(int, stream));
        end();
    }
    if (begin("(wide)")) {
        FILE *stream = fdopen(worlds[FULL_DEVICE], "w");
        also("%d", fprintf(stream, "%ls", L"wide") > 0);
        errno = 0;
        result(CALL(int, stream));
        end();
    }
    if (begin("(past the limit of a file)")) {
        IN_CHILD {
            struct { unsigned long soft, hard; } limit = {8, ~0UL};
            BARE(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, &limit, 0);
            FILE *stream = fdopen(worlds[EMPTY_FILE], "w");
            fputs("more than eight bytes", stream);
            errno = 0;
            result(CALL(int, stream));
        }
        end();
    }
}

static void own_freopen(const char *name, void *function) {
    (void)name;
    static const int kinds[] = {READ_WRITE, FULL_DEVICE, READ_ONLY, PIPE_IN, BROKEN_PIPE};
    EACH(k, kinds) EACH(i, some_paths) EACH(j, modes) {
        if (j > 4 || !begin("(%s,%s,%s)", kind_names[kinds[k]], some_paths[i], modes[j])) continue;
        FILE *stream = fdopen(worlds[kinds[k]], kinds[k] == READ_ONLY ? "r" : "w");
        if (kinds[k] == READ_ONLY) getc(stream);
        else fputs("pending", stream);
        errno = 0;
        FILE *other = CALL(FILE *, some_paths[i], modes[j], stream);
        result_pointer(other);
        if (other) {
            fputs("after", other);
            errno = 0;
            int closed = fclose(other);
            also("closed");
            result(closed);
        }
        end();
    }
    if (begin("(null path)")) {
        FILE *stream = fdopen(worlds[READ_WRITE], "r+");
        errno = 0;
        result_pointer(CALL(FILE *, NULL, "a", stream));
        end();
    }
}

static int print_list(void *function, int d, int is_checked, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int printed = is_checked ? CALL(int, d, 1, format, list) : CALL(int, d, format, list);
    va_end(list);
    return printed;
}

static void own_print(const char *name, void *function) {
    const int is_list = strstr(name, "vd") != NULL, is_checked = strstr(name, "_chk") != NULL;
    for (int kind = 0; kind < KINDS + 2; kind++) {
        if (!begin("(%s)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one")) continue;
        int d = kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1;
        static const char *const format = "%d %s %.2f %c|%d %d %d %d %.1f";
        errno = 0;
        if (is_list) result(print_list(function, d, is_checked, format, 7, "words", 2.5, 'c', 1, 2, 3, 4, 0.5));
        else if (is_checked) result(CALL(int, d, 1, format, 7, "words", 2.5, 'c', 1, 2, 3, 4, 0.5));
        else result(CALL(int, d, format, 7, "words", 2.5, 'c', 1, 2, 3, 4, 0.5));
        end();
    }
}

/* One request, to its end. */
static void own_request(const char *name, void *function) {
    const int is_read = strstr(name, "read") != NULL, is_list = !strncmp(name, "lio", 3), is_sync = strstr(name, "sync") != NULL;
    for (int kind = 0; kind < KINDS + 1; kind++) {
        /* A read of a terminal or of a pipe would wait. */
        if (kind == TERMINAL || kind == PIPE_OUT || kind == SOCKET || kind == OTHER_SOCKET) continue;
        if (!begin("(%s)", kind < KINDS ? kind_names[kind] : "closed")) continue;
        struct aiocb request = {.aio_fildes = kind < KINDS ? worlds[kind] : 61, .aio_buf = is_read ? output : input, .aio_nbytes = 5};
        request.aio_lio_opcode = LIO_WRITE;
        struct aiocb *requests[] = {&request, NULL};
        errno = 0;
        int begun = is_list ? CALL(int, LIO_WAIT, requests, 2, NULL) : is_sync ? CALL(int, O_SYNC, &request) : CALL(int, &request);
        result(begun);
        if (begun == 0) {
            const struct aiocb *awaited[] = {&request};
            while (aio_error(&request) == EINPROGRESS) aio_suspend(awaited, 1, NULL);
            int failed = aio_error(&request);
            also("%d %ld", failed, (long)aio_return(&request));
        }
        end();
    }
}

/* The names differ from run to run; what is made does not. */
static void own_temporary(const char *name, void *function) {
    static const char *const templates[] = {"tmpXXXXXX", "tmpXXXXXX.c", "XXXXX", "", "folder/aXXXXXX", "missing/aXXXXXX", "locked/aXXXXXX"};
    const int is_folder = !strcmp(name, "mkdtemp"), has_suffix = strstr(name, "temps") != NULL, has_flags = strstr(name, "mkost") != NULL;
    EACH(i, templates) for (int suffix = 0; suffix <= (has_suffix ? 2 : 0); suffix += 2) {
        if (!begin("(%s,%d)", templates[i], suffix)) continue;
        char template[64];
        strcpy(template, templates[i]);
        errno = 0;
        if (is_folder) {
            char *made = CALL(char *, template);
            result(made == template ? 0 : made ? 1 : -1);
        } else if (has_suffix && has_flags) result(CALL(int, template, suffix, O_APPEND));
        else if (has_suffix) result(CALL(int, template, suffix));
        else if (has_flags) result(CALL(int, template, O_CLOEXEC));
        else result(CALL(int, template));
        struct stat64 found;
        int is_made = strcmp(template, templates[i]) && !BARE(SYS_newfstatat, AT_FDCWD, template, &found, 0);
        also("%s %o", strcmp(template, templates[i]) ? "changed" : "as given", is_made ? found.st_mode : 0);
        if (is_made) BARE(SYS_unlinkat, AT_FDCWD, template, is_folder ? AT_REMOVEDIR : 0);
        end();
    }
}

/* ---- directories ---- */

static int by_name(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* A stream of `folder`, of a list of descriptors, and all calls on it; each symbol is called in its turn. */
static void own_directory(const char *name, void *function) {
    if (!strcmp(name, "fdopendir")) {
        for (int kind = 0; kind < KINDS + 2; kind++) {
            if (!begin("(%s)", kind < KINDS ? kind_names[kind] : kind == KINDS ? "closed" : "minus-one")) continue;
            errno = 0;
            DIR *stream = CALL(DIR *, kind < KINDS ? worlds[kind] : kind == KINDS ? 61 : -1);
            result_pointer(stream);
            if (stream) also("%d", dirfd(stream));
            end();
        }
        return;
    }
    for (int state = 0; state < 2; state++) {
        if (!begin("state %d", state)) continue;
        DIR *stream = opendir("folder");
        long start = telldir(stream);
        struct dirent *first = readdir(stream);
        long place = telldir(stream);
        struct dirent entry, *answered = NULL;
        char *seen[16];
        int count = 0;
        (void)first;
        if (state == 1) BARE(SYS_close, dirfd(stream));
        errno = 0;
        if (strstr(name, "readdir") && !strstr(name, "_r")) {
            rewinddir(stream);
            for (struct dirent *found; count < 16 && (found = CALL(struct dirent *, stream));) seen[count++] = strdup(found->d_name);
            result(count);
        } else if (strstr(name, "readdir")) {
            rewinddir(stream);
            int number = 0;
            while (count < 16 && !(number = CALL(int, stream, &entry, &answered)) && answered) seen[count++] = strdup(entry.d_name);
            result(number);
        } else if (!strcmp(name, "closedir")) {
            result(CALL(int, stream));
            end();
            continue;
        } else if (!strcmp(name, "dirfd")) {
            result(CALL(int, stream));
        } else if (!strcmp(name, "telldir")) {
            result(CALL(long, stream) == place);
        } else {
            if (!strcmp(name, "rewinddir")) CALL(void, stream);
            else CALL(void, stream, start);
            while (count < 16 && (first = readdir(stream))) seen[count++] = strdup(first->d_name);
            result(0);
        }
        qsort(seen, count, sizeof *seen, by_name);
        for (int i = 0; i < count; i++) also("%s", seen[i]);
        if (state == 0) closedir(stream);
        end();
    }
}

static const char *const folder_paths[] = {"folder", "folder/", "way", "empty-folder", "file", "missing", "locked", "", ".", "loop"};

static void own_opendir(const char *name, void *function) {
    (void)name;
    EACH(i, folder_paths) {
        if (!begin("(%s)", folder_paths[i])) continue;
        errno = 0;
        DIR *stream = CALL(DIR *, folder_paths[i]);
        result_pointer(stream);
        if (stream) also("%d", dirfd(stream));
        end();
    }
    if (begin("(bad)")) {
        errno = 0;
        result_pointer(CALL(DIR *, forbidden));
        end();
    }
}

static int without_dots(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void own_scandir(const char *name, void *function) {
    (void)name;
    EACH(i, folder_paths) {
        if (!begin("(%s)", folder_paths[i])) continue;
        struct dirent **list = NULL;
        errno = 0;
        int count = CALL(int, folder_paths[i], &list, without_dots, alphasort);
        result(count);
        for (int j = 0; j < count; j++) also("%s:%d", list[j]->d_name, list[j]->d_type);
        end();
    }
}

static void own_glob(const char *name, void *function) {
    (void)name;
    static const char *const patterns[] = {"*", "f*", "folder/*", "missing*", "*/one", "locked/*", "~", "{file,other}", "", "./f*", "way/*"};
    static const int flags[] = {0, GLOB_MARK, GLOB_ERR, GLOB_NOCHECK, GLOB_BRACE | GLOB_TILDE_CHECK, GLOB_ONLYDIR, GLOB_NOSORT | GLOB_DOOFFS};
    EACH(i, patterns) EACH(j, flags) {
        if (!begin("(%s,%d)", patterns[i], flags[j])) continue;
        glob_t found = {.gl_offs = 1};
        errno = 0;
        result(CALL(int, patterns[i], flags[j], NULL, &found));
        also("flags %x", found.gl_flags);
        size_t start = flags[j] & GLOB_DOOFFS ? 1 : 0;
        if (flags[j] & GLOB_NOSORT) qsort(found.gl_pathv + start, found.gl_pathc, sizeof(char *), by_name);
        for (size_t k = start; k < start + found.gl_pathc; k++) also("%s", found.gl_pathv[k]);
        globfree(&found);
        end();
    }
}

static char *visits[64];
static int visit_count;

static int note_visit(const char *path, const struct stat *found, int kind) {
    (void)found;
    char text[256];
    snprintf(text, sizeof text, "%s:%d", path, kind);
    if (visit_count < 64) visits[visit_count++] = strdup(text);
    return 0;
}

static int note_visit_at(const char *path, const struct stat *found, int kind, struct FTW *place) {
    char text[256];
    snprintf(text, sizeof text, "%s@%d.%d", path, place->base, place->level);
    return note_visit(text, found, kind);
}

static void own_walk(const char *name, void *function) {
    static const int flags[] = {0, FTW_PHYS, FTW_DEPTH, FTW_CHDIR, FTW_PHYS | FTW_DEPTH | FTW_MOUNT, FTW_ACTIONRETVAL};
    const int is_new = name[0] == 'n';
    EACH(i, folder_paths) EACH(j, flags) {
        if ((!is_new && j > 0) || !begin("(%s,%d)", folder_paths[i], flags[j])) continue;
        visit_count = 0;
        errno = 0;
        result(is_new ? CALL(int, folder_paths[i], note_visit_at, 8, flags[j]) : CALL(int, folder_paths[i], note_visit, 8));
        qsort(visits, visit_count, sizeof *visits, by_name);
        for (int k = 0; k < visit_count; k++) also("%s", visits[k]);
        end();
    }
}

/* ---- paths ---- */

static void own_getcwd(const char *name, void *function) {
    static const long sizes[] = {4096, 3, 0, -1};
    if (!strcmp(name, "get_current_dir_name")) {
        if (begin("()")) {
            errno = 0;
            also("%s", CALL(char *));
            end();
        }
        return;
    }
    const int is_checked = strstr(name, "_chk") != NULL;
    static char room[4096];
    char *places[] = {room, NULL, forbidden, edge, constant};
    EACH(i, places) EACH(j, sizes) {
        if (!begin("(%zu,%ld)", i, sizes[j])) continue;
        errno = 0;
        char *answer = is_checked ? CALL(char *, places[i], sizes[j], 4096L) : CALL(char *, places[i], sizes[j]);
        result_pointer(answer);
        if (answer) also("%s", answer);
        end();
    }
    if (begin("(removed)")) {
        BARE(SYS_chdir, "empty-folder");
        BARE(SYS_unlinkat, AT_FDCWD, "../empty-folder", AT_REMOVEDIR);
        errno = 0;
        result_pointer(is_checked ? CALL(char *, room, 4096L, 4096L) : CALL(char *, room, 4096L));
        end();
    }
}

static void own_getwd(const char *name, void *function) {
    const int is_checked = strstr(name, "_chk") != NULL;
    static char room[PATH_MAX];
    char *places[] = {room, NULL};
    EACH(i, places) {
        if (!begin("(%zu)", i)) continue;
        errno = 0;
        char *answer = is_checked ? CALL(char *, places[i], (long)PATH_MAX) : CALL(char *, places[i]);
        result_pointer(answer);
        if (answer) also("%s", answer);
        end();
    }
}

static void own_realpath(const char *name, void *function) {
    static const char *const paths[] = {"file", "link", "way/one", "missing", "missing/x", "folder/../file", "loop", "dangling", "", ".", "way/..",
                                        "file/", "folder/", "locked/inside", "//file", "./way/../file"};
    static char room[PATH_MAX];
    const int is_alone = !strncmp(name, "canon", 5), is_checked = strstr(name, "_chk") != NULL;
    EACH(i, paths) for (int own = 0; own < 2 - is_alone; own++) {
        if (!begin("(%s,%d)", paths[i], own)) continue;
        char *place = own ? NULL : room;
        room[0] = 0;
        errno = 0;
        char *answer = is_alone ? CALL(char *, paths[i]) : is_checked ? CALL(char *, paths[i], room, (long)PATH_MAX) : CALL(char *, paths[i], place);
        result_pointer(answer);
        also("%s", answer ? answer : room);
        end();
    }
    char *bad[] = {NULL, forbidden, (char *)1};
    EACH(i, bad) {
        if (!begin("(bad %zu)", i)) continue;
        errno = 0;
        result_pointer(is_checked ? CALL(char *, bad[i], room, (long)PATH_MAX) : CALL(char *, bad[i], NULL));
        end();
    }
}

const struct row file_rows[] = {
    {"fcntl fcntl64 __fcntl", 'o', "", own_fcntl},
    {"mmap mmap64", 'o', "", own_mmap},
    {"munmap mremap", 'o', "", own_unmap},
    {"close_range closefrom", 'o', "", own_close_range},
    {"fopen fopen64", 'o', "", own_fopen},
    {"fdopen", 'o', "", own_fdopen},
    {"fgetwc getwc fgetwc_unlocked getwc_unlocked fgetws fgetws_unlocked __fgetws_chk __fgetws_unlocked_chk", 'o', "", own_wide},
    {"fclose", 'o', "", own_fclose},
    {"freopen freopen64", 'o', "", own_freopen},
    {"dprintf __dprintf_chk vdprintf __vdprintf_chk", 'o', "", own_print},
    {"aio_read aio_read64 aio_write aio_write64 aio_fsync aio_fsync64 lio_listio lio_listio64", 'o', "", own_request},
    {"mkstemp mkstemp64 mkostemp mkostemp64 mkstemps mkstemps64 mkostemps mkostemps64 mkdtemp", 'o', "", own_temporary},
    {"fdopendir closedir dirfd readdir readdir64 readdir_r readdir64_r rewinddir seekdir telldir", 'o', "", own_directory},
    {"opendir", 'o', "", own_opendir},
    {"scandir scandir64", 'o', "", own_scandir},
    {"glob glob64", 'o', "", own_glob},
    {"ftw ftw64 nftw nftw64", 'o', "", own_walk},
    {"getcwd __getcwd_chk get_current_dir_name", 'o', "", own_getcwd},
    {"getwd __getwd_chk", 'o', "", own_getwd},
    {"realpath __realpath_chk canonicalize_file_name", 'o', "", own_realpath},
    {NULL, 0, NULL, NULL},
};
