/* What the programs of host_calls share: the world in which each call is made, and how its outcome is told.
 *
 * Every case finds the same world: a directory with files of each kind, and descriptors of each kind. The world is
 * made and looked at by bare system calls, so that nothing that is tested takes part in the judgement. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Bytes of each buffer that a case hands out. */
#define ROOM 64
/* What stands in a buffer before the call. */
#define FILLING '.'
/* The descriptor of the report: below those of the world, which some cases close by ranges. */
#define REPORT 3

/* Descriptors of the world. */
enum kind {
    READ_WRITE, READ_ONLY, WRITE_ONLY, APPENDING, PATH_ONLY, FOLDER, FOLDER_PATH, PIPE_OUT, PIPE_IN, BROKEN_PIPE,
    TERMINAL, FULL_DEVICE, NULL_DEVICE, SOCKET, OTHER_SOCKET, EMPTY_FILE, KINDS
};
extern int worlds[KINDS];
extern const char *const kind_names[KINDS];

/* A page that cannot be touched, the last bytes before it, and a page that cannot be written. */
extern char *forbidden, *edge, *constant;
/* Buffers, filled anew for each case. */
extern char output[ROOM], input[ROOM], second[ROOM];

/* A system call without libc. */
long bare(long number, long a, long b, long c, long d, long e, long f);
#define BARE(number, ...) BARE_(number, ##__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)
#define BARE_(number, a, b, c, d, e, f, ...) bare(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Starts a case, in a fresh world; 0 where an earlier process of this program has done it. */
int begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes the result of the call, with errno. */
void result(long value);
void result_pointer(const void *value);
/* Notes something else that the call did. */
void also(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the case: adds what changed in the world, and writes the line. */
void end(void);

/* Runs the rest of the case in a child, and notes how the child ended; what the child notes stands before. */
#define IN_CHILD for (int child_ = start_child(); child_ >= 0 && !in_parent(child_); leave_child())
int start_child(void);
int in_parent(int child);
void leave_child(void);

/* A function of the program's scope, in which the library stands before libc; old names have only a version. */
void *found(const char *name);

void prepare(const char *directory);
/* The case in which a process of this program died. */
int last_case(void);

/* One symbol or several that are the same function. */
struct row {
    const char *names;
    /* 'i' int, 'l' long, 'p' pointer, 'v' void; 'o' where `own` makes the calls. */
    char result;
    /* One letter for each argument, see `lists`. */
    const char *arguments;
    void (*own)(const char *name, void *function);
};
extern const struct row file_rows[], process_rows[];

/* Calls the tested function as one that answers `type`. */
#define CALL(type, ...) (((type(*)())function)(__VA_ARGS__))
#define EACH(name, list) for (size_t name = 0; name < sizeof list / sizeof *list; name++)

extern int case_number, first_case;
extern const char *current;

#endif
