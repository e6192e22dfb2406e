/*
 * format.h
 *		How the messages of one kind of stream are read: bytes into a frame, its
 *		payload into a head, which concerns the stream, and rows.  Private to src/stream; source.c names the
 *		formats that there are.
 */
#ifndef ATP_FORMAT_H
#define ATP_FORMAT_H

#include "postgres.h"

#include "core/repo/car.h"
#include "core/wire/frame.h"
#include "core/repo/invert.h"
#include "core/wire/jetstream_message.h"
#include "core/wire/labels_message.h"
#include "core/wire/repos_message.h"
#include "stream/batch.h"
#include "stream/decode.h"

typedef enum AtpHeadKind
{
	ATP_HEAD_EVENT,
	ATP_HEAD_INFO,				/* carries no seq (E-42) */
	ATP_HEAD_OUTDATED,			/* one that is called OutdatedCursor (E-44) */
	ATP_HEAD_UNKNOWN			/* moves the cursor when it has a seq */
} AtpHeadKind;

/* What decode.c needs to know of a message before its rows are made. */
typedef struct AtpHead
{
	AtpHeadKind what;
	int64		seq;			/* 0: none */
	AtpSpan		time;			/* RFC 3339; ptr NULL: none */
	int64		micros;			/* a time that is a number, likewise; 0: see time */
	uint64		rev;			/* of a repository; 0: none */
	AtpSpan		repo;			/* the DID whose events must keep their order; ptr NULL: none */
} AtpHead;

struct AtpDecoder
{
	MemoryContext cxt;
	const struct AtpFormat *format;
	const AtpSettings *settings;
	Oid			table;			/* of states of repositories: recent.h says which commits are old; InvalidOid: nobody does */
	/* the message being read */
	AtpFrame	frame;
	union
	{
		AtpReposMessage repos;
		AtpLabelsMessage labels;
	}			msg;
	const uint8_t *read;		/* the payload that msg.repos already is; NULL: none */
	AtpJetstream jetstream;		/* what else there is of a message in JSON */
	AtpCarIndex index;
	/* from ATP_VERIFY_CHAIN on: the tree before a commit, and memory for the nodes that it takes */
	AtpInversion inversion;
	uint8_t    *nodes;			/* NULL: none yet */
	size_t		room;			/* there */
};

typedef struct AtpFormat
{
	/* Cut a message into decoder->frame.  Any error is fatal to the connection. */
	AtpErr		(*cut) (AtpDecoder *decoder, AtpBytes message, size_t *at);

	/* Read the frame's payload.  ATP_E_SEQ_* is fatal to the connection. */
	AtpErr		(*parse) (AtpDecoder *decoder, AtpHead *head, size_t *at);

	/*
	 * Make the event's rows.  False: it is ignored, after a dead letter or
	 * because of the filters.  Only called when parse() was content.
	 */
	bool		(*make) (AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

	/* Does nothing follow from the message that was parsed, since another source has brought it (recent.h)?  NULL: nobody can tell. */
	bool		(*is_known) (AtpDecoder *decoder);
} AtpFormat;

extern const AtpFormat atp_repos_format;
extern const AtpFormat atp_labels_format;
extern const AtpFormat atp_message_format;
extern const AtpFormat atp_jetstream_v1_format;
extern const AtpFormat atp_jetstream_v2_format;
extern const AtpFormat atp_message_json_format;

/* For cut(): the event-stream framing of XRPC. */
extern AtpErr atp_cut_frame(AtpDecoder *decoder, AtpBytes message, size_t *at);

/* ... and the same in JSON (E-60); the payload stays JSON. */
extern AtpErr atp_cut_json(AtpDecoder *decoder, AtpBytes message, size_t *at);

/* Read the head of the message whose frame the decoder has. */
extern AtpErr atp_parse_head(AtpDecoder *decoder, AtpHead *head, size_t *at);

/* For parse(): what an #info of this name is. */
extern AtpHeadKind atp_head_of_info(AtpSpan name);

/* Helpers for make(). */
extern AtpLetter *atp_dead_letter(AtpBatch *batch, const char *stage, const AtpEvent *event,
								  AtpErr err, size_t at);

/*
 * A block or payload into jsonb, with its bytes where jsonb cannot hold it or
 * keep_raw asks for them.  Anything but ATP_OK: it is invalid.
 */
extern AtpErr atp_make_jsonb(AtpBytes data, bool keep_raw, Jsonb **value, bytea **raw, size_t *at);

/* The same of a record's block, which has to be one (B-20 to B-28). */
extern AtpErr atp_make_record(AtpBytes block, bool keep_raw, Jsonb **value, bytea **raw, size_t *at);

/* JSON as DAG-CBOR, in memory that is palloc'd, also when it is none; *at counts from its start. */
extern AtpErr atp_make_dagcbor(AtpSpan json, AtpBytes *cbor, uint8_t **room, size_t *at);

/* Steps of subscribeRepos that other formats take, too: the head, whose event it is, ... */
extern void atp_repos_head(const AtpReposMessage *msg, AtpHead *head);
extern bool atp_repos_begin(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

/* ... all else of it, ... */
extern bool atp_repos_make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

/* ... or one operation: whether filters want it, its dead letter, its row. */
extern bool atp_repos_wants(AtpDecoder *decoder, AtpBatch *batch, const AtpOp *op);
extern void atp_repos_refuse(AtpBatch *batch, AtpEvent *event, const AtpOp *op, AtpErr err, size_t at);
extern void atp_repos_row(AtpBatch *batch, AtpEvent *event, const AtpOp *op, Jsonb *value, bytea *raw);

/* What has been signed of a commit or label, and the signature; NULL: it has none of that length (V-05, V-49). */
extern AtpSigned *atp_make_signed(AtpBytes map, bool is_label);

/* The filters (F-14). */
extern bool atp_wants_did(const AtpSettings *settings, const struct varlena *did);
extern bool atp_wants_collection(const AtpSettings *settings, AtpSpan collection);

#endif							/* ATP_FORMAT_H */
