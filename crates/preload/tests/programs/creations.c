/* Makes a file for each line of its standard input: HOW PATH [COUNT]. Answers a line for each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char handled[4096];

/* Makes a file with some bytes. Answers 0 or an error number. */
static int make(const char *path, int flags, mode_t mode)
{
	int file = open(path, O_CREAT | O_WRONLY | flags, mode);
	if (file < 0)
		return errno;
	int wrong = write(file, "words", 5) != 5;
	return close(file) || wrong ? errno : 0;
}

static int make_stream(const char *path, const char *mode)
{
	FILE *stream = fopen(path, mode);
	if (!stream)
		return errno;
	fputs("words", stream);
	return fclose(stream) ? errno : 0;
}

static int make_below(const char *path)
{
	char folder[4096];
	strcpy(folder, path);
	char *slash = strrchr(folder, '/');
	*slash = 0;
	int directory = open(folder, O_RDONLY | O_DIRECTORY);
	if (directory < 0)
		return errno;
	int file = openat(directory, slash + 1, O_CREAT | O_RDWR | O_APPEND, 0600);
	int number = file < 0 ? errno : 0;
	if (!number && (write(file, "words", 5) != 5 || close(file)))
		number = errno;
	close(directory);
	return number;
}

/* Makes a file beside `path` under a random name, as careful programs do, and renames it to `path`. */
static int make_temporary(const char *path)
{
	char name[4200];
	strcpy(name, path);
	strcpy(strrchr(name, '/') + 1, "work-XXXXXX");
	int file = mkstemp(name);
	if (file < 0)
		return errno;
	int wrong = write(file, "words", 5) != 5;
	return close(file) || wrong || rename(name, path) ? errno : 0;
}

static void *thread(void *path)
{
	return (void *)(long)make(path, O_EXCL, 0644);
}

static int make_many(const char *path, int count)
{
	pthread_t threads[64];
	char *names[64];
	long worst = 0;
	for (int i = 0; i < count; i++) {
		if (asprintf(&names[i], "%s.%d", path, i) < 0)
			return ENOMEM;
		pthread_create(&threads[i], NULL, thread, names[i]);
	}
	for (int i = 0; i < count; i++) {
		void *result;
		pthread_join(threads[i], &result);
		worst = (long)result ? (long)result : worst;
		free(names[i]);
	}
	return worst;
}

static int waited(pid_t child)
{
	int status = 0;
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

static int make_in_child(const char *path)
{
	pid_t child = fork();
	if (child == 0)
		_exit(make(path, O_EXCL, 0644));
	return waited(child);
}

static int make_in_vfork(const char *path)
{
	pid_t child = vfork();
	if (child == 0)
		_exit(make(path, O_EXCL, 0644));
	return waited(child);
}

static int in_handler;

static void handler(int number)
{
	(void)number;
	in_handler = make(handled, O_EXCL, 0644);
}

static int make_in_handler(const char *path)
{
	strcpy(handled, path);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	return in_handler;
}

int main(void)
{
	char how[64], path[4096];
	int count;
	char line[8192];
	umask(022);
	while (fgets(line, sizeof line, stdin)) {
		count = 0;
		if (sscanf(line, "%63s %4095s %d", how, path, &count) < 2)
			return 2;
		int result = !strcmp(how, "open") ? make(path, 0, 0640)
			: !strcmp(how, "truncate") ? make(path, O_TRUNC, 0666)
			: !strcmp(how, "exclusive") ? make(path, O_EXCL, 0444)
			: !strcmp(how, "stream") ? make_stream(path, "w")
			: !strcmp(how, "stream-exclusive") ? make_stream(path, "wx")
			: !strcmp(how, "temporary") ? make_temporary(path)
			: !strcmp(how, "below") ? make_below(path)
			: !strcmp(how, "enter") ? (chdir(path) ? errno : 0)
			: !strcmp(how, "threads") ? make_many(path, count)
			: !strcmp(how, "fork") ? make_in_child(path)
			: !strcmp(how, "vfork") ? make_in_vfork(path)
			: !strcmp(how, "handler") ? make_in_handler(path)
			: -1;
		struct stat found;
		int mode = stat(path, &found) ? 0 : found.st_mode & 07777;
		printf("%s %d %o\n", how, result, mode);
		fflush(stdout);
	}
	return 0;
}
