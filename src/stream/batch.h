/*
 * batch.h
 *		A batch of events between the socket and the tables.
 *
 * A batch owns one memory context.  Messages are received into the batch's buffer, and stay there.
 * Decoding turns each message into an event with rows, ready to be bound to a statement; applying a
 * batch is one transaction.  A batch is bounded in events and bytes (and by the worker in age): while
 * the batch is full, the process does not read the socket.
 */
#ifndef ATP_BATCH_H
#define ATP_BATCH_H

#include "postgres.h"

#include "common/clock.h"
#include "config/subscription.h"
#include "core/syntax/multikey.h"
#include "core/wire/repos_message.h"
#include "core/repo/sig.h"
#include "lib/stringinfo.h"
#include "net/dial.h"
#include "net/drop.h"
#include "nodes/pg_list.h"
#include "stream/position.h"
#include "stream/stream_time.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#define ATP_BATCH_EVENTS	4096	/* the batch is full at this number of events ... */
#define ATP_BATCH_BYTES		(8 * 1024 * 1024)	/* ... or of bytes; the last message may exceed this */

/*
 * Bytes of a full batch: the limit, one message that exceeds the limit, and the bytes before this message
 * from the read that began it (heads of frames, pings).
 */
#define ATP_BATCH_ROOM		(ATP_BATCH_BYTES + ATP_DIAL_READ_MAX + ATP_FRAME_MAX)

/*
 * With several workers: the consumer fills a batch, the workers apply a batch, and the third batch keeps both sides from
 * waiting (process/workers/ring.h).
 */
#define ATP_RING_BATCHES	3

/*
 * Memory for decoding, allocated once and kept: memory returned to the system after each batch and taken
 * again would cost a page fault for every 4 kB.
 */
#define ATP_BATCH_KEPT		(16 * 1024 * 1024)

/* The change of one record. */
typedef struct AtpRecordRow
{
	AtpAction	action;
	struct varlena *did;
	struct varlena *collection; /* as atp_nsid_make() writes it: equal collections have equal bytes */
	struct varlena *rkey;
	uint64		rev;
	struct varlena *cid;		/* NULL for a deletion, as are the following pointers */
	struct varlena *value;		/* dagcbor with AtpSettings.packs; else jsonb, NULL when jsonb cannot represent the record */
	bytea	   *raw;			/* set when value is NULL, or when keep_raw asks for the bytes */
	text	   *fault;			/* the violation of the record's Lexicon; NULL: no violation, or not validated */
	bool		reread;			/* read again after atproto.refill(): must not replace a row of the same or a newer rev */
	bool		may_stand;		/* may have come before, from an archive or beside one: an equal record is not written again (H-42, H-43) */
	bool		unkept;			/* a deletion that need not be kept while a sweep runs (sweep_deletion.h) */
} AtpRecordRow;

/* At level full: the signature of a commit or label, and whether the key tried last has made it. */
typedef struct AtpSigned
{
	uint8_t		digest[32];
	uint8_t		sig[ATP_SIG_LEN];
	bool		tried;			/* key and fits are set: the signature was checked with this key */
	bool		fits;
	uint8_t		key[ATP_MULTIKEY_LEN];
} AtpSigned;

typedef struct AtpLabelRow
{
	struct varlena *src;
	text	   *uri;
	text	   *val;
	struct varlena *cid;		/* NULL: no cid */
	bool		neg;
	TimestampTz cts;
	bool		has_exp;
	TimestampTz exp;
	int32		ver;			/* -1: no version */
	bytea	   *sig;			/* NULL: no signature */
	/* level full */
	AtpBytes	map;			/* the label's encoded map, in the message */
	struct AtpEvent *part;		/* the part of its labeler */
	AtpSigned  *signature;		/* NULL: no signature of the right length */
	bool		refuted;		/* the signature is not by the labeler's key */
	bool		blocked;		/* by or about an account that erase() keeps away */
} AtpLabelRow;

typedef struct AtpMessageRow
{
	text	   *type;
	Jsonb	   *payload;		/* as with records */
	bytea	   *raw;
} AtpMessageRow;

/* An entry of a did:plc directory. */
typedef struct AtpPlcRow
{
	AtpErr		err;			/* not ATP_OK: refused, whatever the account's log is */
	int64		created_at;		/* microseconds since the Unix epoch */
	AtpSpan		did;			/* points into the message, or into memory of the batch */
	const struct AtpPlcOp *op;	/* only nkeys of its keys are allocated; NULL: the operation could not be read */
	uint8_t		digest[32];		/* by which the table of refusals knows the operation */
} AtpPlcRow;

/* One row of an event; the stream's format determines the member of the union. */
typedef struct AtpRow
{
	AtpSpan		path;			/* identifies the row in a dead letter; points into the message */

	/*
	 * of a record: the same operation has been stored before, from a source that sends operations singly; set
	 * while the event is applied
	 */
	bool		known;
	union
	{
		AtpRecordRow record;
		AtpLabelRow label;
		AtpMessageRow message;
		AtpPlcRow	plc;
	};
} AtpRow;

/*
 * What the nodes in a commit prove about its list of operations.  (Each operation has already been found in
 * the tree.)
 */
typedef enum AtpProven
{
	ATP_NOT_ASKED,				/* at level hash */
	ATP_OPS_PROVEN,				/* the list is complete and correct */
	ATP_OPS_PROVEN_FIRST,		/* the list is complete and correct, and the repository was empty before (V-28) */
	ATP_OPS_INCOMPLETE,			/* the commit lacks nodes needed for the proof */
	ATP_OPS_REFUTED,			/* the list contradicts the trees; a dead letter was made */
	ATP_REV_AHEAD				/* at level full: the commit's rev lies in the future; a dead letter was made */
} AtpProven;

/* Why an event or row was passed over: the closed list that statistics count. */
typedef enum AtpSkip
{
	ATP_SKIP_UNKNOWN,			/* message of an unknown op or type (E-22) */
	ATP_SKIP_OVERLAP,			/* repetition of the last event (D13) */
	ATP_SKIP_FILTERED,			/* by the subscription's filters */
	ATP_SKIP_OLD,				/* revision not newer than the repository's (F-03) */
	ATP_SKIP_INACTIVE,			/* repository not active (F-05) */
	ATP_SKIP_BLOCKED,			/* of an account that erase() keeps away, or a label by or about it */
	ATP_SKIP_INVALID,			/* became a dead letter */
	ATP_SKIP_BREAK,				/* commits before the event were missed: it does not continue the repository's chain (F-08) */
	ATP_SKIP_SKIPPED_REVS,		/* commits were missed, without effect: the tree is the tree which the event continues (V-32) */
	/* The next two count results of the inversion; no event is passed over. */
	ATP_SKIP_INCOMPLETE,		/* incomplete nodes: the list of operations may be incomplete (V-27) */
	ATP_SKIP_MISMATCH,			/* the list of operations is wrong, and the commit invalid (V-26) */
	/* level full */
	ATP_SKIP_VERIFIED,			/* counts valid signatures; no event is passed over */
	ATP_SKIP_HELD,				/* held until the event can be judged (V-40 to V-42) */
	ATP_SKIP_HELD_DROPPED,		/* no room to hold the event */
	ATP_SKIP_BAD_SIGNATURE,		/* not signed by the account's key (V-41) */
	ATP_SKIP_NO_IDENTITY,		/* the account has no usable identity (V-43) */
	ATP_SKIP_OTHER_HOST,		/* the account is elsewhere (V-44) */
	ATP_SKIP_FORKED,			/* the account has signed two commits of the same revision (V-15) */
	/* Links not stored although their records are. */
	ATP_SKIP_LINK_PATH,			/* the link's path is too long */
	ATP_SKIP_LINK_TARGET,		/* the link's target is too long for an index entry */
	ATP_SKIP_LINK_SOURCE,		/* the table of link sources is full */
	ATP_SKIP_COUNT
} AtpSkip;

/* The verdict on a #commit or #sync (tables/repos/admission.h). */
typedef enum AtpJudged
{
	ATP_JUDGED_TRUE,			/* apply the event */
	ATP_JUDGED_IGNORED,			/* the event has no effect */
	ATP_JUDGED_FALSE,			/* not signed by the account: a dead letter */
	ATP_JUDGED_HELD				/* keep the event in atproto.held_event */
} AtpJudged;

/* Why an event is held: the column why of atproto.held_event. */
typedef enum AtpWhyHeld
{
	ATP_HELD_IDENTITY,			/* the key is unknown, or no longer trusted */
	ATP_HELD_SIGNATURE,			/* the signature is not by the known key */
	ATP_HELD_ORDER,				/* earlier events of the repository are held */
	ATP_HELD_RESYNC,			/* the repository is being fetched */
	ATP_HELD_GAP,				/* a commit before the event is missing, and a second source may bring it */
	ATP_HELD_COUNT
} AtpWhyHeld;

/* Why an event asks for a fetch of its repository, or concerns a queued fetch. */
typedef enum AtpFetchWhy
{
	ATP_FETCH_NOT,				/* nothing */
	ATP_FETCH_BREAK,			/* commits were missed, so the tables lack their changes ... */
	ATP_FETCH_MISMATCH,			/* ... or a commit's list of operations was wrong ... */
	ATP_FETCH_SYNC,				/* ... or a #sync announces a tree different from ours ... */
	ATP_FETCH_FORK,				/* ... or the account has signed two commits of the same revision */
	ATP_FETCH_SEEN,				/* the repository's earlier records are unknown */
	ATP_FETCH_MISSED,			/* the account is active again, and its events were ignored meanwhile */
	ATP_FETCH_ACTIVE,			/* the account is active again ... */
	ATP_FETCH_INACTIVE,			/* ... or inactive */
	ATP_FETCH_DELETED			/* the account is deleted */
} AtpFetchWhy;

/* A held event, as stored in its row. */
typedef struct AtpHeldRow
{
	struct varlena *did;
	uint64		rev;
	text	   *subscription;	/* the subscription that received the event */
	Oid			owner;			/* the owner of that subscription */
	const struct AtpStreamKind *source; /* the kind of stream that the event came from */
	AtpVerify	level;			/* the level at which the event is judged */
	text	   *endpoint;		/* URL of the stream that the event came from */
	int64		seq;
	AtpWhyHeld	why;
	bool		behind;			/* why is the reason of an earlier event, behind which this event waited */
	bool		gap;			/* held because of a missing commit; held_at tells since when */
	TimestampTz held_at;
	/* when the last look-up of the account's identity had ended at the time of receipt; DT_NOBEGIN: never */
	TimestampTz asked_at;
} AtpHeldRow;

/* The verdict on an event (tables/repos/admission.h, tables/apply/label_judge.h). */
typedef struct AtpEventVerdict
{
	AtpJudged	judged;
	AtpSkip		ignored_as;		/* of ATP_JUDGED_IGNORED */
	AtpWhyHeld	why_held;		/* of ATP_JUDGED_HELD ... */
	/* ... when the last look-up of the identity had ended; a held event waits for a newer look-up */
	TimestampTz asked_at;
	bool		request_identity;	/* request a look-up of the account's identity ... */
	bool		refresh;		/* ... even if the identity is known */

	bytea	   *former_key;		/* M-40: the former key that has signed the event, which later events confirm; NULL: the present key */
	const char *refusal;		/* M-40: a former key has signed the event, and nothing confirms the event; NULL: no former key has */

	/*
	 * #account: the account's own server is unknown, so the server that sent the event may be a stranger
	 * (V-44)
	 */
	bool		by_stranger;
} AtpEventVerdict;

/* What an event does besides its rows; set while the event is applied. */
typedef struct AtpEventEffects
{
	bool		unconfirmed;	/* #account: a deletion that no other server has confirmed yet (V-47) */
	bool		drops_held;		/* #account: an unconfirmed deletion of an account with nothing but held events, which go at once */
	bool		drops_older;	/* #account: a deletion that is older than the status of another stream: held events of this stream before it go */
	bool		doubts;			/* ask the account's server for the account's status ... */
	bool		has_status;		/* ... because of this #account event, whose status is in the repository's row */
	TimestampTz status_at;
	bool		has_status_seq;
	int64		status_seq;
	AtpFetchWhy fetch;
	bool		passed;			/* the repository is beyond this event, whose rows are not written */
	bool		reread;			/* read again, after atproto.refill() */
	bool		closes;			/* look at the events held for this event, or behind it */
	bool		marks;			/* of an event that qualifies: the repository's chain has a hole */
	bool		missed;			/* ignored although signed, since the account is inactive: the tables lack its changes */
} AtpEventEffects;

/* A decoded message that counts as an event of the stream. */
typedef struct AtpEvent
{
	bool		ignored;		/* only the cursor moves */
	bool		qualifies;		/* S-10: the message is not of the public repository: marks the repository, and has no rows */
	int64		seq;			/* 0: the stream has no sequence numbers (D30) */
	int64		time;			/* microseconds since the Unix epoch; 0: unknown */
	int64		written_at;		/* of an #account that a Jetstream has passed on: the time in the #account itself; 0: unknown */
	AtpBytes	message;		/* as received */
	uint32		key;			/* events with equal keys must keep their order */
	int			first_row;
	int			nrows;

	/* subscribeRepos */
	AtpReposKind kind;
	struct varlena *did;
	uint64		rev;
	bool		has_since;		/* #commit */
	uint64		since;
	struct varlena *prev_data;	/* #commit; NULL when absent */
	struct varlena *commit;
	struct varlena *data;
	bytea	   *sig;			/* of the commit; NULL when absent */
	bytea	   *commit_block;	/* see commit_keep.h */

	/*
	 * #commit: see AtpProven; #sync: ATP_OPS_PROVEN where a proof is asked for, since a #sync has no
	 * operations
	 */
	AtpProven	proven;
	bool		mismatch;		/* #commit: refuted by the inversion */

	/*
	 * #commit: only one of its operations, the rest come in events of their own; #sync: the repository's
	 * records follow
	 */
	bool		partial;
	bool		archived;		/* counts as a row of the stream's archive, which may be older than the tables (H-43) */
	bool		of_archive;		/* the archive has sent this event, not the stream */
	uint64		path;			/* partial #commit: hash of the operation's path */
	bool		lacking;		/* some of the event's records became dead letters */
	bool		omits;			/* S-10: labels of the message qualify, and have no rows */
	AtpSigned  *signature;		/* NULL: not level full, or the event has no commit to verify */
	struct varlena *handle;		/* #identity; NULL when absent */
	bool		active;			/* #account */
	text	   *status;			/* #account; NULL when absent */
	const AtpHeldRow *held;		/* NULL: received from the stream; else the event was held, and this is its row */

	AtpEventVerdict verdict;
	AtpEventEffects effects;

	/*
	 * subscribeLabels at level full: an event of its own for each labeler of the message (did; rev is seq),
	 * which is judged and held separately.  A part has no rows; AtpLabelRow.part says to which part a row
	 * belongs.
	 */
	struct AtpEvent *parts;
	int			nparts;
} AtpEvent;

/*
 * The stage of dead letters for events with the verdict ATP_JUDGED_FALSE.  Code compares this address, not
 * the text.
 */
extern const char atp_stage_signature[];

/* A dead letter: an event or row that could not be processed. */
typedef struct AtpDeadLetter
{
	int64		seq;			/* 0: unknown */
	const char *stage;			/* as in the table's CHECK */
	char		sqlstate[6];	/* of the error */
	const char *text;
	struct varlena *did;		/* NULL: unknown */
	AtpSpan		path;			/* of length 0: the whole event */
	AtpBytes	message;

	/*
	 * the letter is written only if this event is judged true (or, at stage signature, false); NULL: always
	 */
	const AtpEvent *event;
} AtpDeadLetter;

extern const char *atp_skip_name(AtpSkip skip);

typedef struct AtpBatch
{
	MemoryContext cxt;
	uint8_t    *buffer;			/* for messages, ATP_BATCH_ROOM bytes; NULL: not allocated, or not lent */
	size_t		used;			/* bytes of the buffer in use by messages */
	bool		lent;			/* the buffer comes from atp_batch_lend(): the batch must not allocate its own */
	uint8_t    *open;			/* after the used bytes: the incomplete next message ... */
	size_t		nopen;			/* ... of this length */
	uint8_t    *kept;			/* copy of the incomplete message while no buffer is lent; NULL: no copy */
	AtpBytes   *messages;		/* received, not yet decoded from ndecoded on */
	int			nmessages;
	int			ndecoded;
	AtpOnTime	on_time;		/* what the messages tell of the stream's time */
	AtpEvent   *events;
	int			nevents;
	int			nwanted;		/* events not ignored, among those whose rows are decoded */
	AtpRow	   *rows;
	int			nrows;
	int			max_rows;
	List	   *letters;		/* of AtpDeadLetter */
	List	   *gaps;			/* of AtpGap */
	int64		time;			/* of the last event; 0: unknown */
	TimestampTz passed_at;		/* the stream brings no event of before this time any more; 0: unknown */
	int64		skips[ATP_SKIP_COUNT];	/* number of events and rows passed over */
	bool		purge;			/* set when applying: deleted records await atp_purge() */
	bool		held;			/* set when applying: events are held, see atp_release() ... */
	bool		released;		/* ... and held events were queued for release */
	bool		requested;		/* set when applying: requests for the fetcher were queued */
	/* set when applying: the table of repository states, if several sources fill it; else InvalidOid */
	Oid			shared;
	AtpTime		since;			/* when the first message came */
} AtpBatch;

extern AtpBatch *atp_batch_create(MemoryContext parent);

/* Empty the batch.  The bytes of an incomplete message stay in place. */
extern void atp_batch_reset(AtpBatch *batch);

/*
 * Use this memory of ATP_BATCH_ROOM bytes for messages until the next call; NULL: no memory is available now.
 * The bytes of an incomplete message move along.
 */
extern void atp_batch_lend(AtpBatch *batch, uint8_t *buffer);
extern bool atp_batch_full(const AtpBatch *batch);

/*
 * A message arrives in pieces. atp_batch_room() returns memory into which the stream's bytes are best
 * received, and the number of bytes. atp_batch_put() appends a piece to the incomplete message.  A piece
 * inside this memory is not copied if it is the message's first piece or directly follows the piece before.
 *
 * atp_batch_take() completes the message; atp_batch_forget() drops it.  NULL or false means out of memory; no
 * ERROR is raised.
 */
extern uint8_t *atp_batch_room(AtpBatch *batch, size_t *len);
extern bool atp_batch_put(AtpBatch *batch, const uint8_t *data, size_t len);
extern bool atp_batch_take(AtpBatch *batch);
extern void atp_batch_forget(AtpBatch *batch);

/* Copy a whole message; false when out of memory. */
extern bool atp_batch_add(AtpBatch *batch, const uint8_t *data, size_t len);

/* Add a message that stays where it is, in memory outside of the batch. */
extern void atp_batch_add_shared(AtpBatch *batch, AtpBytes message);

/* Hash of a record's path, for AtpEvent.path and the table repo. */
extern uint64 atp_path_hash(AtpSpan path);

extern AtpRow *atp_batch_new_row(AtpBatch *batch);
extern void atp_batch_new_gap(AtpBatch *batch, const AtpGap *gap);
extern AtpDeadLetter *atp_batch_new_dead_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq);

#endif							/* ATP_BATCH_H */
