/* The steps of random calls by the C library's streams. */

#include "random_calls.h"

#include <errno.h>
#include <stdio_ext.h>
#include <string.h>

enum { STREAM_BUFFER_BYTES = 4096 };

static FILE *streams[SLOTS];
static char buffers[SLOTS][STREAM_BUFFER_BYTES];

/* Each step may write what the ones before have left in the buffer. */
static FILE *stream(void) {
    FILE *found = streams[slot()];
    if (found)
        ask_size(fileno(found));
    return found;
}

static bool is_open(const FILE *file) {
    if (!file)
        say("no stream");
    return file != NULL;
}

/* glibc reads long parts of a stream that is not for reading, and refuses short ones. */
static bool is_readable(FILE *file) {
    if (file && !__freadable(file))
        say("not for reading");
    return is_open(file) && __freadable(file);
}

void close_streams(void) {
    for (int each = 0; each < SLOTS; each++) {
        if (streams[each])
            fclose(streams[each]);
        streams[each] = NULL;
    }
}

/* The buffer is as large on each file system, or other clients would see the bytes at other moments. */
static void keep_stream(int which, FILE *opened) {
    if (!opened) {
        outcome(-1);
        return;
    }
    struct stat status;
    if (fstat(fileno(opened), &status) == 0 && S_ISDIR(status.st_mode)) {
        say("each file system has its own positions in directories");
        fclose(opened);
        return;
    }
    if (streams[which])
        fclose(streams[which]);
    setvbuf(opened, buffers[which], _IOFBF, STREAM_BUFFER_BYTES);
    streams[which] = opened;
    outcome(0);
}

static void fopen_step(void) {
    int which = slot();
    struct place place_ = place();
    keep_stream(which, fopen(place_.path, word()));
}

/* The stream has the descriptor from then on. */
static void fdopen_step(void) {
    int which = slot(), from = slot();
    FILE *opened = fdopen(descriptors[from], word());
    if (opened)
        descriptors[from] = -1;
    keep_stream(which, opened);
}

static void fclose_step(void) {
    int which = slot();
    if (!is_open(streams[which]))
        return;
    ask_size(fileno(streams[which]));
    outcome(fclose(streams[which]));
    streams[which] = NULL;
}

static void fread_step(void) {
    FILE *file = stream();
    size_t count = (size_t)number();
    if (!is_readable(file))
        return;
    errno = 0;
    size_t length = fread(buffer, 1, count, file);
    say("%zu%s%s%s", length, ferror(file) ? " error " : "", ferror(file) ? strerrorname_np(errno) : "", feof(file) ? " end" : "");
    say_bytes(buffer, length);
    clearerr(file);
}

static void fwrite_step(void) {
    FILE *file = stream();
    size_t count = (size_t)number();
    memset(buffer, (int)number(), count);
    if (!is_open(file))
        return;
    errno = 0;
    size_t length = fwrite(buffer, 1, count, file);
    say("%zu%s%s", length, ferror(file) ? " error " : "", ferror(file) ? strerrorname_np(errno) : "");
    clearerr(file);
}

static void fgets_step(void) {
    FILE *file = stream();
    int count = (int)number();
    if (!is_readable(file))
        return;
    bool is_there = fgets((char *)buffer, count, file) != NULL;
    say("%s%s", is_there ? "line" : "nothing", feof(file) ? " end" : "");
    if (is_there)
        say_bytes(buffer, strlen((char *)buffer));
    clearerr(file);
}

static void fprintf_step(void) {
    FILE *file = stream();
    long long count = number();
    if (is_open(file))
        outcome(fprintf(file, "%0*d\n", (int)count, 7));
    if (file)
        clearerr(file);
}

static void getc_step(void) {
    FILE *file = stream();
    if (!is_readable(file))
        return;
    int byte = getc(file);
    say("%d", byte);
    if (number())
        say(" %d", ungetc(byte, file));
    clearerr(file);
}

static void fseek_step(void) {
    FILE *file = stream();
    long offset = (long)number();
    int whence = (int)number();
    if (is_open(file))
        outcome(fseek(file, offset, whence));
}

static void ftell_step(void) {
    FILE *file = stream();
    if (is_open(file))
        outcome(ftell(file));
}

static void fflush_step(void) {
    FILE *file = stream();
    if (is_open(file))
        outcome(fflush(file));
}

const struct command stream_commands[] = {
    {"fopen", fopen_step},   {"fdopen", fdopen_step},   {"fclose", fclose_step}, {"fread", fread_step},
    {"fwrite", fwrite_step}, {"fgets", fgets_step},     {"fprintf", fprintf_step}, {"getc", getc_step},
    {"fseek", fseek_step},   {"ftell", ftell_step},     {"fflush", fflush_step}, {NULL, NULL},
};
