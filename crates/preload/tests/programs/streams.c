/* A law about streams: random calls on streams of a few files, from a printed seed. Every answer is printed, and at the end
 * the bytes of the files. Runs in the directory argv[1]; the output must be the same on a plain directory and on the store. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 3, STREAMS = 3, BYTES = 40000 };

static unsigned long long state;
static unsigned below(unsigned bound) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % bound;
}

struct open_stream {
    FILE *file;
    int which, reads, writes;
    /* The last operation: C asks for a positioning call between reads and writes. */
    int did_read, did_write;
    /* Whether `ungetc` put a byte back: libc then goes to a wrong place by SEEK_CUR from inside its buffer (2.36). */
    int did_put_back;
    char *buffer;
};
static struct open_stream streams[STREAMS];
static char base[PATH_MAX - 64];
static long step;
static int who;

static const char *name_of(int which) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/file-%d", base, which);
    return path;
}

static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    printf("%ld/%d ", step, who);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

static unsigned long hash(const char *bytes, size_t count) {
    unsigned long sum = 14695981039346656037UL;
    for (size_t i = 0; i < count; i++) sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211UL;
    return sum;
}

static char room[BYTES + 1];

/* Lengths around the sizes of buffers are as frequent as short ones. */
static size_t length(void) {
    static const size_t edges[] = {1, 2, 511, 512, 1023, 1024, 4095, 4096, 4097, 8192, 16384, 32768};
    return below(2) ? below(40) : below(2) ? edges[below(12)] : below(9000);
}

static void fill(size_t count) {
    for (size_t i = 0; i < count; i++) room[i] = below(12) ? 'a' + below(26) : '\n';
    room[count] = 0;
}

static void state_of(struct open_stream *s) {
    say("  eof %d error %d", feof(s->file) != 0, ferror(s->file) != 0);
}

static void close_stream(struct open_stream *s) {
    errno = 0;
    int result = fclose(s->file);
    say("fclose %d %d", result, result ? errno : 0);
    free(s->buffer);
    memset(s, 0, sizeof *s);
}

static const char *const modes[] = {"r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "r+b", "rb+", "w+b", "ab+", "re", "we", "rbe+", "wx", "w+x", "a+e"};

static void note_mode(struct open_stream *s, const char *mode) {
    int both = strchr(mode, '+') != NULL;
    s->reads = both || *mode == 'r';
    s->writes = both || *mode != 'r';
    s->did_read = s->did_write = s->did_put_back = 0;
}

/* Calls that the mode does not allow, before any other: libc looks at the mode only where its buffer is empty. */
static void refused(struct open_stream *s) {
    errno = 0;
    if (!s->reads) say("getc of a stream for writes: %d %d", getc(s->file), errno);
    errno = 0;
    if (!s->writes) say("putc to a stream for reads: %d %d", putc('x', s->file), errno);
    say("error %d", ferror(s->file) != 0);
    clearerr(s->file);
}

static void open_stream(struct open_stream *s) {
    const char *mode = modes[below(sizeof modes / sizeof *modes)];
    int which = below(FILES), way = below(4);
    /* One stream for a file at a time: what another stream has in its buffer is nobody's to know. */
    for (int i = 0; i < STREAMS; i++) if (streams[i].file && streams[i].which == which) return;
    errno = 0;
    if (way == 0) {
        static const int accesses[] = {O_RDONLY, O_WRONLY, O_RDWR};
        int flags = accesses[below(3)] | O_CREAT;
        /* libc does not know of O_APPEND on a descriptor for another mode, and tells places that are not there. */
        if (*mode == 'a' && below(2)) flags |= O_APPEND;
        int d = open(name_of(which), flags, 0600);
        long at = lseek(d, below(300), SEEK_SET);
        errno = 0;
        s->file = fdopen(d, mode);
        say("fdopen %d %x %s at %ld: %s %d", which, flags, mode, at, s->file ? "yes" : "no", s->file ? 0 : errno);
        if (!s->file) close(d);
    } else {
        s->file = fopen(name_of(which), mode);
        say("fopen %d %s: %s %d", which, mode, s->file ? "yes" : "no", s->file ? 0 : errno);
    }
    if (!s->file) return;
    s->which = which;
    note_mode(s, mode);
    if (!below(4)) refused(s);
    if (!below(3)) {
        static const int kinds[] = {_IONBF, _IOLBF, _IOFBF};
        static const size_t sizes[] = {1, 7, 64, 1000, 4096, 10000};
        int kind = kinds[below(3)];
        size_t size = sizes[below(6)];
        s->buffer = below(2) ? malloc(size) : NULL;
        say("setvbuf %d %zu %d: %d", kind, size, s->buffer != NULL, setvbuf(s->file, s->buffer, kind, size));
    }
}

static void position(struct open_stream *s) {
    long result;
    static fpos_t kept[STREAMS];
    static int is_kept[STREAMS], kept_which[STREAMS];
    int i = s - streams;
    errno = 0;
    switch (s->did_put_back ? 4 * below(2) : below(7)) {
    case 0: { long to = below(60); result = fseek(s->file, to, SEEK_SET); say("fseek %ld set: %ld", to, result); break; }
    case 1: {
        long by = (long)below(200) - 100;
        result = fseek(s->file, by, SEEK_CUR); say("fseek %ld cur: %ld %d", by, result, result ? errno : 0); break; }
    case 2: { long by = (long)below(30) - 20; result = fseek(s->file, by, SEEK_END); say("fseek %ld end: %ld %d", by, result, result ? errno : 0); break; }
    case 3: rewind(s->file); say("rewind"); break;
    case 4: say("fseeko: %d", fseeko(s->file, length(), SEEK_SET)); break;
    case 5:
        if (is_kept[i] && kept_which[i] == s->which) { say("fsetpos: %d", fsetpos(s->file, &kept[i])); break; }
        /* fall through */
    default:
        result = fgetpos(s->file, &kept[i]);
        is_kept[i] = 1;
        kept_which[i] = s->which;
        say("fgetpos: %ld", result);
        result = fseek(s->file, 0, SEEK_CUR);
        say("fseek here: %ld", result);
    }
    s->did_read = s->did_write = s->did_put_back = 0;
}

static void read_some(struct open_stream *s) {
    size_t count = length();
    errno = 0;
    switch (below(6)) {
    case 0: { size_t n = fread(room, 1, count, s->file); say("fread %zu: %zu %lx", count, n, hash(room, n)); break; }
    case 1: { size_t n = fread(room, 7, count / 7 + 1, s->file); say("fread 7: %zu %lx", n, hash(room, n * 7)); break; }
    case 2: { int n = 1 + below(300); char *got = fgets(room, n, s->file); say("fgets %d: %s %lx", n, got ? "yes" : "no", got ? hash(room, strlen(room)) : 0); break; }
    case 3: {
        int c = getc(s->file);
        say("getc: %d", c);
        if (c != EOF && !below(2)) {
            s->did_put_back = 1;
            say("ungetc: %d", ungetc(below(2) ? c : 'Z', s->file)); if (!below(3)) say("ungetc: %d", ungetc('Y', s->file)); }
        break; }
    case 4: { char *line = NULL; size_t n = 0; long got = getline(&line, &n, s->file); say("getline: %ld %lx", got, got > 0 ? hash(line, got) : 0); free(line); break; }
    case 5: { int number = -1; char word[100] = ""; int got = fscanf(s->file, "%99[a-m]%n", word, &number); say("fscanf: %d %s %d", got, word, number); break; }
    }
    s->did_read = 1;
    s->did_write = 0;
}

static void write_some(struct open_stream *s) {
    size_t count = length();
    fill(count);
    errno = 0;
    switch (below(5)) {
    case 0: say("fwrite %zu: %zu", count, fwrite(room, 1, count, s->file)); break;
    case 1: say("fwrite 3: %zu", fwrite(room, 3, count / 3, s->file)); break;
    case 2: say("fputs: %d", fputs(room, s->file) >= 0); break;
    case 3: say("putc: %d", putc(room[0], s->file)); break;
    case 4: say("fprintf: %d", fprintf(s->file, "%d %s|", (int)count, "words")); break;
    }
    s->did_write = 1;
    s->did_read = 0;
}

static void other(struct open_stream *s) {
    errno = 0;
    switch (below(6)) {
    case 0: say("ftell: %ld %d", ftell(s->file), errno); break;
    case 1:
        /* C leaves open what it does after reads; libc's answer depends on what its buffer holds. */
        if (s->did_read) break;
        say("fflush: %d", fflush(s->file)); s->did_write = 0; break;
    case 2: clearerr(s->file); say("clearerr"); break;
    case 3: say("reads %d writes %d", __freadable(s->file) != 0, __fwritable(s->file) != 0); break;
    case 4:
        /* After reads the descriptor is as far as the buffer, whose size is nobody's to know. */
        if (s->did_read) break;
        say("lseek of the descriptor: %d", fflush(s->file)); say("   %ld", (long)lseek(fileno(s->file), 0, SEEK_CUR)); s->did_write = 0; break;
    case 5: {
        struct stat status;
        if (s->did_write) fflush(s->file);
        int found = fstat(fileno(s->file), &status);
        say("size: %d %ld", found, (long)status.st_size);
        s->did_write = 0;
        break; }
    }
}

static void reopen(struct open_stream *s) {
    const char *mode = modes[below(sizeof modes / sizeof *modes)];
    int which = below(FILES);
    for (int i = 0; i < STREAMS; i++) if (&streams[i] != s && streams[i].file && streams[i].which == which) return;
    int number = fileno(s->file);
    errno = 0;
    FILE *made = freopen(name_of(which), mode, s->file);
    say("freopen %d %s: %d %d", which, mode, made == s->file ? 1 : made ? 2 : 0, made ? 0 : errno);
    if (!made) { free(s->buffer); memset(s, 0, sizeof *s); return; }
    say("same number: %d", fileno(made) == number);
    free(s->buffer);
    s->buffer = NULL;
    s->which = which;
    note_mode(s, mode);
}

/* Buffers have other sizes on other file systems, so the files are looked at when nothing waits in a buffer. */
static void show(void) {
    for (int i = 0; i < STREAMS; i++) if (streams[i].file && streams[i].did_write) fflush(streams[i].file);
    for (int which = 0; which < FILES; which++) {
        int d = open(name_of(which), O_RDONLY);
        if (d < 0) { say("file %d is not there", which); continue; }
        static char bytes[8 << 20];
        long total = 0;
        for (long n; (n = read(d, bytes + total, sizeof bytes - total)) > 0;) total += n;
        say("file %d: %ld bytes %lx", which, total, hash(bytes, total));
        close(d);
    }
}

int main(int count, char **words) {
    if (count < 4) return 2;
    snprintf(base, sizeof base, "%s", words[1]);
    state = strtoull(words[2], NULL, 10) * 2654435761ULL + 1;
    long steps = atol(words[3]);
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    for (step = 0; step < steps; step++) {
        who = below(STREAMS);
        struct open_stream *s = &streams[who];
        if (!s->file) { open_stream(s); continue; }
        unsigned what = below(100);
        if (what < 35) {
            if (s->did_write) position(s);
            if (s->reads) { read_some(s); state_of(s); }
        } else if (what < 70) {
            if (s->did_read) position(s);
            if (s->writes) { write_some(s); state_of(s); }
        } else if (what < 82) position(s);
        else if (what < 94) other(s);
        else if (what < 96) reopen(s);
        else if (what < 97) { close_stream(s); show(); }
    }
    for (int i = 0; i < STREAMS; i++) if (streams[i].file) close_stream(&streams[i]);
    show();
    return 0;
}
