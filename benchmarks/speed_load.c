/* The kinds of work of the benchmark of speed, on a directory that is given: the program knows nothing of Weir.
 *
 *   speed_load DIRECTORY PROCESSES    takes turns
 *   speed_load DIRECTORY serve        echoes for the work `ping`, as one thread on the Unix socket DIRECTORY/ping
 *
 * A turn is a line `WORK AMOUNT SECONDS` of standard input. All processes prepare it, begin together and work for SECONDS,
 * but at least once through the AMOUNT; the answer is a line with their operations and the seconds from the first begin
 * to the last end. Each process has a file and a folder of its own; those of `shared-` works share a file.
 *
 *   write BLOCKS          writes a new file of blocks of 1 MiB, and closes it
 *   read BLOCKS           reads the file in blocks of 1 MiB
 *   read-small BLOCKS     reads it in order by 4 KiB; a first, untimed pass makes each read a re-read
 *   random-read, random-write BLOCKS   4 KiB at random places of the file
 *   create FILES          makes empty files
 *   fill FILES            makes files of 4 KiB
 *   stat, open, remove FILES   looks at each; opens, reads and closes each; removes each
 *   shared-write, shared-read BYTES    pieces of BYTES of one file, each process every PROCESSES-th piece
 *   ping BYTES            sends BYTES with a head to the echo, and gets a head back
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20,
	SMALL = 4096,
	HEAD = 64,
	SHARED_BYTES = 64 << 20,
	PROCESSES_MAX = 64,
	CALLS_A_LOOK = 16, /* calls between two looks at the clock */
	PATH = 4096,
};

struct team {
	pthread_barrier_t barrier;
	char work[32];
	long amount;
	double seconds;
	struct {
		long operations;
		double begin, end;
	} of[PROCESSES_MAX];
};

static struct team *team;
static const char *directory;
static int processes, self;
static char *memory;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* The others would wait for this process at the barrier, so all end. */
static void fail(const char *what)
{
	fprintf(stderr, "speed_load: %s of process %d in %s: %s: %s\n", team ? team->work : "start", self, directory, what, strerror(errno));
	if (team)
		kill(getppid(), SIGTERM);
	exit(1);
}

static void begin(void)
{
	pthread_barrier_wait(&team->barrier);
	team->of[self].begin = now();
}

static void end(long operations)
{
	team->of[self].end = now();
	team->of[self].operations = operations;
}

static int goes_on(long operations, long least)
{
	if (operations < least)
		return 1;
	if (team->seconds <= 0)
		return 0;
	return operations % CALLS_A_LOOK || now() - team->of[self].begin < team->seconds;
}

static uint64_t next_random(void)
{
	static uint64_t state;
	if (!state)
		state = 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 20;
}

static const char *own_file(void)
{
	static char path[PATH];
	snprintf(path, sizeof path, "%s/data-%d", directory, self);
	return path;
}

static const char *small_file(long number)
{
	static char path[PATH];
	snprintf(path, sizeof path, "%s/files-%d/%ld", directory, self, number);
	return path;
}

static int opened(const char *path, int flags)
{
	int file = open(path, flags, 0644);
	if (file < 0)
		fail(path);
	return file;
}

static void closed(int file, const char *path)
{
	if (close(file))
		fail(path);
}

static void call(int writes, int file, long bytes, off_t offset, const char *path)
{
	for (long done = 0; done < bytes;) {
		ssize_t count = writes ? pwrite(file, memory + done, bytes - done, offset + done)
				       : pread(file, memory + done, bytes - done, offset + done);
		if (count <= 0)
			fail(path);
		done += count;
	}
}

static void write_file(void)
{
	const char *path = own_file();
	if (unlink(path) && errno != ENOENT)
		fail(path);
	int file = opened(path, O_WRONLY | O_CREAT | O_EXCL);
	begin();
	for (long block = 0; block < team->amount; block++)
		call(1, file, BLOCK, block * BLOCK, path);
	closed(file, path);
	end(team->amount);
}

static void read_file(void)
{
	const char *path = own_file();
	int file = opened(path, O_RDONLY);
	long blocks = 0;
	begin();
	for (; goes_on(blocks, team->amount); blocks++)
		call(0, file, BLOCK, blocks % team->amount * BLOCK, path);
	end(blocks);
	closed(file, path);
}

static void small_calls(int writes, int at_random)
{
	const char *path = own_file();
	int file = opened(path, writes ? O_RDWR : O_RDONLY);
	long pieces = team->amount * (BLOCK / SMALL), operations = 0;
	for (long piece = 0; !at_random && piece < pieces; piece++)
		call(0, file, SMALL, piece * SMALL, path);
	begin();
	for (; goes_on(operations, 1); operations++)
		call(writes, file, SMALL, (at_random ? next_random() : (uint64_t)operations) % pieces * SMALL, path);
	end(operations);
	closed(file, path);
}

static void make_files(int bytes)
{
	char folder[PATH];
	snprintf(folder, sizeof folder, "%s/files-%d", directory, self);
	if (mkdir(folder, 0755) && errno != EEXIST)
		fail(folder);
	begin();
	for (long number = 0; number < team->amount; number++) {
		const char *path = small_file(number);
		int file = opened(path, O_WRONLY | O_CREAT | O_EXCL);
		if (bytes)
			call(1, file, bytes, 0, path);
		closed(file, path);
	}
	end(team->amount);
}

static void remove_files(void)
{
	begin();
	for (long number = 0; number < team->amount; number++)
		if (unlink(small_file(number)))
			fail(small_file(number));
	end(team->amount);
}

static void stat_files(void)
{
	struct stat status;
	long operations = 0;
	begin();
	for (; goes_on(operations, team->amount); operations++)
		if (stat(small_file(operations % team->amount), &status))
			fail(small_file(operations % team->amount));
	end(operations);
}

static void open_files(void)
{
	long operations = 0;
	begin();
	for (; goes_on(operations, team->amount); operations++) {
		const char *path = small_file(operations % team->amount);
		int file = opened(path, O_RDONLY);
		call(0, file, SMALL, 0, path);
		closed(file, path);
	}
	end(operations);
}

static void share(int writes)
{
	char path[PATH];
	snprintf(path, sizeof path, "%s/shared", directory);
	int file = opened(path, O_RDWR | O_CREAT);
	long pieces = SHARED_BYTES / team->amount / processes, operations = 0;
	begin();
	for (; goes_on(operations, pieces); operations++)
		call(writes, file, team->amount, (operations % pieces * processes + self) * team->amount, path);
	end(operations);
	closed(file, path);
}

static void dial(int socket, struct sockaddr_un *address, int listens)
{
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof address->sun_path, "%s/ping", directory);
	if (listens ? bind(socket, (struct sockaddr *)address, sizeof *address) || listen(socket, PROCESSES_MAX)
		    : connect(socket, (struct sockaddr *)address, sizeof *address))
		fail(address->sun_path);
}

static void received(int socket, long bytes)
{
	if (recv(socket, memory, bytes, MSG_WAITALL) != bytes)
		fail("recv");
}

static void ping(void)
{
	struct sockaddr_un address;
	int end_point = socket(AF_UNIX, SOCK_STREAM, 0);
	long bytes = HEAD + team->amount, operations = 0;
	dial(end_point, &address, 0);
	memcpy(memory, &bytes, sizeof bytes);
	begin();
	for (; goes_on(operations, 1); operations++) {
		if (send(end_point, memory, bytes, 0) != bytes)
			fail("send");
		received(end_point, HEAD);
	}
	end(operations);
	close(end_point);
}

static void answer(int client)
{
	long bytes;
	ssize_t count = recv(client, memory, HEAD, MSG_WAITALL);
	if (count != HEAD) {
		close(client);
		return;
	}
	memcpy(&bytes, memory, sizeof bytes);
	if (bytes > HEAD && recv(client, memory + HEAD, bytes - HEAD, MSG_WAITALL) != bytes - HEAD)
		fail("recv");
	if (send(client, memory, HEAD, MSG_NOSIGNAL) != HEAD)
		fail("send");
}

static void serve(void)
{
	struct sockaddr_un address;
	struct epoll_event events[PROCESSES_MAX];
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), queue = epoll_create1(0);
	dial(listener, &address, 1);
	epoll_ctl(queue, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
	puts("ready");
	fflush(stdout);
	for (;;) {
		int ready = epoll_wait(queue, events, PROCESSES_MAX, -1);
		for (int each = 0; each < ready; each++) {
			if (events[each].data.fd != listener) {
				answer(events[each].data.fd);
				continue;
			}
			int client = accept(listener, NULL, NULL);
			epoll_ctl(queue, EPOLL_CTL_ADD, client, &(struct epoll_event){.events = EPOLLIN, .data.fd = client});
		}
	}
}

static void write_small(void) { small_calls(1, 1); }
static void read_random(void) { small_calls(0, 1); }
static void read_small(void) { small_calls(0, 0); }
static void create(void) { make_files(0); }
static void fill(void) { make_files(SMALL); }
static void write_shared(void) { share(1); }
static void read_shared(void) { share(0); }

static const struct {
	const char *name;
	void (*run)(void);
} WORKS[] = {
	{"write", write_file},	  {"read", read_file},	       {"read-small", read_small}, {"random-read", read_random},
	{"random-write", write_small}, {"create", create},     {"fill", fill},		   {"stat", stat_files},
	{"open", open_files},	  {"remove", remove_files},    {"ping", ping},		   {"shared-write", write_shared},
	{"shared-read", read_shared},
};

static void work_as(int process)
{
	self = process;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		pthread_barrier_wait(&team->barrier);
		for (size_t each = 0; each < sizeof WORKS / sizeof *WORKS; each++)
			if (!strcmp(WORKS[each].name, team->work))
				WORKS[each].run();
		pthread_barrier_wait(&team->barrier);
	}
}

static void take_turn(void)
{
	long operations = 0;
	double first = 0, last = 0;
	for (int barriers = 0; barriers < 3; barriers++)
		pthread_barrier_wait(&team->barrier);
	for (int each = 0; each < processes; each++) {
		operations += team->of[each].operations;
		first = !each || team->of[each].begin < first ? team->of[each].begin : first;
		last = team->of[each].end > last ? team->of[each].end : last;
	}
	printf("%ld %.9f\n", operations, last - first);
	fflush(stdout);
}

static int is_work(const char *name)
{
	for (size_t each = 0; each < sizeof WORKS / sizeof *WORKS; each++)
		if (!strcmp(WORKS[each].name, name))
			return 1;
	return 0;
}

static void take_turns(void)
{
	char line[256];
	pthread_barrierattr_t shared;
	struct team *made = mmap(NULL, sizeof *team, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		fail("mmap");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&made->barrier, &shared, processes + 1);
	team = made;
	for (int process = 0; process < processes; process++)
		if (!fork())
			work_as(process);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "%31s %ld %lf", team->work, &team->amount, &team->seconds) != 3 || !is_work(team->work) ||
		    team->amount < 1) {
			fprintf(stderr, "speed_load: no turn: %s", line);
			exit(2);
		}
		take_turn();
	}
}

int main(int count, char **words)
{
	if (count != 3) {
		fprintf(stderr, "usage: speed_load DIRECTORY PROCESSES|serve\n");
		return 2;
	}
	directory = words[1];
	memory = malloc(BLOCK + HEAD);
	memset(memory, 's', BLOCK + HEAD);
	if (!strcmp(words[2], "serve"))
		serve();
	processes = atoi(words[2]);
	if (processes < 1 || processes > PROCESSES_MAX) {
		fprintf(stderr, "speed_load: 1 to %d processes, not %s\n", PROCESSES_MAX, words[2]);
		return 2;
	}
	take_turns();
	return 0;
}
