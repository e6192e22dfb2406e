/*
 * measure.c
 *		Runs shapes, each with n parts for n = 0, an eighth, a quarter, a half and the whole of the limit.
 *
 *	measure list [--quick] GROUP...          the shapes and their limits
 *	measure write SHAPE N                    writes the input of N parts
 *	measure memory [--quick] GROUP...        prints the bytes of stack and heap that each run takes
 *	measure instructions [--quick] GROUP...  under callgrind, which writes a file for each run
 *
 * GROUP: a file of shapes, such as wire, or a beginning of names, such as wire/labels.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <valgrind/callgrind.h>

#include "measure.h"
#include "memory.h"

#define STACK	(2 * 1024 * 1024)
#define PAINT	0xa5

static uint8_t input_room[INPUT_ROOM];
AtpCborWriter input = {.buf = input_room, .cap = INPUT_ROOM};
size_t		parts;

static const struct
{
	const char *name;
	const Shape *shapes;
}			groups[] = {
	{"answer", answer_shapes}, {"archive", archive_shapes}, {"codec", codec_shapes}, {"link", link_shapes}, {"net", net_shapes}, {"plc", plc_shapes}, {"repo", repo_shapes}, {"syntax", syntax_shapes}, {"wire", wire_shapes}
};

static uint8_t *stack;

static void
make(const Shape *shape, const char *group, size_t n)
{
	input.len = 0;
	parts = n;
	shape->make(n);
	if (input.len <= input.cap)
		return;
	fprintf(stderr, "%s/%s: the input of %zu parts has %zu bytes\n", group, shape->name, n, input.len);
	exit(2);
}

static void
check(const Shape *shape, const char *group, size_t n, bool good)
{
	if (good)
		return;
	fprintf(stderr, "%s/%s: a wrong result for %zu parts\n", group, shape->name, n);
	exit(2);
}

static void *
run_in_thread(void *arg)
{
	return ((const Shape *) arg)->run() ? arg : NULL;
}

/* The thread's stack is painted before, so that afterwards the lowest byte that changed is known. */
static void
measure_memory(const Shape *shape, const char *group, size_t n)
{
	pthread_attr_t attr;
	pthread_t	thread;
	void	   *result = NULL;
	size_t		unused = 0;

	memset(stack, PAINT, STACK);
	(void) pthread_attr_init(&attr);
	(void) pthread_attr_setstack(&attr, stack, STACK);
	memory_reset();
	if (pthread_create(&thread, &attr, run_in_thread, (void *) shape) != 0)
		exit(2);
	(void) pthread_join(thread, &result);
	while (unused < STACK && stack[unused] == PAINT)
		unused++;
	check(shape, group, n, result != NULL);
	printf("%s/%s %zu %zu\n", group, shape->name, n, STACK - unused + memory_peak());
}

static void
measure_instructions(const Shape *shape, const char *group, size_t n)
{
	char		name[128];
	bool		good;

	(void) snprintf(name, sizeof(name), "%s/%s %zu", group, shape->name, n);
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	good = shape->run();
	CALLGRIND_DUMP_STATS_AT(name);
	CALLGRIND_STOP_INSTRUMENTATION;
	check(shape, group, n, good);
}

static void
measure_shape(const Shape *shape, const char *group, bool quick, void (*measure) (const Shape *shape, const char *group, size_t n))
{
	/* bytes are counted without callgrind, and so faster than instructions */
	size_t		shorter = measure == measure_memory ? 8 * shape->quick : shape->quick;
	size_t		most = quick && shape->quick > 0 && shorter < shape->limit ? shorter : shape->limit;

	if (measure == NULL)
	{
		printf("%s/%s %zu %zu\n", group, shape->name, shape->limit, most);
		return;
	}
	/* the first run loads what is loaded once: the second is the measured one */
	make(shape, group, 0);
	check(shape, group, 0, shape->run());
	measure(shape, group, 0);
	for (size_t n = most / 8; n <= most / 8 * 8; n *= 2)
	{
		make(shape, group, n);
		measure(shape, group, n);
	}
}

static void
write_input(const Shape *shape, const char *group, size_t n)
{
	make(shape, group, n);
	(void) fwrite(input.buf, 1, input.len, stdout);
}

static bool
is_wanted(const char *group, const char *shape, int argc, char **argv)
{
	char		name[128];
	bool		any = false;

	(void) snprintf(name, sizeof(name), "%s/%s", group, shape);
	for (int i = 2; i < argc; i++)
	{
		if (argv[i][0] == '-')
			continue;
		any = true;
		if (strncmp(name, argv[i], strlen(argv[i])) == 0)
			return true;
	}
	return !any;
}

int
main(int argc, char **argv)
{
	bool		quick = false;
	void		(*measure) (const Shape *shape, const char *group, size_t n) = NULL;

	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++)
		quick = quick || strcmp(argv[i], "--quick") == 0;
	if (strcmp(argv[1], "list") != 0)
		measure = strcmp(argv[1], "memory") == 0 ? measure_memory : measure_instructions;
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		return 2;
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
		for (const Shape *shape = groups[g].shapes; shape->name != NULL; shape++)
		{
			char		name[128];

			(void) snprintf(name, sizeof(name), "%s/%s", groups[g].name, shape->name);
			if (strcmp(argv[1], "write") == 0)
			{
				if (argc == 4 && strcmp(name, argv[2]) == 0)
					write_input(shape, groups[g].name, strtoul(argv[3], NULL, 10));
			}
			else if (is_wanted(groups[g].name, shape->name, argc, argv))
				measure_shape(shape, groups[g].name, quick, measure);
		}
	return 0;
}
