/*
 * dead_letter.c
 *		Dead letters: the rows of atproto.dead_letter and atproto.dead_frame.
 *
 * The bytes of a message are stored once in atproto.dead_frame, however many letters refer to the message.  A
 * repository gets only a share of the subscription's limits, so that no account can use them up: the letters
 * beyond the share become one letter of stage beyond, without bytes, and the repository is marked (not by an
 * export).  Replaying a letter is dead_letter_retry.c's task.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "common/sha256.h"
#include "source.h"
#include "tables/base/error_class.h"
#include "tables/records/sweep_deletion.h"
#include "tables/repos/dead_letter.h"
#include "tables/repos/repo.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_dead_letter_removed);

/* One repository may use max_dead_letters and max_dead_letter_bytes divided by this. */
#define SHARE	20

#define SHA256_LEN	32

/* subscription, digest, path, seq, stage, sqlstate, message, did */
#define LETTER_ARGS \
	{ATP_TYPE_TEXT, ATP_TYPE_BYTEA, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_DID}

/*
 * Sequence numbers of different streams cannot be compared.  True if letter d came in stream "endpoint": its message
 * says that.  A letter of stage beyond has no message: then all letters of its repository that have one must be of this
 * stream.
 */
#define OF_STREAM(endpoint) \
	"NOT EXISTS (SELECT FROM atproto.dead_letter o JOIN atproto.dead_frame f ON f.subscription = o.subscription AND f.digest = o.digest" \
	"  JOIN atproto.subscription s ON s.name = o.subscription WHERE o.subscription = d.subscription" \
	"  AND (o.id = d.id OR (d.digest IS NULL AND o.did OPERATOR(@.=) d.did)) AND COALESCE(f.endpoint, s.endpoint) IS DISTINCT FROM " endpoint ")"

enum
{
	COUNT_LETTERS,				/* -> letters, bytes */
	COUNT_LETTERS_OF,			/* did -> letters, bytes */
	FIND_FRAME,					/* digest */
	ADD_FRAME,
	REPEAT_LETTER,
	REPEAT_SIGNATURE,			/* did, seq, message */
	ADD_LETTER,
	REPEAT_BEYOND,				/* did, seq, how many */
	ADD_BEYOND,
	FORGET_LETTERS,				/* columns of atp_dead_letters_forget() */
	FORGET_REPO,				/* did */
	SUPERSEDE					/* target, columns of what was removed, subscription, by an export? */
};

static const AtpStatement statements[] = {
	[COUNT_LETTERS] = {
		"SELECT (SELECT count(*) FROM atproto.dead_letter WHERE subscription = $1),"
		" (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.dead_frame WHERE subscription = $1)",
		SPI_OK_SELECT, {ATP_TYPE_TEXT}, {ATP_TYPE_INT8, ATP_TYPE_INT8}
	},
	[COUNT_LETTERS_OF] = {
		"WITH d AS (SELECT digest FROM atproto.dead_letter WHERE subscription = $1 AND did OPERATOR(@.=) $2)"
		" SELECT (SELECT count(*) FROM d), (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint"
		"  FROM atproto.dead_frame WHERE subscription = $1 AND digest IN (SELECT digest FROM d))",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_DID}, {ATP_TYPE_INT8, ATP_TYPE_INT8}
	},
	[FIND_FRAME] = {
		"SELECT FROM atproto.dead_frame WHERE subscription = $1 AND digest = $2",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_BYTEA}
	},
	[ADD_FRAME] = {
		/* WHERE false: an existing row is locked, but not changed */
		"INSERT INTO atproto.dead_frame AS f (subscription, digest, bytes, format, endpoint) VALUES ($1, $2, $3, $4, $5)"
		" ON CONFLICT (subscription, digest) DO UPDATE SET bytes = f.bytes WHERE false",
		SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_BYTEA, ATP_TYPE_BYTEA, ATP_TYPE_TEXT, ATP_TYPE_TEXT}
	},
	[REPEAT_LETTER] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), seq = $4,"
		" stage = $5, sqlstate = $6, message = $7, did = $8"
		" WHERE subscription = $1 AND digest = $2 AND path = $3",
		SPI_OK_UPDATE, LETTER_ARGS
	},
	[REPEAT_SIGNATURE] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), seq = $3"
		" WHERE subscription = $1 AND did OPERATOR(@.=) $2 AND stage = 'signature' AND message = $4",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_INT8, ATP_TYPE_TEXT}
	},
	[ADD_LETTER] = {
		"INSERT INTO atproto.dead_letter (subscription, digest, path, seq, stage, sqlstate, message, did)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
		/* the conflict target leaves out id: a duplicate id, inserted by a user, is an error */
		" ON CONFLICT (subscription, digest, path) DO NOTHING",
		SPI_OK_INSERT, LETTER_ARGS
	},
	[REPEAT_BEYOND] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + $4, last_at = now(), seq = $3"
		" WHERE subscription = $1 AND did OPERATOR(@.=) $2 AND stage = 'beyond'",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_INT8, ATP_TYPE_INT8}
	},
	[ADD_BEYOND] = {
		"INSERT INTO atproto.dead_letter (subscription, did, seq, attempts, stage, sqlstate, message)"
		" VALUES ($1, $2, $3, $4, 'beyond', '54000',"
		"  'this repository has its share of the dead letters: what else of it could not be processed is not kept')"
		" ON CONFLICT (subscription, did) WHERE stage = 'beyond' DO NOTHING",
		SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_INT8, ATP_TYPE_INT8}
	},
	[FORGET_LETTERS] = {
		/* without a number: the letter is about a record of an export */
		"DELETE FROM atproto.dead_letter d USING unnest($1, $2, $3, $4, $5, $6) u (did, path, seq, newer, subscription, endpoint)"
		" WHERE d.subscription = u.subscription AND d.did OPERATOR(@.=) u.did"
		" AND ((d.seq < u.seq AND " OF_STREAM("u.endpoint") ") OR (d.seq IS NULL AND u.newer))"
		" AND (u.path IS NULL OR d.path = u.path)",
		SPI_OK_DELETE,
		{ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_INT8), ATP_ARRAY(ATP_TYPE_BOOL), ATP_ARRAY(ATP_TYPE_TEXT),
		ATP_ARRAY(ATP_TYPE_TEXT)}
	},
	[FORGET_REPO] = {
		"DELETE FROM atproto.dead_letter WHERE subscription = $1 AND did OPERATOR(@.=) $2 AND " ATP_SQL_LACKING,
		SPI_OK_DELETE, {ATP_TYPE_TEXT, ATP_TYPE_DID}
	},
	[SUPERSEDE] = {
		"UPDATE atproto.dead_letter d SET superseded_rev = l.rev"
		" FROM (SELECT DISTINCT ON (o.id) o.id, u.rev FROM unnest($2, $3, $4) u (did, path, rev)"
		"  JOIN atproto.dead_letter o ON o.did OPERATOR(@.=) u.did"
		"   AND CASE WHEN u.path IS NULL THEN o.path NOT LIKE '#%' ELSE o.path = u.path END"
		"  JOIN atproto.subscription s ON s.name = o.subscription AND s.target = $1::name"
		"   AND (o.seq IS NOT NULL OR (o.subscription <> $5 AND $6))"
		"  ORDER BY o.id, u.rev DESC) l"
		" WHERE d.id = l.id AND (d.superseded_rev IS NULL OR d.superseded_rev OPERATOR(@.<) l.rev)",
		SPI_OK_UPDATE,
		{ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TID), ATP_TYPE_TEXT, ATP_TYPE_BOOL}
	},
};

typedef struct Room
{
	int64		letters;
	int64		bytes;
} Room;

typedef struct Letters
{
	AtpApply   *apply;
	const AtpSettings *settings;	/* of the subscription with the letters */
	Datum		subscription;
	Room		all;			/* used by all letters of the subscription */
	/* state of the loop over the letters: the last letter's repository and message */
	struct varlena *did;		/* NULL: unknown */
	Room		of_did;			/* used by this repository's letters */
	int64		beyond;			/* number of the repository's letters beyond the share */
	int64		beyond_seq;		/* seq of the last letter beyond the share */
	AtpBytes	message;
	bytea	   *digest;
	bool		stored;			/* atproto.dead_frame has the message ... */
	bool		locked;			/* ... and this transaction has locked the row: a message with ten thousand letters is copied once */
} Letters;

static Room
read_room(const AtpApply *a, int statement, Datum *args)
{
	Room		room;
	bool		isnull;

	(void) atp_execute(a->statements, &statements[statement], args, NULL);
	room.letters = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	room.bytes = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return room;
}

static void
no_room(const Letters *l)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg("there is no room for another dead letter"),
			 errdetail("It is a letter of atproto subscription \"%s\".", TextDatumGetCString(l->subscription)),
			 errhint("Remove dead letters, or increase \"%s\" or \"%s\".", "max_dead_letters", "max_dead_letter_bytes")));
}

static void
mark_repo(AtpApply *a, int unused, int unused2)
{
	atp_repo_mark(a, a->repo);
}

void
atp_mark_repo(AtpApply *a, struct varlena *did)
{
	a->repo = did;
	/* if the database refuses the mark, the dead letter still records the problem */
	if (a->sink->uses & ATP_USE_REPOS)
		(void) atp_attempt(a, mark_repo, 0, 0);
}

/* Write the letter of stage beyond for the last repository, and mark the repository, unless the letter is about an export. */
static void
store_beyond(Letters *l)
{
	Datum		args[4] = {
		l->subscription, PointerGetDatum(l->did), Int64GetDatum(l->beyond_seq), Int64GetDatum(l->beyond)
	};

	const char *nulls = l->beyond_seq > 0 ? "    " : "  n ";

	if (l->beyond == 0)
		return;
	if (atp_execute(l->apply->statements, &statements[REPEAT_BEYOND], args, nulls) == 0)
	{
		if (l->all.letters >= l->settings->max_dead_letters)
			no_room(l);
		l->all.letters++;
		(void) atp_execute(l->apply->statements, &statements[ADD_BEYOND], args, nulls);
	}
	/*
	 * Letters without a seq are about records of an export.  At the export's end the repository is synchronized, with or
	 * without letters; a mark would have the export fetched once more, in vain.
	 */
	if (l->beyond_seq > 0)
		atp_mark_repo(l->apply, l->did);
	l->beyond = 0;
}

static void
follow_repo(Letters *l, struct varlena *did)
{
	Datum		args[2] = {l->subscription, PointerGetDatum(did)};

	/* the same repository as the last letter's: its letters are counted already */
	if (did == l->did || (did != NULL && l->did != NULL && atp_compare_dids(did, l->did) == 0))
		return;
	store_beyond(l);
	l->did = did;
	if (did != NULL)
		l->of_did = read_room(l->apply, COUNT_LETTERS_OF, args);
}

static void
follow_message(Letters *l, AtpBytes message)
{
	Datum		args[2];

	if (l->message.ptr != NULL && message.ptr == l->message.ptr && message.len == l->message.len)
		return;
	l->message = message;
	SET_VARSIZE(l->digest, VARHDRSZ + SHA256_LEN);
	atp_sha256(NULL, message.ptr, message.len, (uint8_t *) VARDATA(l->digest));
	args[0] = l->subscription;
	args[1] = PointerGetDatum(l->digest);
	l->stored = atp_execute(l->apply->statements, &statements[FIND_FRAME], args, NULL) > 0;
	l->locked = false;
	SPI_freetuptable(SPI_tuptable);
}

/* Has the letter's repository used up its share?  The first message of a repository is kept, however long. */
static bool
is_beyond(const Letters *l, int64 bytes)
{
	const AtpSettings *settings = l->settings;

	return l->did != NULL &&
		(l->of_did.letters >= Max(settings->max_dead_letters / SHARE, 1) ||
		 (bytes > 0 && l->of_did.bytes > 0 && l->of_did.bytes + bytes > settings->max_dead_letter_bytes / SHARE));
}

/* The held event that the letter is about; NULL: not a held event.  A different subscription may have received the event. */
static const AtpHeldRow *
held_of(const AtpDeadLetter *letter)
{
	return letter->event == NULL ? NULL : letter->event->held;
}

static void
store_frame(Letters *l, const AtpDeadLetter *letter)
{
	const AtpSubscription *sub = l->apply->sub;
	const AtpHeldRow *held = held_of(letter);
	bytea	   *bytes = atp_varlena(l->message.ptr, l->message.len);
	Datum		args[5] = {
		l->subscription, PointerGetDatum(l->digest), PointerGetDatum(bytes),
		CStringGetTextDatum(held != NULL ? held->source->format_name : sub->source->format_name),
		held != NULL && held->endpoint != NULL ? PointerGetDatum(held->endpoint) : CStringGetTextDatum(atp_apply_endpoint(l->apply)->scope)
	};

	/* even if the row exists: the statement locks the row, so no session deletes it before the letter is inserted */
	(void) atp_execute(l->apply->statements, &statements[ADD_FRAME], args, NULL);
	pfree(bytes);
}

/*
 * V-48: each repository and key has a single letter of stage signature (the letter's text contains the key).  If the
 * letter exists, only count this event.
 */
static bool
repeats_signature(Letters *l, const AtpDeadLetter *letter)
{
	Datum		args[4] = {
		l->subscription, PointerGetDatum(letter->did), Int64GetDatum(letter->seq), CStringGetTextDatum(letter->text)
	};

	return letter->stage == atp_stage_signature &&
		atp_execute(l->apply->statements, &statements[REPEAT_SIGNATURE], args, NULL) > 0;
}

/*
 * A new letter about a record of an event that the repository had passed: the event's other records were not written,
 * and a newer commit, which this source has not brought yet, may have removed this one.  retry() must not write the record.
 * The owner of a subscription has no right on this column.
 */
static void
supersede_late(const Letters *l, const AtpDeadLetter *letter, Datum path)
{
	AtpCaller	caller;

	if (letter->event == NULL || !letter->event->effects.passed || letter->path.len == 0)
		return;
	caller = atp_as_table_owner("dead_letter");
	atp_run(atp_identity_sql("UPDATE atproto.dead_letter SET superseded_rev = $4 WHERE subscription = $1 AND digest = $2 AND path = $3"),
			ATP_ARGS((AtpArg) {l->subscription, TEXTOID, false}, (AtpArg) {PointerGetDatum(l->digest), BYTEAOID, false},
					 (AtpArg) {path, TEXTOID, false},
					 (AtpArg) {AtpTidGetDatum(letter->event->rev), atp_element(l->apply->statements, ATP_TYPE_TID), false}));
	atp_owner_end(caller);
}

static void
store_letter(Letters *l, const AtpDeadLetter *letter)
{
	const AtpSettings *settings = l->settings;
	int64		bytes;
	Datum		args[8];
	char		nulls[9] = "        ";

	if (repeats_signature(l, letter))
		return;
	follow_repo(l, letter->did);
	follow_message(l, letter->message);
	args[0] = l->subscription;
	args[1] = PointerGetDatum(l->digest);
	args[2] = PointerGetDatum(cstring_to_text_with_len(letter->path.ptr ? letter->path.ptr : "",
													   letter->path.len));
	args[3] = Int64GetDatum(letter->seq);
	args[4] = CStringGetTextDatum(letter->stage);
	args[5] = CStringGetTextDatum(letter->sqlstate);
	args[6] = CStringGetTextDatum(letter->text);
	args[7] = PointerGetDatum(letter->did);
	nulls[3] = letter->seq > 0 ? ' ' : 'n';
	nulls[7] = letter->did != NULL ? ' ' : 'n';
	/* an existing letter about this message and path only counts another attempt */
	if (l->stored && atp_execute(l->apply->statements, &statements[REPEAT_LETTER], args, nulls) > 0)
		return;

	bytes = l->stored ? 0 : l->message.len;
	if (is_beyond(l, bytes))
	{
		/* V-11: an unsigned event must not mark the repository, or strangers could mark any; skips count the event */
		if (letter->stage == atp_stage_signature)
			return;
		l->beyond++;
		l->beyond_seq = letter->seq;
		return;
	}
	if (l->all.letters >= settings->max_dead_letters || l->all.bytes + bytes > settings->max_dead_letter_bytes)
		no_room(l);
	if (!l->locked)
		store_frame(l, letter);
	l->stored = l->locked = true;
	(void) atp_execute(l->apply->statements, &statements[ADD_LETTER], args, nulls);
	supersede_late(l, letter, args[2]);
	l->all.letters++;
	l->all.bytes += bytes;
	l->of_did.letters++;
	l->of_did.bytes += bytes;
}

/* a letter belongs to the subscription that received the event.  Returns the subscription's name. */
static const char *
receiver_of(const AtpApply *a, const AtpDeadLetter *letter)
{
	const AtpHeldRow *held = held_of(letter);

	return held == NULL ? a->sub->name : text_to_cstring(held->subscription);
}

/*
 * the limits of the subscription that owns the letters apply.  The subscription has a row normally: a removed
 * subscription has handed over or dropped its held events (held_leave.c).
 */
static const AtpSettings *
settings_of(const AtpApply *a, const char *name)
{
	AtpCaller	caller;
	const AtpSubscription *sub;

	if (strcmp(name, a->sub->name) == 0)
		return &a->sub->settings;
	caller = atp_as_table_owner("subscription");
	sub = atp_subscription_get(name, CurrentMemoryContext);
	atp_owner_end(caller);
	return sub == NULL ? &a->sub->settings : &sub->settings;
}

/* Store the letters of the subscription with this name. */
static void
store_letters(AtpApply *a, List *letters, const char *name)
{
	Letters		l = {.apply = a, .settings = settings_of(a, name)};
	MemoryContext cxt;
	MemoryContext old;
	ListCell   *lc;

	l.subscription = CStringGetTextDatum(name);
	l.digest = palloc(VARHDRSZ + SHA256_LEN);
	l.all = read_room(a, COUNT_LETTERS, &l.subscription);
	/* free the memory after each letter, since a batch may have very many */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto dead letter", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	foreach(lc, letters)
	{
		store_letter(&l, lfirst(lc));
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	store_beyond(&l);
}

void
atp_dead_letters_store(AtpApply *a, List *letters)
{
	/* a pass for each receiving subscription, usually only a->sub */
	while (letters != NIL)
	{
		const char *name = receiver_of(a, linitial(letters));
		List	   *own = NIL;
		List	   *others = NIL;
		ListCell   *lc;

		foreach(lc, letters)
			if (strcmp(receiver_of(a, lfirst(lc)), name) == 0)
				own = lappend(own, lfirst(lc));
			else
				others = lappend(others, lfirst(lc));
		store_letters(a, own, name);
		letters = others;
	}
}

void
atp_dead_letters_forget(AtpApply *a, const AtpRows *overtaken)
{
	Datum		args[6];

	atp_rows_bind(overtaken, args);
	(void) atp_execute(a->statements, &statements[FORGET_LETTERS], args, NULL);
}

void
atp_dead_letters_forget_account(const char *subscription, struct varlena *did, AtpArg endpoint, AtpArg seq)
{
	/* a letter about a record of an export has no number */
	atp_run(atp_identity_sql("DELETE FROM atproto.dead_letter d WHERE subscription = $1 AND did OPERATOR(@.=) $2"
							 " AND (seq IS NULL OR $4 IS NULL OR (seq < $4 AND " OF_STREAM("$3") "))"),
			ATP_ARGS(atp_text_arg(subscription), atp_did_arg(did), endpoint, seq));
}

/*
 * atproto.retry() must not bring back a record that any subscription of the target has removed since.  A letter cannot
 * simply be deleted here: only the letter's message tells whether the letter is older than the removal.  So the
 * removal's revision is noted in superseded_rev, and atproto.retry() compares.  Without matching letters nothing is
 * written.
 *
 * A letter about a record of an export (without a seq) is only superseded by a later export, of another subscription: the
 * subscription's own letters are deleted when its next export begins.  retry() leaves such letters alone; but
 * superseded_rev tells whether the tables still lack the record (held_leave.c).
 */
static void
supersede_letters(AtpApply *a, const AtpRows *removed, bool by_export)
{
	Datum		args[6];
	AtpCaller	caller;

	if (removed->n == 0)
		return;
	args[0] = CStringGetTextDatum(atp_target(a->statements));
	atp_rows_bind(removed, &args[1]);
	args[4] = CStringGetTextDatum(a->sub->name);
	args[5] = BoolGetDatum(by_export);
	/* as the table's owner: row level security would hide the letters of foreign subscriptions */
	caller = atp_as_table_owner("dead_letter");
	(void) atp_execute(a->statements, &statements[SUPERSEDE], args, NULL);
	atp_owner_end(caller);
}

void
atp_dead_letters_supersede(AtpApply *a, const AtpRows *removed)
{
	supersede_letters(a, removed, false);
}

void
atp_dead_letters_supersede_within(AtpApply *a, struct varlena *did, uint64 rev)
{
	text	   *filter = atp_sweep_filter(&a->sub->settings);
	AtpCaller	caller = atp_as_table_owner("dead_letter");

	atp_run(atp_identity_sql("UPDATE atproto.dead_letter d SET superseded_rev = $3 FROM atproto.subscription s"
							 " WHERE s.name = d.subscription AND s.target = $1::name AND d.did OPERATOR(@.=) $2 AND d.path NOT LIKE '#%' AND d.seq IS NOT NULL"
							 " AND " ATP_SQL_ARCHIVED("split_part(d.path, '/', 1)", "split_part(d.path, '/', 2)", "$4")
							 " AND (d.superseded_rev IS NULL OR d.superseded_rev OPERATOR(@.<) $3)"),
			ATP_ARGS(atp_text_arg(atp_target(a->statements)), (AtpArg) {PointerGetDatum(did), atp_element(a->statements, ATP_TYPE_DID), false},
					 (AtpArg) {AtpTidGetDatum(rev), atp_element(a->statements, ATP_TYPE_TID), false},
					 (AtpArg) {PointerGetDatum(filter), TEXTOID, filter == NULL}));
	atp_owner_end(caller);
}

void
atp_dead_letters_supersede_repo(AtpApply *a, struct varlena *did, uint64 rev)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_TID, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(a->statements, types, 1);

	atp_put_ref(rows, did);
	atp_put_ref(rows, NULL);
	atp_put(rows, AtpTidGetDatum(rev), false);
	supersede_letters(a, rows, true);
}

void
atp_dead_letters_forget_repo(AtpApply *a, struct varlena *did)
{
	Datum		args[2] = {CStringGetTextDatum(a->sub->name), PointerGetDatum(did)};

	(void) atp_execute(a->statements, &statements[FORGET_REPO], args, NULL);
}

/* SQL: atproto_internal.dead_letter_removed(), AFTER DELETE or TRUNCATE, for each statement */
Datum
atp_dead_letter_removed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	/*
	 * Two sessions may delete the last two letters of a message at the same time.  Without this lock each would still see
	 * the letter that the concurrent session deletes, and the message would stay forever.
	 */
	static const char *const lock =
		"SELECT FROM atproto.dead_frame f"
		" WHERE (f.subscription, f.digest) IN (SELECT g.subscription, g.digest FROM gone g)"
		" ORDER BY f.subscription, f.digest FOR UPDATE OF f";
	static const char *const sweep =
		"DELETE FROM atproto.dead_frame f"
		" WHERE (f.subscription, f.digest) IN (SELECT g.subscription, g.digest FROM gone g)"
		" AND NOT EXISTS (SELECT FROM atproto.dead_letter d WHERE d.subscription = f.subscription AND d.digest = f.digest)";

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the statement", "dead_letter_removed")));
	SPI_connect();
	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		atp_run("DELETE FROM atproto.dead_frame", ATP_NO_ARGS);
	else if (tuplestore_tuple_count(trigger->tg_oldtable) > 0)
	{
		if (SPI_register_trigger_data(trigger) != SPI_OK_TD_REGISTER)
			elog(ERROR, "could not read the dead letters that were removed");
		atp_run(lock, ATP_NO_ARGS);
		atp_run(sweep, ATP_NO_ARGS);
	}
	SPI_finish();
	return PointerGetDatum(NULL);
}
