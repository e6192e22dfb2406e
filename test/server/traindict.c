/*
 * traindict.c
 *		Makes a zstd dictionary from a capture's messages: traindict CAPTURE SIZE > FILE
 */
#include "buffer.h"
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <zdict.h>

int
main(int argc, char **argv)
{
	Capture		c;
	Buffer		samples = {0};
	size_t	   *sizes,
				size,
				n;
	void	   *dictionary;

	if (argc != 3 || (size = strtoul(argv[2], NULL, 10)) == 0)
		die("usage: traindict CAPTURE SIZE");
	capture_load(&c, argv[1]);
	sizes = xcalloc(c.n, sizeof *sizes);
	for (size_t i = 0; i < c.n; i++)
	{
		buffer_add(&samples, c.msgs[i].data, c.msgs[i].len);
		sizes[i] = c.msgs[i].len;
	}
	dictionary = xcalloc(1, size);
	n = ZDICT_trainFromBuffer(dictionary, size, buffer_bytes(&samples), sizes, (unsigned) c.n);
	if (ZDICT_isError(n))
		die("zstd: %s", ZDICT_getErrorName(n));
	if (fwrite(dictionary, 1, n, stdout) != n || fflush(stdout) != 0)
		die("cannot write the dictionary");
	free(dictionary);
	free(sizes);
	buffer_free(&samples);
	capture_free(&c);
	return 0;
}
