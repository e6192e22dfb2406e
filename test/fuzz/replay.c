/*
 * replay.c
 *		Runs a fuzz target over its committed corpus, without a fuzzer, so that
 *		ordinary tests keep what fuzzing found.  Prints TAP: one test a corpus.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(void)
{
	DIR		   *dir = opendir(ATP_CORPUS);
	struct dirent *entry;
	int			files = 0;

	if (dir == NULL)
	{
		printf("1..0 # SKIP no corpus in %s\n", ATP_CORPUS);
		return 0;
	}
	while ((entry = readdir(dir)) != NULL)
	{
		char		path[4096];
		FILE	   *f;
		uint8_t    *data;
		long		size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", ATP_CORPUS, entry->d_name);
		f = fopen(path, "rb");
		if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0)
			return 1;
		rewind(f);
		/* exactly as long as the file, so that ASan sees a read past the end */
		data = malloc(size);
		if (fread(data, 1, size, f) != (size_t) size)
			return 1;
		fclose(f);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
		files++;
	}
	closedir(dir);
	printf("%s 1 - %s: %d files\n1..1\n", files > 0 ? "ok" : "not ok", ATP_CORPUS, files);
	return files == 0;
}
