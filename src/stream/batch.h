/*
 * batch.h
 *		Events between the socket and the tables.
 *
 * A batch owns one memory context.  Messages are copied into it as they come;
 * decoding turns each into an event with rows, ready to be bound to a
 * statement; applying a batch is one transaction.  Bounded in events and in
 * bytes (and by the worker in age): when it is full, the socket is not read.
 */
#ifndef ATP_BATCH_H
#define ATP_BATCH_H

#include "postgres.h"

#include "clock.h"
#include "core/repos_message.h"
#include "lib/stringinfo.h"
#include "net/drop.h"
#include "nodes/pg_list.h"
#include "stream/position.h"
#include "stream/stream_time.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define ATP_BATCH_EVENTS	4096	/* then the batch is full ... */
#define ATP_BATCH_MESSAGES	(ATP_BATCH_EVENTS + 4096)	/* ... but wslay may hold a few more */
#define ATP_BATCH_BYTES		(8 * 1024 * 1024)	/* and one message of up to ATP_FRAME_MAX */

/*
 * Memory for what becomes of the messages, taken once: what goes back to the
 * system after each batch and comes again costs a page fault for each 4 kB.
 */
#define ATP_BATCH_KEPT		(16 * 1024 * 1024)

/* What happens to one record. */
typedef struct AtpRecordRow
{
	AtpAction	action;
	struct varlena *did;
	struct varlena *collection;
	struct varlena *rkey;
	uint64		rev;
	struct varlena *cid;		/* NULL for a deletion, and the following too */
	Jsonb	   *value;			/* NULL when jsonb cannot hold it */
	bytea	   *raw;			/* then, or when it is to be kept, this is not */
} AtpRecordRow;

typedef struct AtpLabelRow
{
	struct varlena *src;
	text	   *uri;
	text	   *val;
	struct varlena *cid;		/* NULL: none */
	bool		neg;
	TimestampTz cts;
	bool		has_exp;
	TimestampTz exp;
	int32		ver;			/* -1: none */
	bytea	   *sig;			/* NULL: none */
} AtpLabelRow;

typedef struct AtpMessageRow
{
	text	   *type;
	Jsonb	   *payload;		/* as with records */
	bytea	   *raw;
} AtpMessageRow;

/* One row of an event; which of these it is, the source says. */
typedef struct AtpRow
{
	AtpSpan		path;			/* names it in a dead letter; a span of the message */
	union
	{
		AtpRecordRow record;
		AtpLabelRow label;
		AtpMessageRow message;
	};
} AtpRow;

/* What is known of a commit's operations, beyond that each is in its tree. */
typedef enum AtpProven
{
	ATP_NOT_ASKED,				/* at level hash */
	ATP_OPS_PROVEN,				/* they are all */
	ATP_OPS_PROVEN_FIRST,		/* likewise, and there was nothing before them (V-28) */
	ATP_OPS_INCOMPLETE,			/* the nodes do not tell */
	ATP_OPS_REFUTED				/* they are not what the account has done: there is a dead letter */
} AtpProven;

/* One message of the stream that counts. */
typedef struct AtpEvent
{
	bool		ignored;		/* only the cursor moves */
	int64		seq;			/* 0: the stream has none (D30) */
	int64		time;			/* microseconds since the Unix epoch; 0: unknown */
	AtpBytes	message;		/* as received */
	uint32		key;			/* equal for events that must keep their order */
	int			first_row;
	int			nrows;

	/* subscribeRepos */
	AtpReposKind	kind;
	struct varlena *did;
	uint64		rev;
	bool		has_since;		/* #commit */
	uint64		since;
	struct varlena *prev_data;	/* #commit; NULL when absent */
	struct varlena *commit;
	struct varlena *data;
	AtpProven	proven;			/* #commit; of a #sync, which has none, ATP_OPS_PROVEN where it is asked */
	bool		lacking;		/* some of its records are dead letters */
	struct varlena *handle;		/* #identity; NULL when absent */
	bool		active;			/* #account */
	text	   *status;			/* #account; NULL when absent */
} AtpEvent;

/* What could not be processed. */
typedef struct AtpLetter
{
	int64		seq;			/* 0: unknown */
	const char *stage;			/* as in the table's CHECK */
	char		sqlstate[6];	/* of the error */
	const char *text;
	struct varlena *did;		/* NULL: unknown */
	AtpSpan		path;			/* len 0: the whole event */
	AtpBytes	message;
} AtpLetter;

/* Why something was passed over: the closed list that statistics count. */
typedef enum AtpSkip
{
	ATP_SKIP_UNKNOWN,			/* message of an unknown op or type (E-22) */
	ATP_SKIP_OVERLAP,			/* the last event once more (D13) */
	ATP_SKIP_FILTERED,			/* by the subscription's filters */
	ATP_SKIP_OLD,				/* revision not newer than the repository's (F-03) */
	ATP_SKIP_INACTIVE,			/* repository not active (F-05) */
	ATP_SKIP_INVALID,			/* became a dead letter */
	ATP_SKIP_BREAK,				/* what was missed before it: it does not continue the repository (F-08) */
	ATP_SKIP_SKIPPED_REVS,		/* likewise, but it comes to nothing: the tree is the one that it continues (V-32) */
	/* nothing is passed over by these two: what the inversion said of commits */
	ATP_SKIP_INCOMPLETE,		/* nobody can tell whether it names all its operations (V-27) */
	ATP_SKIP_MISMATCH,			/* it does not, and is invalid (V-26) */
	ATP_SKIP_COUNT
} AtpSkip;

extern const char *atp_skip_name(AtpSkip skip);

typedef struct AtpBatch
{
	MemoryContext cxt;
	uint8_t    *buffer;			/* for messages; NULL: none yet */
	size_t		capacity;		/* of the buffer */
	size_t		used;			/* likewise */
	bool		lent;			/* the buffer is not the batch's own, and no other memory is to be used */
	AtpBytes   *messages;		/* received, not yet decoded from ndecoded on */
	int			nmessages;
	int			ndecoded;
	AtpOnTime	on_time;		/* what the messages say of the stream's time */
	AtpEvent   *events;
	int			nevents;
	AtpRow	   *rows;
	int			nrows;
	int			max_rows;
	List	   *letters;		/* of AtpLetter */
	List	   *gaps;			/* of AtpGap */
	int64		time;			/* of the last event; 0: unknown */
	int64		skips[ATP_SKIP_COUNT];	/* events and rows that were passed over */
	bool		purge;			/* set by applying: see atp_purge() */
	size_t		bytes;
	AtpTime		since;			/* when the first message came */
} AtpBatch;

extern AtpBatch *atp_batch_create(MemoryContext parent);
extern void atp_batch_reset(AtpBatch *batch);

/* Messages go into this memory, until the next call; NULL: there is none, now. */
extern void atp_batch_lend(AtpBatch *batch, uint8_t *buffer, size_t capacity);
extern bool atp_batch_full(const AtpBatch *batch);

/* Copy a message; false when there is no memory.  Never raises an ERROR. */
extern bool atp_batch_add(AtpBatch *batch, const uint8_t *data, size_t len);

/* Take a message that stays where it is. */
extern void atp_batch_add_shared(AtpBatch *batch, AtpBytes message);

extern AtpRow *atp_batch_new_row(AtpBatch *batch);
extern void atp_batch_new_gap(AtpBatch *batch, const AtpGap *gap);
extern AtpLetter *atp_batch_new_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq);

#endif							/* ATP_BATCH_H */
