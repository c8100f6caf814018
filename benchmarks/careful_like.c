/* Checkpoints as careful programs write them: under a temporary name, which becomes the last name when all bytes are there.
 *
 *   mpirun -n N careful_like -o PATH [-w suffix|fixed|random|hidden] [-b BLOCK] [-n STEPS]
 *
 *   -o PATH    in each step each rank makes the file PATH.STEP.RANK, the rank in 4 digits
 *   -w HOW     the temporary name: PATH.STEP.RANK.tmp, PATH.RANK.tmp in every step, a name of mkstemp beside PATH, or
 *              the last name behind a dot and before six letters of mkstemp
 *   -b, -n     unit of sizes (1m), steps (4). Sizes differ: 1 to 4 units, by rank and step
 */
#include "_mpi_io.h"

static const char *path, *how = "suffix";
static int64_t block = 1 << 20;
static int steps = 4, rank, ranks;

static void usage(void)
{
	if (rank == 0)
		fprintf(stderr, "usage: careful_like -o PATH [-w suffix|fixed|random|hidden] [-b BLOCK] [-n STEPS]\n");
	MPI_Finalize();
	exit(2);
}

static void parse(int argc, char **argv)
{
	int option;
	while ((option = getopt(argc, argv, "o:w:b:n:")) != -1) {
		switch (option) {
		case 'o': path = optarg; break;
		case 'w': how = optarg; break;
		case 'b': block = number(optarg); break;
		case 'n': steps = (int)number(optarg); break;
		default: usage();
		}
	}
	if (!path || !strchr(path, '/') || block < 1 || optind < argc)
		usage();
}

/* Makes the file with the temporary name, which is put into `name`. */
static int make(char *name, const char *last)
{
	const char *slash = strrchr(last, '/');
	int folder = (int)(slash - last);
	int is_random = !strcmp(how, "random"), is_hidden = !strcmp(how, "hidden");
	int length = is_random ? snprintf(name, PATH_BYTES_MAX, "%.*s/tmp-XXXXXX", folder, last)
		: is_hidden ? snprintf(name, PATH_BYTES_MAX, "%.*s/.%s.XXXXXX", folder, last, slash + 1)
		: !strcmp(how, "fixed") ? snprintf(name, PATH_BYTES_MAX, "%s.%04d.tmp", path, rank)
		: snprintf(name, PATH_BYTES_MAX, "%s.tmp", last);
	errno = ENAMETOOLONG;
	int file = length >= PATH_BYTES_MAX ? -1
		: is_random || is_hidden ? mkstemp(name)
		: open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
	if (file < 0)
		fail("making", name);
	return file;
}

static void write_step(int step, char *bytes)
{
	char last[PATH_BYTES_MAX], name[PATH_BYTES_MAX];
	int units = 1 + (3 * rank + step) % 4;
	snprintf(last, sizeof last, "%s.%04d.%04d", path, step, rank);
	int file = make(name, last);
	memset(bytes, 'a' + rank % 26, (size_t)block);
	for (int unit = 0; unit < units; unit++)
		write_all(file, bytes, (size_t)block, unit * block, name);
	if (fsync(file) || close(file))
		fail("closing", name);
	if (rename(name, last))
		fail("renaming", name);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	parse(argc, argv);
	char *bytes = malloc((size_t)block);
	if (!bytes)
		fail("no memory for", path);
	for (int step = 0; step < steps; step++) {
		MPI_Barrier(MPI_COMM_WORLD);
		write_step(step, bytes);
	}
	free(bytes);
	MPI_Finalize();
	return 0;
}
