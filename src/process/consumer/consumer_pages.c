/*
 * consumer_pages.c
 *		Catching up with a did:plc directory by pages, until its stream reaches back to the cursor (M-12).
 *
 * The consumer asks for the stream first.  A directory that no longer streams from the cursor closes the stream with the
 * reason OutdatedCursor, after a code that says nothing: then pages are read, one after the other on one connection.  An
 * empty page is the end of the pages.  A page with fewer lines than were asked for may be the last: so the stream is tried
 * once more, and in vain costs one connection.
 *
 * Two pages are in flight, because a directory may be far away.  The next page begins behind the last number of the present
 * page, which is not known yet: so the consumer guesses.  A page has at least as many numbers as lines; where the page before
 * had more than twice as many, the guess is half of them.  If the guess is too low, numbers come twice, and are passed over
 * (position.h).  If the guess is too high, because the present page is short, numbers between would be missing: the answer does not
 * count, and the page is asked for again, on another connection.
 */
#include "postgres.h"

#include "process/consumer/consumer_private.h"
#include "utils/memutils.h"

#define PAGE_LINES	1000		/* the most that a directory gives */

static char *
page_target(const Consumer *c, int64 after)
{
	const char *path = c->sub->ep->path;
	int			prefix = (int) (strlen(path) - strlen(c->source->stream));

	return psprintf("%.*s%s?count=%d&after=" INT64_FORMAT, prefix, path, c->source->pages, PAGE_LINES, after);
}

char *
atp_consumer_begin_pages(Consumer *c)
{
	AtpPages   *pages = &c->pages;

	pages->after = Max(c->cursor, 0);
	pages->lines = 0;
	pages->ahead = 0;
	return page_target(c, pages->after);
}

void
atp_consumer_ask_ahead(Consumer *c)
{
	AtpPages   *pages = &c->pages;

	if (pages->ahead > 0 || !atp_conn_persists(c->conn))
		return;
	pages->ahead = pages->after + pages->step;
	atp_conn_ask_page(c->conn, page_target(c, pages->ahead));
}

void
atp_consumer_leave_connection(Consumer *c)
{
	atp_consumer_flush(c);
	atp_conn_free(c->conn);
	c->conn = NULL;
	MemoryContextReset(c->conn_cxt);
	atp_consumer_is_waiting(c, 0);
}

/* The present page was read, and the next one, which may have been asked for, begins behind this number. */
static void
go_on_behind(Consumer *c, int64 after)
{
	AtpPages   *pages = &c->pages;

	if (pages->ahead == 0)
		atp_conn_ask_page(c->conn, page_target(c, after));
	c->position.again = pages->ahead;
	pages->after = after;
	pages->lines = 0;
	pages->ahead = 0;
	atp_conn_next_page(c->conn);
}

void
atp_consumer_page_is_read(Consumer *c)
{
	AtpPages   *pages = &c->pages;
	int			lines = pages->lines;
	bool		hole = pages->ahead > c->position.last;

	pages->step = Max(Max(lines, 1), (c->position.last - pages->after) / 2);
	if (lines == 0)
		c->by_pages = pages->tried_stream = false;
	else if (lines < PAGE_LINES && !pages->tried_stream)
	{
		c->by_pages = false;
		pages->tried_stream = true;
	}
	if (c->by_pages && !hole && atp_conn_persists(c->conn))
		go_on_behind(c, pages->ahead > 0 ? pages->ahead : c->position.last);
	else
		atp_consumer_leave_connection(c);
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
	if (c->by_pages && !c->pages.tried_stream)
		c->pages.step = PAGE_LINES;
}
