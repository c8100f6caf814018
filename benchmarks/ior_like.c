/* Bulk reads and writes in IOR's pattern: N ranks, segments of one block a rank, blocks of whole transfers.
 *
 *   mpirun -n N ior_like -o PATH [-F] [-b BLOCK] [-t TRANSFER] [-s SEGMENTS] [-i ROUNDS] [-m] [-e] [-r|-R] [-c] [-u SEED]
 *
 *   -o PATH      name of the shared file; with -F each rank's file is PATH.RANK, the rank in 8 digits
 *   -F           file per process
 *   -b, -t, -s   bytes of a block (1m), bytes of a transfer (256k), segments (1)
 *   -i, -m       rounds (1); with -m each round makes files of its own, PATH.ROUND or PATH.RANK.ROUND
 *   -e           fsync before a phase of writing ends
 *   -r, -R       read back after writing; read only, what an earlier run wrote. With -F each rank reads the file of
 *                the rank half the communicator away, so that nothing comes from its own client's memory
 *   -c           check every byte that is read against what SEED (-u, 0) wrote
 *
 * In a shared file segment s of rank r lies at block s * N + r. Prints for each phase and round:
 * write|read ROUND BYTES SECONDS MIB_PER_SECOND, from the barrier before the first open to the slowest rank's close.
 */
#include "_mpi_io.h"

struct plan {
	const char *path;
	int64_t block, transfer, segments;
	int rounds, is_per_process, is_per_round, is_synced, is_written, is_read, is_checked;
	uint64_t seed;
};

static struct plan plan = {.block = 1 << 20, .transfer = 256 << 10, .segments = 1, .rounds = 1, .is_written = 1};
static int rank, ranks;

static void usage(void)
{
	if (rank == 0)
		fprintf(stderr, "usage: ior_like -o PATH [-F] [-b BLOCK] [-t TRANSFER] [-s SEGMENTS] [-i ROUNDS] [-m] [-e] "
				"[-r|-R] [-c] [-u SEED]; a block is a multiple of a transfer\n");
	MPI_Finalize();
	exit(2);
}

static void parse(int argc, char **argv)
{
	int option;
	while ((option = getopt(argc, argv, "o:b:t:s:i:u:FmerRc")) != -1) {
		switch (option) {
		case 'o': plan.path = optarg; break;
		case 'b': plan.block = number(optarg); break;
		case 't': plan.transfer = number(optarg); break;
		case 's': plan.segments = number(optarg); break;
		case 'i': plan.rounds = (int)number(optarg); break;
		case 'u': plan.seed = (uint64_t)number(optarg); break;
		case 'F': plan.is_per_process = 1; break;
		case 'm': plan.is_per_round = 1; break;
		case 'e': plan.is_synced = 1; break;
		case 'r': plan.is_read = 1; break;
		case 'R': plan.is_read = 1, plan.is_written = 0; break;
		case 'c': plan.is_checked = 1; break;
		default: usage();
		}
	}
	if (!plan.path || plan.transfer < 1 || plan.block < plan.transfer || plan.block % plan.transfer || optind < argc)
		usage();
}

static void name(char *path, int owner, int round)
{
	int length = snprintf(path, PATH_BYTES_MAX, "%s", plan.path);
	if (plan.is_per_process)
		length += snprintf(path + length, PATH_BYTES_MAX - length, ".%08d", owner);
	if (plan.is_per_round)
		length += snprintf(path + length, PATH_BYTES_MAX - length, ".%d", round);
	errno = ENAMETOOLONG;
	if (length >= PATH_BYTES_MAX)
		fail("naming", plan.path);
}

static int64_t place(int owner, int64_t segment)
{
	return (plan.is_per_process ? segment : segment * ranks + owner) * plan.block;
}

static void write_phase(int round, char *buffer)
{
	char path[PATH_BYTES_MAX];
	name(path, rank, round);
	double since = start_together();
	int file = open_file(path, O_CREAT | O_WRONLY);
	for (int64_t segment = 0; segment < plan.segments; segment++)
		for (int64_t at = 0; at < plan.block; at += plan.transfer) {
			int64_t offset = place(rank, segment) + at;
			if (plan.is_checked)
				fill(buffer, plan.transfer, plan.seed ^ (uint64_t)(rank + 1) << 40 ^ (uint64_t)offset);
			write_all(file, buffer, plan.transfer, offset, path);
		}
	if (plan.is_synced && fsync(file) != 0)
		fail("syncing", path);
	if (close(file) != 0)
		fail("closing", path);
	report("write", round, plan.segments * plan.block, since);
}

static void read_phase(int round, char *buffer, char *expected)
{
	char path[PATH_BYTES_MAX];
	int owner = (rank + ranks / 2) % ranks;
	name(path, owner, round);
	double since = start_together();
	int file = open_file(path, O_RDONLY);
	for (int64_t segment = 0; segment < plan.segments; segment++)
		for (int64_t at = 0; at < plan.block; at += plan.transfer) {
			int64_t offset = place(owner, segment) + at;
			read_all(file, buffer, plan.transfer, offset, path);
			if (plan.is_checked) {
				fill(expected, plan.transfer, plan.seed ^ (uint64_t)(owner + 1) << 40 ^ (uint64_t)offset);
				check(buffer, expected, plan.transfer, path);
			}
		}
	if (close(file) != 0)
		fail("closing", path);
	report("read", round, plan.segments * plan.block, since);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	parse(argc, argv);
	char *buffer = malloc(plan.transfer), *expected = malloc(plan.transfer);
	if (!buffer || !expected)
		fail("allocating", "a transfer");
	fill(buffer, plan.transfer, plan.seed ^ (uint64_t)rank << 40);
	for (int round = 0; round < plan.rounds; round++) {
		if (plan.is_written)
			write_phase(round, buffer);
		if (plan.is_read)
			read_phase(round, buffer, expected);
	}
	free(buffer);
	free(expected);
	MPI_Finalize();
	return 0;
}
