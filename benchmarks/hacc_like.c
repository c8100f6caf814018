/* Checkpoints in the pattern of HACC-IO: each rank writes its particles, variable after variable, 38 bytes a particle.
 *
 *   mpirun -n N hacc_like -o PATH -p PARTICLES [-n STEPS] [-1] [-v PERMILLE] [-e] [-r|-R] [-c] [-u SEED]
 *
 *   -o PATH      files are PATH.STEP-PartRANK-of-RANKS.data (step in 4 digits, rank and ranks in 8), in 1 shared file
 *                with -1: PATH.STEP.data
 *   -p           particles of a rank
 *   -n           steps (1), each a checkpoint
 *   -v PERMILLE  let the particles of a rank vary by up to this much with the seed, as where domains are uneven
 *   -e           fsync before a checkpoint ends
 *   -r, -R       read each checkpoint back; read only. Each rank reads the rank half the communicator away
 *   -c           check every byte that is read against what SEED (-u, 0) wrote
 *
 * A file is a header of 4 KiB, then xx yy zz vx vy vz phi (float32), pid (int64), mask (uint16). Prints for each phase
 * and step: write|read STEP BYTES SECONDS MIB_PER_SECOND.
 */
#include "_mpi_io.h"

enum { HEADER_BYTES = 4096, VARIABLES = 9 };

static const int WIDTH[VARIABLES] = {4, 4, 4, 4, 4, 4, 4, 8, 2};
static const char *path_prefix;
static int64_t particles_of_rank = -1, steps = 1, permille;
static uint64_t seed;
static int is_shared, is_synced, is_written = 1, is_read, is_checked, rank, ranks;

static void usage(void)
{
	if (rank == 0)
		fprintf(stderr, "usage: hacc_like -o PATH -p PARTICLES [-n STEPS] [-1] [-v PERMILLE] [-e] [-r|-R] [-c] "
				"[-u SEED]\n");
	MPI_Finalize();
	exit(2);
}

static void parse(int argc, char **argv)
{
	int option;
	while ((option = getopt(argc, argv, "o:p:n:v:u:1erRc")) != -1) {
		switch (option) {
		case 'o': path_prefix = optarg; break;
		case 'p': particles_of_rank = number(optarg); break;
		case 'n': steps = number(optarg); break;
		case 'v': permille = number(optarg); break;
		case 'u': seed = (uint64_t)number(optarg); break;
		case '1': is_shared = 1; break;
		case 'e': is_synced = 1; break;
		case 'r': is_read = 1; break;
		case 'R': is_read = 1, is_written = 0; break;
		case 'c': is_checked = 1; break;
		default: usage();
		}
	}
	if (!path_prefix || particles_of_rank < 1 || permille > 1000 || optind < argc)
		usage();
}

static int64_t particles(int owner)
{
	uint64_t dice;
	char bytes[8];
	fill(bytes, 8, seed + (uint64_t)owner * 7919 + 17);
	memcpy(&dice, bytes, 8);
	int64_t span = particles_of_rank * permille / 1000;
	return particles_of_rank + (span ? (int64_t)(dice % (uint64_t)(2 * span + 1)) - span : 0);
}

static int64_t bytes_of(int owner)
{
	return HEADER_BYTES + 38 * particles(owner);
}

/* Where a rank's part begins in its file. */
static int64_t base(int owner)
{
	int64_t before = 0;
	for (int other = 0; is_shared && other < owner; other++)
		before += bytes_of(other);
	return before;
}

static void name(char *path, int owner, int64_t step)
{
	int length = is_shared
		? snprintf(path, PATH_BYTES_MAX, "%s.%04lld.data", path_prefix, (long long)step)
		: snprintf(path, PATH_BYTES_MAX, "%s.%04lld-Part%08d-of-%08d.data", path_prefix, (long long)step, owner, ranks);
	errno = ENAMETOOLONG;
	if (length >= PATH_BYTES_MAX)
		fail("naming", path_prefix);
}

static uint64_t seed_of(int owner, int64_t step, int variable)
{
	return seed ^ (uint64_t)(owner + 1) << 40 ^ (uint64_t)step << 8 ^ (uint64_t)variable;
}

static void write_phase(int64_t step, char *buffer)
{
	char path[PATH_BYTES_MAX];
	int64_t offset = base(rank);
	name(path, rank, step);
	double since = start_together();
	int file = open_file(path, O_CREAT | O_WRONLY);
	fill(buffer, HEADER_BYTES, seed_of(rank, step, VARIABLES));
	write_all(file, buffer, HEADER_BYTES, offset, path);
	offset += HEADER_BYTES;
	for (int variable = 0; variable < VARIABLES; variable++) {
		int64_t bytes = particles(rank) * WIDTH[variable];
		if (is_checked)
			fill(buffer, bytes, seed_of(rank, step, variable));
		write_all(file, buffer, bytes, offset, path);
		offset += bytes;
	}
	if (is_synced && fsync(file) != 0)
		fail("syncing", path);
	if (close(file) != 0)
		fail("closing", path);
	report("write", (int)step, bytes_of(rank), since);
}

static void read_phase(int64_t step, char *buffer, char *expected)
{
	char path[PATH_BYTES_MAX];
	int owner = (rank + ranks / 2) % ranks;
	int64_t offset = base(owner);
	name(path, owner, step);
	double since = start_together();
	int file = open_file(path, O_RDONLY);
	read_all(file, buffer, HEADER_BYTES, offset, path);
	offset += HEADER_BYTES;
	for (int variable = 0; variable < VARIABLES; variable++) {
		int64_t bytes = particles(owner) * WIDTH[variable];
		read_all(file, buffer, bytes, offset, path);
		if (is_checked) {
			fill(expected, bytes, seed_of(owner, step, variable));
			check(buffer, expected, bytes, path);
		}
		offset += bytes;
	}
	if (close(file) != 0)
		fail("closing", path);
	report("read", (int)step, bytes_of(owner), since);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	parse(argc, argv);
	int64_t room = 8 * (2 * particles_of_rank + 1) + HEADER_BYTES;
	char *buffer = malloc(room), *expected = malloc(room);
	if (!buffer || !expected)
		fail("allocating", "a variable");
	fill(buffer, room, seed ^ (uint64_t)rank << 40);
	for (int64_t step = 0; step < steps; step++) {
		if (is_written)
			write_phase(step, buffer);
		if (is_read)
			read_phase(step, buffer, expected);
	}
	free(buffer);
	free(expected);
	MPI_Finalize();
	return 0;
}
