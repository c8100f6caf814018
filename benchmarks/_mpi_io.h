/* What the MPI programs of the benchmarks share: sizes on the command line, whole transfers, and bandwidth. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES_MAX = 4096 };

static inline void fail(const char *what, const char *on)
{
	fprintf(stderr, "%s %s: %s\n", what, on, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

/* Bytes or a plain number: 4096, 64k, 1m, 2g. */
static inline int64_t number(const char *text)
{
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : *end == 'g' || *end == 'G' ? 30 : 0;
	if (end == text || (shift ? end[1] : end[0]) != 0 || value < 0 || value > INT64_MAX >> shift)
		errno = errno ? errno : EINVAL;
	if (errno)
		fail("not a size:", text);
	return value << shift;
}

static inline void write_all(int file, const char *from, size_t bytes, int64_t offset, const char *path)
{
	while (bytes > 0) {
		ssize_t done = pwrite(file, from, bytes, offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			fail("writing", path);
		from += done, bytes -= done, offset += done;
	}
}

static inline void read_all(int file, char *into, size_t bytes, int64_t offset, const char *path)
{
	while (bytes > 0) {
		ssize_t done = pread(file, into, bytes, offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done == 0)
			errno = ENODATA;
		if (done <= 0)
			fail("reading", path);
		into += done, bytes -= done, offset += done;
	}
}

static inline int open_file(const char *path, int flags)
{
	int file = open(path, flags | O_CLOEXEC, 0666);
	if (file < 0)
		fail("opening", path);
	return file;
}

/* Eight bytes a step, other ones for every seed and place. */
static inline void fill(char *buffer, size_t bytes, uint64_t seed)
{
	uint64_t value = seed * 0x9e3779b97f4a7c15u + 1;
	for (size_t at = 0; at + 8 <= bytes; at += 8) {
		value ^= value << 13, value ^= value >> 7, value ^= value << 17;
		memcpy(buffer + at, &value, 8);
	}
	memset(buffer + bytes / 8 * 8, (int)value, bytes % 8);
}

static inline void check(const char *found, const char *written, size_t bytes, const char *path)
{
	errno = EIO;
	if (memcmp(found, written, bytes) != 0)
		fail("other bytes than were written in", path);
}

static inline double start_together(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime();
}

/* One line of rank 0 when the slowest is done: phase, round, bytes, seconds, MiB/s. */
static inline void report(const char *phase, int round, int64_t bytes, double since)
{
	double seconds = MPI_Wtime() - since, slowest;
	int64_t all;
	int rank;
	MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&bytes, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0)
		printf("%s %d %lld %.6f %.3f\n", phase, round, (long long)all, slowest, all / slowest / (1 << 20));
	fflush(stdout);
}
