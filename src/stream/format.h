/*
 * format.h
 *		How the messages of one kind of stream are read: bytes into a frame, the frame's
 *		payload into a head (the fields about the stream itself) and rows.  Private to
 *		src/stream; source.c lists the formats.
 */
#ifndef ATP_FORMAT_H
#define ATP_FORMAT_H

#include "postgres.h"

#include "core/archive/archive_message.h"
#include "core/repo/car.h"
#include "core/wire/frame.h"
#include "core/repo/invert.h"
#include "core/wire/jetstream_message.h"
#include "core/wire/labels_message.h"
#include "core/wire/repos_message.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "stream/filter.h"

typedef enum AtpHeadKind
{
	ATP_HEAD_EVENT,
	ATP_HEAD_INFO,				/* carries no seq (E-42) */
	ATP_HEAD_OUTDATED,			/* an #info named OutdatedCursor (E-44) */
	ATP_HEAD_UNKNOWN			/* of unknown type; moves the cursor when it has a seq */
} AtpHeadKind;

/* The fields which decode.c needs before the rows are made. */
typedef struct AtpHead
{
	AtpHeadKind what;
	int64		seq;			/* 0: no sequence number */
	AtpSpan		time;			/* RFC 3339; ptr NULL: no time */
	int64		micros;			/* the time in microseconds, if it is a number; 0: see time */
	uint64		rev;			/* revision of the repository; 0: no revision */
	int64		latest;			/* the latest creation time of the labels, in microseconds; 0: no labels */
	AtpSpan		repo;			/* the DID whose events must keep their order; ptr NULL: no DID */
	bool		qualifies;		/* S-10: a member says that no row may be made of the message (unknown.h) */
} AtpHead;

struct AtpDecoder
{
	MemoryContext cxt;
	const struct AtpFormat *format;
	const AtpSettings *settings;

	/*
	 * the table of repository states for rev_cache.h, which knows old commits; InvalidOid: no other source fills
	 * it
	 */
	Oid			table;
	/* the message being read */
	AtpFrame	frame;
	union
	{
		AtpReposMessage repos;
		AtpLabelsMessage labels;
	}			msg;
	const uint8_t *read;		/* the payload which msg.repos has been read from; NULL: none */
	bool		framed;			/* as AtpHead.qualifies, by a member of the frame */
	AtpJetstream jetstream;		/* further fields of a message in JSON */
	bool		is_archived;	/* the message is a row of the archive ... */
	AtpArchiveRow archived;		/* ... this one */
	AtpCarIndex index;
	/* From ATP_VERIFY_CHAIN on: the tree before a commit, and memory for the commit's nodes. */
	AtpInversion inversion;
	uint8_t    *nodes;			/* NULL: not allocated yet */
	size_t		room;			/* bytes at nodes */
};

typedef struct AtpFormat
{
	/* Cut a message into decoder->frame.  Any error is fatal to the connection. */
	AtpErr		(*cut) (AtpDecoder *decoder, AtpBytes message, size_t *at);

	/* Read the frame's payload.  ATP_E_SEQ_* is fatal to the connection. */
	AtpErr		(*parse) (AtpDecoder *decoder, AtpHead *head, size_t *at);

	/*
	 * Make the event's rows.  False: ignore the event, after a dead letter or because of the filters.  Only
	 * called after parse() returned ATP_OK.
	 */
	bool		(*make) (AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

	/*
	 * S-10: the message was parsed, and no row may be made of it: make the event that marks the message's repository.
	 * False: no repository is to be marked.  NULL: the format's messages mark none.
	 */
	bool		(*mark) (AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

	/*
	 * Is the parsed message without effect, because another source has brought its commit (rev_cache.h)?  NULL:
	 * the format cannot tell.
	 */
	bool		(*is_known) (AtpDecoder *decoder);
} AtpFormat;

extern const AtpFormat atp_repos_format;
extern const AtpFormat atp_labels_format;
extern const AtpFormat atp_message_format;
extern const AtpFormat atp_jetstream_v1_format;
extern const AtpFormat atp_jetstream_v2_format;
extern const AtpFormat atp_message_json_format;
extern const AtpFormat atp_plc_format;

/* For cut(): the event-stream framing of XRPC. */
extern AtpErr atp_cut_frame(AtpDecoder *decoder, AtpBytes message, size_t *at);

/* For cut(): the event-stream framing in JSON (E-60); the payload stays JSON. */
extern AtpErr atp_cut_json(AtpDecoder *decoder, AtpBytes message, size_t *at);

/* For the format of a stream whose server has an archive: the same steps for a row of the archive. */
extern AtpErr atp_archived_cut(AtpDecoder *decoder, AtpBytes message, size_t *at);
extern AtpErr atp_archived_parse(AtpDecoder *decoder, AtpHead *head, size_t *at);
extern bool atp_archived_make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

/* Parse the head of the message in decoder->frame. */
extern AtpErr atp_parse_head(AtpDecoder *decoder, AtpHead *head, size_t *at);

/* For parse(): the kind of an #info with this name. */
extern AtpHeadKind atp_head_of_info(AtpSpan name);

/* Helpers for make(). */
extern AtpDeadLetter *atp_dead_letter(AtpBatch *batch, const char *stage, const AtpEvent *event,
									  AtpErr err, size_t at);

/*
 * Convert a block or payload to jsonb; *raw gets the bytes where jsonb cannot represent the data, or where
 * keep_raw asks for them.  Any result but ATP_OK: the data is invalid.
 */
extern AtpErr atp_make_jsonb(AtpBytes data, bool keep_raw, Jsonb **value, bytea **raw, size_t *at);

/*
 * The value of a block that has to be a valid record (B-20 to B-28), of the type that the target's tables have: jsonb as
 * atp_make_jsonb() makes it, or dagcbor, which holds every record, so that *raw is NULL.
 */
extern AtpErr atp_make_record(AtpBytes block, const AtpSettings *settings, struct varlena **value, bytea **raw, size_t *at);

/*
 * Convert JSON to DAG-CBOR.  *cbor lies in *room, which is palloc'd also for invalid JSON; *at is an offset in
 * json.
 */
extern AtpErr atp_make_dagcbor(AtpSpan json, AtpBytes *cbor, uint8_t **room, size_t *at);

/*
 * Steps of subscribeRepos that other formats share.  These set the head, and the event's account (false:
 * excluded by the filters).
 */
extern void atp_repos_head(const AtpReposMessage *msg, AtpHead *head);
extern bool atp_repos_begin(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

/* Make the rest of the event, with all its rows. */
extern bool atp_repos_make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

/* S-10: make the event of a #commit or #sync that marks its repository only; false: there is nothing to mark. */
extern bool atp_repos_mark(AtpDecoder *decoder, AtpEvent *event);

/* S-10, S-12: does a member of a message of subscribeRepos, in DAG-CBOR, or its kind say that no row may be made of it? */
extern bool atp_repos_qualify(AtpBytes payload, AtpReposKind kind);
extern bool atp_repos_kind_is_listed(AtpReposKind kind);

/* For a single operation: do the filters want it; make its dead letter; make its row. */
extern bool atp_repos_wants(AtpDecoder *decoder, AtpBatch *batch, const AtpOp *op);
extern void atp_repos_refuse(AtpBatch *batch, AtpEvent *event, const AtpOp *op, AtpErr err, size_t at);
extern void atp_repos_row(AtpBatch *batch, AtpEvent *event, const AtpOp *op, struct varlena *value, bytea *raw);

/*
 * The digest of the signed bytes of a commit or label, and the signature; NULL: no signature of the right
 * length (V-05, V-49).
 */
extern AtpSigned *atp_make_signed(AtpBytes map, bool is_label);

#endif							/* ATP_FORMAT_H */
