/* A stand-in for Lustre where none runs: the functions of liblustreapi that place files, with the checks of the real
 * ones, and a statfs(2) that calls the directory $LUSTRE_FOLDER a Lustre file system. Each file that is made is told in
 * $LUSTRE_LOG, one line: "path mode start-end:stripe_size:count:ost,ost..." with one part a component.
 *
 * $LUSTRE_OSTS says how many OSTs there are: a layout that names another one is refused after the file was made, as
 * the real library does, whose open and fsetxattr are two steps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define COMPONENTS 16
#define STRIPES 64
#define END_OF_FILE UINT64_MAX

struct llapi_layout {
	int composite, last;
	struct {
		uint64_t start, end, size, count;
		int named;
		uint64_t ost[STRIPES];
	} component[COMPONENTS];
};

static int wrong(int number)
{
	errno = number;
	return -1;
}

struct llapi_layout *llapi_layout_alloc(void)
{
	struct llapi_layout *layout = calloc(1, sizeof *layout);
	layout->component[0].end = END_OF_FILE;
	return layout;
}

void llapi_layout_free(struct llapi_layout *layout)
{
	free(layout);
}

int llapi_layout_stripe_count_set(struct llapi_layout *layout, uint64_t count)
{
	if (count == 0 || count > STRIPES)
		return wrong(EINVAL);
	layout->component[layout->last].count = count;
	return 0;
}

int llapi_layout_stripe_size_set(struct llapi_layout *layout, uint64_t size)
{
	if (size == 0 || size % 65536)
		return wrong(EINVAL);
	layout->component[layout->last].size = size;
	return 0;
}

int llapi_layout_ost_index_set(struct llapi_layout *layout, int stripe, uint64_t ost)
{
	if (stripe < 0 || stripe >= STRIPES || ost > UINT32_MAX)
		return wrong(EINVAL);
	layout->component[layout->last].ost[stripe] = ost;
	if (stripe >= layout->component[layout->last].named)
		layout->component[layout->last].named = stripe + 1;
	return 0;
}

int llapi_layout_comp_extent_set(struct llapi_layout *layout, uint64_t start, uint64_t end)
{
	int last = layout->last;
	uint64_t before = last ? layout->component[last - 1].end : 0;
	if (start >= end || start != before)
		return wrong(EINVAL);
	layout->component[last].start = start;
	layout->component[last].end = end;
	layout->composite = 1;
	return 0;
}

int llapi_layout_comp_add(struct llapi_layout *layout)
{
	uint64_t end = layout->component[layout->last].end;
	if (end == END_OF_FILE || layout->last + 1 == COMPONENTS)
		return wrong(EINVAL);
	layout->last++;
	layout->component[layout->last].start = end;
	layout->component[layout->last].end = END_OF_FILE;
	return 0;
}

static void tell(const char *path, mode_t mode, const struct llapi_layout *layout)
{
	char line[8192];
	int at = snprintf(line, sizeof line, "%s %o%s", path, mode, layout->composite ? " composite" : "");
	for (int i = 0; i <= layout->last; i++) {
		at += snprintf(line + at, sizeof line - at, " %lld-%lld:%llu:%llu:", (long long)layout->component[i].start,
			(long long)layout->component[i].end, (unsigned long long)layout->component[i].size,
			(unsigned long long)layout->component[i].count);
		for (int stripe = 0; stripe < layout->component[i].named; stripe++)
			at += snprintf(line + at, sizeof line - at, "%s%llu", stripe ? "," : "",
				(unsigned long long)layout->component[i].ost[stripe]);
	}
	at += snprintf(line + at, sizeof line - at, "\n");
	int log = open(getenv("LUSTRE_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (log < 0 || write(log, line, at) != at)
		abort();
	close(log);
}

int llapi_layout_file_create(const char *path, int flags, int mode, const struct llapi_layout *layout)
{
	int file = open(path, flags | O_CREAT | O_EXCL, mode);
	if (file < 0)
		return -1;
	uint64_t osts = getenv("LUSTRE_OSTS") ? strtoull(getenv("LUSTRE_OSTS"), NULL, 10) : 0;
	for (int i = 0; i <= layout->last; i++)
		for (int stripe = 0; stripe < layout->component[i].named; stripe++)
			if (layout->component[i].ost[stripe] >= osts) {
				close(file);
				return wrong(ERANGE);
			}
	struct stat made;
	fstat(file, &made);
	tell(path, made.st_mode & 07777, layout);
	return file;
}

/* LL_SUPER_MAGIC below the folder that plays a Lustre file system. */
int statfs(const char *path, struct statfs *answer)
{
	int (*next)(const char *, struct statfs *) = (int (*)(const char *, struct statfs *))dlsym(RTLD_NEXT, "statfs");
	int result = next(path, answer);
	const char *folder = getenv("LUSTRE_FOLDER");
	if (result == 0 && folder && strncmp(path, folder, strlen(folder)) == 0)
		answer->f_type = 0x0BD00BD0;
	return result;
}
