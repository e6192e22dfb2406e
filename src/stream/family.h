/*
 * family.h
 *		What differs between streams: how their messages are read, and which
 *		tables they fill.  One family for each kind of stream; private to
 *		decode*.c, apply*.c and what they use.
 */
#ifndef ATP_FAMILY_H
#define ATP_FAMILY_H

#include "postgres.h"

#include "config/subscription.h"
#include "core/car.h"
#include "core/frame.h"
#include "core/labels_message.h"
#include "core/repos_message.h"
#include "stream/batch.h"
#include "stream/decode.h"

/* What decode.c needs to know of a message before its rows are made. */
typedef struct AtpHead
{
	enum
	{
		ATP_HEAD_EVENT,
		ATP_HEAD_INFO,			/* carries no seq (E-42) */
		ATP_HEAD_UNKNOWN		/* moves the cursor when it has a seq */
	}			what;
	int64		seq;			/* 0: none */
	AtpSpan		time;			/* RFC 3339; ptr NULL: none */
	uint64		rev;			/* of a repository; 0: none */
	AtpSpan		repo;			/* the DID whose events must keep their order; ptr NULL: none */
	AtpSpan		info;			/* name of an ATP_HEAD_INFO */
} AtpHead;

struct AtpDecoder
{
	MemoryContext cxt;
	const struct AtpFamily *family;
	const AtpSettings *settings;
	/* the message being read */
	AtpFrame	frame;
	union
	{
		AtpReposMessage		repos;
		AtpLabelsMessage labels;
	}			msg;
	AtpCarIndex index;
};

/* Where what a dead letter is about stands, by what is in the tables now. */
typedef enum AtpAgain
{
	ATP_AGAIN_NEW,				/* it is newer than all of that */
	ATP_AGAIN_LAST,				/* nothing newer is known, but all else of it may be there */
	ATP_AGAIN_LATE,				/* newer events were applied */
	ATP_AGAIN_OBSOLETE,			/* what is there is as new */
	ATP_AGAIN_MISSING,			/* of a row: it is not there */
	ATP_AGAIN_INACTIVE			/* the repository is not active */
} AtpAgain;

/* A batch on its way into the tables. */
typedef struct Apply
{
	const AtpSubscription *sub;
	const struct AtpFamily *family;
	AtpBatch   *batch;
	int64		rows;			/* applied */
	int64		idle;			/* of these, deletions of what was not there */
	bool		direct;			/* rows may go without statements where direct.h allows it */
	bool		accepted;		/* what accepts() said, as a step that can fail */
	bool		locked;			/* nothing was applied: somebody changes the cursor or the subscription */
	bool		again;			/* a dead letter: nothing that is as new is overwritten */
	AtpAgain	standing;		/* what again() said, likewise */
	struct varlena *repo;		/* to be marked, likewise */
	/* events of the batch that this transaction is about: [lo, hi) */
	int			lo;
	int			hi;
	int			kept;			/* subtransactions of it that are not rolled back */
	int			refused;		/* rows and events of it that are */
	int64		skips[ATP_SKIP_COUNT];
} Apply;

typedef struct AtpFamily
{
	int			uses;			/* which tables: ATP_USE_... of statements.h; record_event is left to the settings */

	/* Read the frame's payload.  ATP_E_SEQ_* is fatal to the connection. */
	AtpErr		(*parse) (AtpDecoder *decoder, AtpHead *head, size_t *at);

	/*
	 * Make the event's rows.  False: it is ignored, after a dead letter or
	 * because of the filters.  Only called when parse() was content.
	 */
	bool		(*make) (AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event);

	/* Apply events [lo, hi) of the batch, all or an ERROR. */
	void		(*apply) (Apply *a, int lo, int hi);

	/* One event in pieces, for when it fails as a whole: is it to be applied ... */
	bool		(*accepts) (Apply *a, int event);

	/* ... one of its rows ... */
	void		(*apply_row) (Apply *a, int row, int event);

	/* ... and what else it changes; NULL: nothing. */
	void		(*apply_rest) (Apply *a, int event, int unused);

	/* What a letter about the whole event has as its path; NULL: nothing. */
	AtpSpan		(*name) (const AtpEvent *event);

	/* After the dead letters of events [a->lo, a->hi) were stored: forget those that they overtook; or NULL. */
	void		(*settle) (Apply *a);

	/*
	 * A dead letter's event, and one of its rows (_NEW: what is there is older).
	 * Both lock what they look at.  NULL: always as if it came for the first time.
	 */
	AtpAgain	(*again) (Apply *a, int event);
	AtpAgain	(*again_row) (Apply *a, int row);
} AtpFamily;

extern const AtpFamily atp_repos_family;
extern const AtpFamily atp_labels_family;
extern const AtpFamily atp_message_family;

/* By the stream's NSID. */
extern const AtpFamily *atp_family_of(const char *nsid);

/* F-03: is a time, in microseconds since the Unix epoch, later than anybody's may be? */
extern bool atp_is_ahead(uint64 micros);

/* Helpers for make(). */
extern AtpLetter *atp_dead_letter(AtpBatch *batch, const char *stage, const AtpEvent *event,
								  AtpErr err, size_t at);
extern bytea *atp_bytea(const uint8_t *data, size_t len);

/*
 * A block or payload into jsonb, with its bytes where jsonb cannot hold it or
 * keep_raw asks for them.  Anything but ATP_OK: it is invalid.
 */
extern AtpErr atp_make_jsonb(AtpBytes data, bool keep_raw, Jsonb **value, bytea **raw, size_t *at);

/* The filters (F-14). */
extern bool atp_wants_did(const AtpSettings *settings, const struct varlena *did);
extern bool atp_wants_collection(const AtpSettings *settings, AtpSpan collection);

#endif							/* ATP_FAMILY_H */
