/* The loads of the benchmarks: plain programs that know nothing of Weir, and a bare socket pump to hold them against.
 *
 *   load write FILE BLOCKS          writes BLOCKS blocks of 1 MiB
 *   load read FILE BLOCKS           reads them, each into fresh memory
 *   load random FILE BYTES SECONDS  reads 4 KiB at random offsets
 *   load rewrite FILE BLOCKS SECONDS  writes blocks of 64 KiB, again and again
 *   load create|stat|unlink DIR FILES
 *   load stats DIR FILES SECONDS    looks at files 0-0 to 0-(FILES - 1), again and again
 *   load pump-receive SOCKET BLOCKS / load pump-send SOCKET BLOCKS
 *
 * Each prints `ready`, waits for the end of its standard input, so that several of them can begin together, and then
 * prints one line: operations, and seconds from the first to the last of them. SOCKET is the path of a Unix socket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, PIECE = 64 << 10, SMALL = 4096 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wait_for_start(void)
{
	char byte;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void report(long operations, double since)
{
	printf("%ld %.6f\n", operations, now() - since);
}

/* Memory that no page of was touched: the receiving side of a transfer pays for it, as a file cache would. */
static char *fresh(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void transfer(const char *path, long blocks, int writing)
{
	int flags = writing ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
	int file = open(path, flags, 0644);
	if (file < 0)
		fail(path);
	char *memory = fresh(writing ? BLOCK : (size_t)blocks * BLOCK);
	if (writing)
		memset(memory, 'w', BLOCK);
	wait_for_start();
	double start = now();
	for (long block = 0; block < blocks; block++) {
		char *at = writing ? memory : memory + block * BLOCK;
		for (size_t done = 0; done < BLOCK;) {
			ssize_t count = writing ? write(file, at + done, BLOCK - done) : read(file, at + done, BLOCK - done);
			if (count <= 0)
				fail(path);
			done += count;
		}
	}
	report(blocks, start);
	if (close(file))
		fail(path);
}

static void random_reads(const char *path, long bytes, double seconds)
{
	char *memory = malloc(SMALL);
	int file = open(path, O_RDONLY);
	if (file < 0)
		fail(path);
	uint64_t state = 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
	if (pread(file, memory, SMALL, 0) != SMALL)
		fail(path);
	wait_for_start();
	double start = now();
	long operations = 0;
	while (operations % 64 || now() - start < seconds) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		off_t offset = (off_t)((state >> 20) % (uint64_t)(bytes / SMALL)) * SMALL;
		if (pread(file, memory, SMALL, offset) != SMALL)
			fail(path);
		operations++;
	}
	report(operations, start);
}

static void metadata(const char *verb, const char *directory, long files)
{
	char path[4096];
	struct stat status;
	wait_for_start();
	double start = now();
	for (long number = 0; number < files; number++) {
		snprintf(path, sizeof path, "%s/%d-%ld", directory, 0, number);
		if (!strcmp(verb, "create")) {
			int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
			if (file < 0 || close(file))
				fail(path);
		} else if (!strcmp(verb, "stat") ? stat(path, &status) : unlink(path)) {
			fail(path);
		}
	}
	report(files, start);
}

static void rewrite(const char *path, long blocks, double seconds)
{
	char *memory = malloc(PIECE);
	memset(memory, 'r', PIECE);
	char own[4096];
	snprintf(own, sizeof own, "%s-%d", path, (int)getpid());
	int file = open(own, O_WRONLY | O_CREAT, 0644);
	if (file < 0)
		fail(own);
	wait_for_start();
	double start = now();
	long operations = 0;
	for (; now() - start < seconds; operations++)
		if (pwrite(file, memory, PIECE, operations % blocks * PIECE) != PIECE)
			fail(own);
	report(operations, start);
	if (close(file))
		fail(own);
}

static void stats(const char *directory, long files, double seconds)
{
	char path[4096];
	struct stat status;
	wait_for_start();
	double start = now();
	long operations = 0;
	for (; operations % 16 || now() - start < seconds; operations++) {
		snprintf(path, sizeof path, "%s/%d-%ld", directory, 0, operations % files);
		if (stat(path, &status))
			fail(path);
	}
	report(operations, start);
}

static int dial(const char *path, int listening)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	int end = socket(AF_UNIX, SOCK_STREAM, 0);
	if (listening) {
		if (bind(end, (struct sockaddr *)&address, sizeof address) || listen(end, 1))
			fail(path);
		return accept(end, NULL, NULL);
	}
	for (int attempt = 0; connect(end, (struct sockaddr *)&address, sizeof address); attempt++) {
		if (attempt > 500)
			fail(path);
		usleep(10000);
	}
	int bytes = 2 << 20;
	setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	return end;
}

static void pump(const char *path, long blocks, int receiving)
{
	size_t bytes = (size_t)blocks * BLOCK;
	char *memory = fresh(receiving ? bytes : BLOCK);
	if (!receiving)
		memset(memory, 'p', BLOCK);
	int end = dial(path, receiving);
	wait_for_start();
	double start = now();
	for (size_t done = 0; done < bytes;) {
		size_t within = done % BLOCK;
		ssize_t count = receiving ? recv(end, memory + done, BLOCK - within, 0) : send(end, memory + within, BLOCK - within, 0);
		if (count <= 0)
			fail(path);
		done += count;
	}
	report(blocks, start);
}

int main(int count, char **words)
{
	if (count < 4) {
		fprintf(stderr, "usage: load write|read|random|rewrite|create|stat|stats|unlink|pump-send|pump-receive PLACE NUMBER [SECONDS]\n");
		return 2;
	}
	const char *verb = words[1], *place = words[2];
	long number = atol(words[3]);
	if (!strcmp(verb, "write") || !strcmp(verb, "read"))
		transfer(place, number, *verb == 'w');
	else if (!strcmp(verb, "random"))
		random_reads(place, number, count > 4 ? atof(words[4]) : 3);
	else if (!strcmp(verb, "rewrite"))
		rewrite(place, number, count > 4 ? atof(words[4]) : 3);
	else if (!strcmp(verb, "stats"))
		stats(place, number, count > 4 ? atof(words[4]) : 3);
	else if (!strncmp(verb, "pump-", 5))
		pump(place, number, verb[5] == 'r');
	else
		metadata(verb, place, number);
	return 0;
}
