/*
 * replay.c
 *		Runs a fuzz target over its committed inputs, without a fuzzer, so that ordinary tests keep the findings
 *		of fuzzing.  Prints TAP: one test a target.  The inputs are packed into one file (corpus.py): each with
 *		its length in front, four bytes, big-endian.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(void)
{
	FILE	   *f = fopen(ATP_INPUTS, "rb");
	long		end;
	uint8_t		head[4];
	size_t		got;
	int			inputs = 0;
	bool		whole = true;

	if (f == NULL && errno == ENOENT)
	{
		printf("1..0 # SKIP no inputs in %s\n", ATP_INPUTS);
		return 0;
	}
	if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (end = ftell(f)) < 0)
		return 1;
	rewind(f);
	while ((got = fread(head, 1, sizeof(head), f)) > 0)
	{
		size_t		length = (size_t) head[0] << 24 | (size_t) head[1] << 16 | (size_t) head[2] << 8 | head[3];
		uint8_t    *data;

		whole = got == sizeof(head) && length <= (size_t) (end - ftell(f));
		if (!whole)
			break;
		/* exactly as long as the input, so that ASan reports a read past the end */
		data = malloc(length);
		if (fread(data, 1, length, f) != length)
			return 1;
		LLVMFuzzerTestOneInput(data, length);
		free(data);
		inputs++;
	}
	fclose(f);
	printf("%s 1 - %s: %d inputs%s\n1..1\n", inputs > 0 && whole ? "ok" : "not ok", ATP_INPUTS, inputs,
		   whole ? "" : ", and the file is cut short");
	return inputs == 0 || !whole;
}
