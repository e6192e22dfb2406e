/*
 * consumer_pages.c
 *		Catching up with a did:plc directory by pages, until its stream reaches back to the cursor (M-12).
 *
 * The consumer asks for the stream first.  A directory that no longer streams from the cursor closes the stream with the
 * reason OutdatedCursor, after a code that says nothing: then pages are read, each by a request of its own, and each ends
 * with a transaction.  An empty page is the end of the pages.  A page with fewer lines than were asked for may be the last:
 * so the stream is tried once more, and in vain costs one connection.
 */
#include "postgres.h"

#include "process/consumer/consumer_private.h"
#include "utils/memutils.h"

#define PAGE_LINES	1000		/* the most that a directory gives */

char *
atp_consumer_page_target(const Consumer *c)
{
	const char *path = c->sub->ep->path;
	int			prefix = (int) (strlen(path) - strlen(c->source->stream));

	return psprintf("%.*s%s?count=%d&after=" INT64_FORMAT, prefix, path, c->source->pages, PAGE_LINES, Max(c->cursor, 0));
}

void
atp_consumer_page_is_read(Consumer *c)
{
	int			lines = c->page_lines;

	atp_consumer_flush(c);
	atp_conn_free(c->conn);
	c->conn = NULL;
	MemoryContextReset(c->conn_cxt);
	if (lines > 0)
		c->failures = 0;
	if (lines == 0)
		c->by_pages = c->tried_stream = false;
	else if (lines < PAGE_LINES && !c->tried_stream)
	{
		c->by_pages = false;
		c->tried_stream = true;
	}
	atp_consumer_is_waiting(c, 0);
}

/* The close code says nothing: a directory closes with 1000 for each reason. */
void
atp_consumer_judge_close(Consumer *c)
{
	const char *reason = atp_conn_close_reason(c->conn);

	if (c->source->pages == NULL || c->by_pages)
		return;
	if (strcmp(reason, "FutureCursor") == 0)
	{
		atp_consumer_flush(c);
		atp_consumer_stop(c, "the directory has no operation with a sequence number as high as the cursor");	/* E-45 */
	}
	c->by_pages = strcmp(reason, "OutdatedCursor") == 0;
}
