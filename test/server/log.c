/*
 * log.c
 *		Writes the log of connections.
 */
#include "log.h"

#include <inttypes.h>
#include <stdio.h>

static FILE *out;

void
log_open(const char *file)
{
	if (file != NULL && (out = fopen(file, "a")) == NULL)
		die("cannot write %s", file);
}

/* A JSON string; bytes above 0x7f are taken for Latin-1, so that any byte can be told. */
static void
string(const char *s)
{
	fputc('"', out);
	for (; *s; s++)
	{
		unsigned char c = (unsigned char) *s;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void
string_or_null(const char *s)
{
	if (s)
		string(s);
	else
		fputs("null", out);
}

void
log_request(int64_t connection, const Request *r)
{
	if (out == NULL)
		return;
	fprintf(out, "{\"event\":\"request\",\"connection\":%" PRId64 ",\"path\":", connection);
	string(r->path);
	fputs(",\"query\":", out);
	string(r->query);
	fputs(",\"cursor\":", out);
	string_or_null(r->cursor);
	fputs(",\"headers\":[", out);
	for (unsigned i = 0; i < r->nheaders; i++)
	{
		fputs(i ? ",[" : "[", out);
		string(r->header[i].name);
		fputc(',', out);
		string(r->header[i].value);
		fputc(']', out);
	}
	fputs("]}\n", out);
	fflush(out);
}

void
log_end(int64_t connection, const Tally *t, const char *how)
{
	if (out == NULL)
		return;
	fprintf(out, "{\"event\":\"end\",\"connection\":%" PRId64 ",\"messages\":%" PRId64
			",\"first_seq\":%" PRId64 ",\"last_seq\":%" PRId64 ",\"pings\":%" PRId64
			",\"pongs\":%" PRId64 ",\"data\":%" PRId64 ",\"told\":",
			connection, t->messages, t->first_seq, t->last_seq, t->pings, t->pongs, t->data);
	string_or_null(t->told);
	fputs(",\"how\":", out);
	string(how);
	fputs("}\n", out);
	fflush(out);
}
