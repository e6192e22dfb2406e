/*
 * cursor.h
 *		Rows of atproto.cursor: the position of each stream, for each of its shards.
 */
#ifndef ATP_CURSOR_H
#define ATP_CURSOR_H

#include "postgres.h"

#include "config/spi.h"
#include "config/subscription.h"

/* A stream's position; sequence numbers, or -1 for no position yet. */
typedef struct AtpCursor
{
	int			shards;			/* rows; 1 unless several workers share the stream */
	int			layout;			/* a number which changes each time the stream is divided anew, or the target or its name changes */
	int64		lowest;			/* all up to here is processed */
	int64		highest;		/* nothing beyond this is */
	int64		last_row;		/* digest of the row at lowest; 0: not known */
} AtpCursor;

/*
 * Read the cursor of a subscription at an endpoint, inserting a row if none exists.  The rows stay locked.
 * An ERROR unless there is a row for each shard, and not too many.
 */
extern AtpCursor atp_cursor_get(const char *name, const char *endpoint);

/* Insert a row with this position for the cursor, unless there is a row. */
extern void atp_cursor_make(const char *name, const char *endpoint, int64 seq);

/* The position of one shard; false when there is no row of this layout. */
extern bool atp_cursor_of_shard(const char *name, const char *endpoint, int shard, int layout, int64 *seq);

/*
 * Divide the stream into this number of shards, if all present shards are at the same position; returns the
 * cursor afterwards.  No worker of the former shards may be alive.
 */
extern AtpCursor atp_cursor_share(const char *name, const char *endpoint, int shards);

/* A stream without position begins: set the position of all shards to seq, after which its first event comes. */
extern void atp_cursor_begin(const char *name, const char *endpoint, int64 seq);

/* The stream brings no event of before this time any more. */
extern void atp_cursor_passed(const char *name, const char *endpoint, TimestampTz passed_at);

/*
 * If the settings of this row of atproto.subscription differ from those noted in the cursor, note these
 * settings, and that they hold for events after the present position.
 */
extern void atp_cursor_settings(const AtpSubscription *sub);

/*
 * The name of a subscription that keeps links in the target, but has not begun to use its present settings;
 * NULL: none.
 */
extern char *atp_cursor_unsettled(const char *target);

/*
 * A target is renamed: update the noted settings of its subscriptions, and the layouts.  Call before atproto.subscription is
 * updated.  Otherwise the new name would count as changed settings.
 */
extern void atp_cursors_rename_target(const char *before, const char *now, AtpArg subscriptions);

#endif							/* ATP_CURSOR_H */
