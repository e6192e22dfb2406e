/*
 * batch.h
 *		Events between the socket and the tables.
 *
 * A batch owns one memory context.  Messages are received into its buffer, where
 * they stay; decoding turns each into an event with rows, ready to be bound to a
 * statement; applying a batch is one transaction.  Bounded in events and in
 * bytes (and by the worker in age): when it is full, the socket is not read.
 */
#ifndef ATP_BATCH_H
#define ATP_BATCH_H

#include "postgres.h"

#include "clock.h"
#include "config/subscription.h"
#include "core/multikey.h"
#include "core/repos_message.h"
#include "core/sig.h"
#include "lib/stringinfo.h"
#include "net/dial.h"
#include "net/drop.h"
#include "nodes/pg_list.h"
#include "stream/position.h"
#include "stream/stream_time.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define ATP_BATCH_EVENTS	4096	/* then the batch is full ... */
#define ATP_BATCH_BYTES		(8 * 1024 * 1024)	/* ... or then; one message may go over it */

/*
 * What a full batch needs: the message that went over the limit, and what came before that in
 * the read that began it (heads of frames, pings).
 */
#define ATP_BATCH_ROOM		(ATP_BATCH_BYTES + ATP_DIAL_READ_MAX + ATP_FRAME_MAX)

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
	text	   *fault;			/* by its Lexicon; NULL: none, or nobody has looked */
	bool		again;			/* read again, after atproto.refill(): it replaces nothing that is as new */
} AtpRecordRow;

/* At level full: what a commit's or label's signature is about, and what is known of it by now. */
typedef struct AtpSigned
{
	uint8_t		digest[32];
	uint8_t		sig[ATP_SIG_LEN];
	bool		tried;			/* with this key, which has made it or not */
	bool		fits;
	uint8_t		key[ATP_MULTIKEY_LEN];
} AtpSigned;

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
	/* level full */
	AtpBytes	map;			/* all of it, in the message */
	struct AtpEvent *part;		/* its labeler's part of that */
	AtpSigned  *signature;		/* NULL: it has none that could be one */
	bool		refuted;		/* the labeler has not signed it */
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
	bool		known;			/* of a record: another source has brought it by itself; set with its event's effects */
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
	ATP_OPS_REFUTED,			/* they are not what the account has done: there is a dead letter */
	ATP_REV_AHEAD				/* at level full: its rev lies in the future; likewise */
} AtpProven;

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
	/* level full */
	ATP_SKIP_VERIFIED,			/* nothing is passed over: the account has signed it */
	ATP_SKIP_HELD,				/* it waits (V-40 to V-42) */
	ATP_SKIP_HELD_DROPPED,		/* there was no room to wait */
	ATP_SKIP_BAD_SIGNATURE,		/* the account has not signed it (V-41) */
	ATP_SKIP_NO_IDENTITY,		/* there is no account that could (V-43) */
	ATP_SKIP_OTHER_HOST,		/* the account is elsewhere (V-44) */
	ATP_SKIP_FORKED,			/* the account has signed another commit of this revision, too (V-15) */
	/* links of records that are stored */
	ATP_SKIP_LINK_PATH,			/* too long */
	ATP_SKIP_LINK_TARGET,		/* likewise, for an entry of an index */
	ATP_SKIP_LINK_SOURCE,		/* there is no room for another source */
	ATP_SKIP_COUNT
} AtpSkip;

/* What becomes of a #commit or #sync (judge.h). */
typedef enum AtpJudged
{
	ATP_JUDGED_TRUE,			/* it is taken */
	ATP_JUDGED_IGNORED,			/* nothing follows from it */
	ATP_JUDGED_FALSE,			/* the account has not signed it: a dead letter */
	ATP_JUDGED_HELD				/* it waits in atproto.held_event */
} AtpJudged;

/* Why it waits: the column why there. */
typedef enum AtpWhyHeld
{
	ATP_HELD_IDENTITY,			/* the key is not known, or not any more */
	ATP_HELD_SIGNATURE,			/* the signature is not by the key that is known */
	ATP_HELD_ORDER,				/* others of its repository wait */
	ATP_HELD_RESYNC,			/* the repository is being fetched */
	ATP_HELD_GAP,				/* one before it is missing, which another source may bring */
	ATP_HELD_COUNT
} AtpWhyHeld;

/* What an event means for who fetches its repository. */
typedef enum AtpFetchWhy
{
	ATP_FETCH_NOT,				/* nothing */
	ATP_FETCH_BREAK,			/* it is not in step: commits were missed ... */
	ATP_FETCH_MISMATCH,			/* ... or one did something else than it says ... */
	ATP_FETCH_SYNC,				/* ... or its account says so ... */
	ATP_FETCH_FORK,				/* ... or says two things at once */
	ATP_FETCH_SEEN,				/* nobody knows what was there before */
	ATP_FETCH_ACTIVE,			/* its server serves it again ... */
	ATP_FETCH_INACTIVE,			/* ... or does not */
	ATP_FETCH_DELETED			/* it is gone */
} AtpFetchWhy;

/* An event that waits, as its row has it. */
typedef struct AtpHeldRow
{
	struct varlena *did;
	uint64		rev;
	text	   *subscription;		/* that received it */
	Oid			owner;			/* of that subscription */
	const struct AtpSource *source; /* what kind of stream it came from */
	AtpVerify	level;			/* at which it is judged */
	text	   *endpoint;		/* stream that it came from */
	int64		seq;
	AtpWhyHeld	why;
	bool		gap;			/* for a commit before it: held_at says since when */
	TimestampTz held_at;
	TimestampTz asked_at;		/* when the account's identity had been asked for last, when it came; DT_NOBEGIN: never */
} AtpHeldRow;

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
	bool		mismatch;		/* likewise: refuted by the inversion */
	bool		partial;		/* #commit: one of its operations, the others come by themselves; #sync: the repository's records follow */
	uint64		path;			/* hash of that operation's */
	bool		lacking;		/* some of its records are dead letters */
	AtpSigned  *signature;		/* NULL: not asked, or there is no commit whose it could be */
	const AtpHeldRow *held;		/* NULL: it comes from the stream; else it has waited */
	AtpJudged	judged;
	AtpSkip		ignored_as;		/* ATP_JUDGED_IGNORED */
	AtpWhyHeld	why_held;		/* ATP_JUDGED_HELD ... */
	TimestampTz asked_at;		/* ... until another look-up has ended than this one */
	bool		wish;			/* its account's identity is to be asked for ... */
	bool		refresh;		/* ... although it is known */
	bool		by_stranger;	/* #account: nobody knows whether the server that says so is the account's (V-44) */
	bool		unconfirmed;	/* or a server instead of it: a deletion with which nobody has agreed yet (V-47) */
	bool		doubts;			/* its server is to be asked: for its status ... */
	bool		has_status;		/* ... as of this #account event */
	TimestampTz status_at;
	bool		has_status_seq;
	int64		status_seq;
	AtpFetchWhy fetch;			/* set with its effects */
	bool		closes;			/* likewise: what waits for it, or behind that, may go */
	struct varlena *handle;		/* #identity; NULL when absent */
	bool		active;			/* #account */
	text	   *status;			/* #account; NULL when absent */

	/*
	 * subscribeLabels at level full: of each labeler an event of its own (did, and seq as rev), which
	 * is judged, and held, by itself.  It has no rows: they say whose they are.
	 */
	struct AtpEvent *parts;
	int			nparts;
} AtpEvent;

/* The stage that it has whose verdict is ATP_JUDGED_FALSE: told by its address. */
extern const char atp_stage_signature[];

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
	const AtpEvent *event;		/* which has to be true for it; NULL: none */
} AtpLetter;

extern const char *atp_skip_name(AtpSkip skip);

typedef struct AtpBatch
{
	MemoryContext cxt;
	uint8_t    *buffer;			/* for messages, ATP_BATCH_ROOM bytes; NULL: none yet */
	size_t		used;			/* likewise, by messages */
	bool		lent;			/* the buffer is not the batch's own, and no other memory is to be used */
	uint8_t    *open;			/* behind that: what has come of the next message, ... */
	size_t		nopen;			/* ... so many bytes */
	uint8_t    *kept;			/* where these are while there is no buffer; NULL: they are not */
	AtpBytes   *messages;		/* received, not yet decoded from ndecoded on */
	int			nmessages;
	int			ndecoded;
	AtpOnTime	on_time;		/* what the messages say of the stream's time */
	AtpEvent   *events;
	int			nevents;
	int			nwanted;		/* of them that are not ignored, as far as they are decoded */
	AtpRow	   *rows;
	int			nrows;
	int			max_rows;
	List	   *letters;		/* of AtpLetter */
	List	   *gaps;			/* of AtpGap */
	int64		time;			/* of the last event; 0: unknown */
	int64		skips[ATP_SKIP_COUNT];	/* events and rows that were passed over */
	bool		purge;			/* set by applying: see atp_purge() */
	bool		held;			/* likewise: events wait, see atp_release() ... */
	bool		released;		/* ... and some need not any more */
	bool		stalls;			/* likewise: labels of one labeler have no room to wait, and the stream is to stand still */
	bool		wished;			/* likewise: the fetcher has to do */
	Oid			shared;			/* likewise: a table of states that other sources fill, too; InvalidOid: none */
	AtpTime		since;			/* when the first message came */
} AtpBatch;

extern AtpBatch *atp_batch_create(MemoryContext parent);

/* Empty; what has come of a message stays where it is. */
extern void atp_batch_reset(AtpBatch *batch);

/*
 * Messages go into this memory of ATP_BATCH_ROOM bytes, until the next call; NULL: there is none, now.
 * What has come of a message goes with it.
 */
extern void atp_batch_lend(AtpBatch *batch, uint8_t *buffer);
extern bool atp_batch_full(const AtpBatch *batch);

/*
 * A message comes in pieces.  atp_batch_room() has memory into which the stream's bytes
 * are best received, and their number.  atp_batch_put() takes a piece of a message from among
 * them, which is not copied when it is the first or follows the one before it, or from elsewhere.
 * Then the message is whole, or is forgotten.  NULL, false: there is no memory.  No ERROR
 * is raised.
 */
extern uint8_t *atp_batch_room(AtpBatch *batch, size_t *len);
extern bool atp_batch_put(AtpBatch *batch, const uint8_t *data, size_t len);
extern bool atp_batch_take(AtpBatch *batch);
extern void atp_batch_forget(AtpBatch *batch);

/* Copy a message; false when there is no memory. */
extern bool atp_batch_add(AtpBatch *batch, const uint8_t *data, size_t len);

/* Take a message that stays where it is, in other memory than the batch's. */
extern void atp_batch_add_shared(AtpBatch *batch, AtpBytes message);

/* Of paths of records, for AtpEvent and the table repo. */
extern uint64 atp_path_hash(AtpSpan path);

extern AtpRow *atp_batch_new_row(AtpBatch *batch);
extern void atp_batch_new_gap(AtpBatch *batch, const AtpGap *gap);
extern AtpLetter *atp_batch_new_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq);

#endif							/* ATP_BATCH_H */
