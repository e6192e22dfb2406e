/*
 * cursor.h
 *		Rows of atproto.cursor: where each stream is.
 */
#ifndef ATP_CURSOR_H
#define ATP_CURSOR_H

#include "postgres.h"

/* Where a stream is: positions are sequence numbers, or -1 for none yet. */
typedef struct AtpCursor
{
	int			shards;			/* rows; 1 unless several workers share the stream */
	int			layout;			/* another one each time that it is shared anew */
	int64		lowest;			/* all up to here is processed */
	int64		highest;		/* nothing beyond this is */
} AtpCursor;

/*
 * The cursor of name at endpoint, made when missing.  An ERROR unless it has
 * each of its shards, and not more than there can be.
 */
extern AtpCursor atp_cursor_get(const char *name, const char *endpoint);

/* One shard's position; false when there is none of this layout. */
extern bool atp_cursor_of_shard(const char *name, const char *endpoint, int shard, int layout, int64 *seq);

/*
 * From now on there are so many shards, if all that there are now are at the
 * same position; and how it is then.  No worker of before may live.
 */
extern AtpCursor atp_cursor_share(const char *name, const char *endpoint, int shards);

/* A stream that had no position began: its first event comes after seq. */
extern void atp_cursor_begin(const char *name, const char *endpoint, int64 seq);

/* Note that the present settings hold after the cursor's position, if they are others than those noted: it reads on from there. */
extern void atp_cursor_settings(const char *name, const char *endpoint);

/* A subscription that keeps links in the target and does not go by its present settings yet; NULL: there is none. */
extern char *atp_cursor_unsettled(const char *target);

/* Of subscriptions whose target has another name now, before atproto.subscription says so: that is no other setting. */
extern void atp_cursors_rename_target(const char *before, const char *now);

#endif							/* ATP_CURSOR_H */
