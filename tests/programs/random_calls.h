/* The player of random calls (random_calls.c): what its tables of commands share. */

#ifndef RANDOM_CALLS_H
#define RANDOM_CALLS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* Descriptors, streams and mappings are named by their slots, so that a step means the same wherever it is played. */
enum { SLOTS = 8, BUFFER_BYTES = 4 << 20, ROOT_BYTES = PATH_MAX / 2 };

/* A path, and how a call is given it: by itself, or with a directory by the form of the call whose name ends with `at`. */
struct place {
    bool is_plain;
    int at;
    char path[2 * PATH_MAX];
};

struct command {
    const char *name;
    void (*run)(void);
};

extern const struct command process_commands[], name_commands[], file_commands[], stream_commands[];
extern int descriptors[SLOTS];
extern char root[ROOT_BYTES];
extern unsigned char buffer[BUFFER_BYTES];

/* The next word of the step; `number` takes decimal, hexadecimal and octal ones. */
const char *word(void);
long long number(void);
/* The next word as the slot of a descriptor: the descriptor, or -1 where the slot is empty. */
int descriptor(void);
/* The next word as a slot. */
int slot(void);
/* The next two words: where the path begins (`.` here, `/` the root, `@` AT_FDCWD, or a slot), and the path (`-` is empty). */
struct place place(void);
/* Keep a descriptor in a slot, whose old one is closed, and answer its number or the error. */
void keep(int slot, int descriptor);

/* Let the kernel look how long a file is. */
void ask_size(int file);

/* Add to the answer of the step. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Answer what a call returned, or its error. Returns whether it succeeded. */
bool outcome(long long result);
/* Add bytes as runs: `61*10 00*4086`. */
void say_bytes(const unsigned char *bytes, size_t count);
/* Add what is the same on every file system: no size of a directory, and times only where a call has set them. */
void say_status(const struct stat *status);

void close_streams(void);
void close_mappings(void);

#endif
