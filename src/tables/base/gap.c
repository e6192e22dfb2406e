/*
 * gap.c
 *		Gaps of a stream (rows of atproto.gap): gaps whose events are read again, and held events that were dropped.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/base/gap.h"

/* The reason of a gap of held events that were dropped without a mark on a repository's row. */
#define DROPPED		"'held events dropped'"

/* The reason of a gap of dead letters that were deleted with the subscription, without a mark on a repository's row. */
#define LETTERS		"'dead letters dropped'"

/* A subscription has so many open gaps of a stream; then the newest gap grows.  Servers tell of gaps, so their number is not bounded by us. */
#define GAPS_MAX	"10000"

/* So many labelers have gaps of their own in a subscription; the dropped labels of all others are counted in one row. */
#define LABELERS_MAX	"1000"

/*
 * SQL: the position of a held event in its stream.  Operations of version 1 of Jetstream have a hash in place of the
 * position (number_of() of held.c): there the position is in the message, before all that an account can write.
 */
#define POSITION	"CASE WHEN " ATP_SQL_REWINDS \
	" THEN COALESCE(substring(encode(substring(bytes FROM 1 FOR 4096), 'escape') FROM '^[{][^{}]*\"time_us\": *([0-9]{1,18})[^0-9]')::bigint," \
	"  (extract(epoch FROM held_at) * 1000000)::bigint) ELSE seq END"

/*
 * Closes the gaps that the cursors of the subscription have passed again.  A row may hold any numbers, since the
 * subscription's owner may write gaps by hand.  again_since is infinity until the oldest event of the server has
 * come.  A gap that another session has locked stays open and is looked at the next time: waiting for the session
 * could be a deadlock.
 */
static void
close_read(const char *name)
{
	atp_run_unnamed("UPDATE atproto.gap SET closed_at = now(), closed_how = 'read again' WHERE id IN"
					" (SELECT g.id FROM atproto.gap g JOIN (SELECT endpoint, min(seq) AS seq, max(read_from) AS read_from FROM atproto.cursor WHERE subscription = $1"
					"   GROUP BY endpoint) c USING (endpoint)"
					"  WHERE g.subscription = $1 AND g.closed_at IS NULL AND isfinite(g.again_since)"
					"  AND g.before_seq IS NOT NULL AND c.seq >= GREATEST(g.before_seq, 0) - 1 AND c.read_from <= g.after_seq"
					"  FOR NO KEY UPDATE OF g SKIP LOCKED)",
					ATP_ARGS(atp_text_arg(name)));
}

void
atp_gap_cursor_set(const char *name, int64 seq)
{
	close_read(name);
	/*
	 * The new position is in the stretch that the cursor has read without a jump, beginning before the gap: the gap
	 * stays marked as being read again.  For any other position nobody knows, so the mark is removed.
	 */
	atp_run_unnamed("UPDATE atproto.gap g SET again_since = NULL"
					" FROM atproto.subscription s, LATERAL (SELECT min(seq) AS seq, max(read_from) AS read_from FROM atproto.cursor"
					"  WHERE subscription = s.name AND endpoint = s.endpoint) c"
					" WHERE s.name = $1 AND g.subscription = s.name AND g.endpoint = s.endpoint AND g.closed_at IS NULL"
					"  AND g.again_since IS NOT NULL AND ($2 BETWEEN 1 AND c.seq AND c.read_from <= g.after_seq) IS NOT TRUE",
					ATP_ARGS(atp_text_arg(name), atp_int8_arg(seq)));
}

void
atp_gap_read_again(const char *name, int64 seq)
{
	atp_run_unnamed("UPDATE atproto.gap g SET again_since = CASE WHEN $2 = 0 THEN 'infinity' ELSE now() END"
					" FROM atproto.subscription s"
					" WHERE s.name = $1 AND g.subscription = s.name AND g.endpoint = s.endpoint AND g.closed_at IS NULL"
					"  AND ($2 = 0 OR g.after_seq >= $2)",
					ATP_ARGS(atp_text_arg(name), atp_int8_arg(seq)));
}

void
atp_gap_read_by_another(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("UPDATE atproto.gap g SET again_since = NULL FROM atproto.subscription s, atproto.subscription o"
			" WHERE s.name = $1 AND o.target = s.target AND o.name <> s.name"
			" AND g.subscription = o.name AND g.closed_at IS NULL AND g.again_since IS NOT NULL",
			ATP_ARGS(atp_text_arg(name)));
	atp_owner_end(caller);
}

AtpGapWatch
atp_gap_watch(const char *name, const char *endpoint, int64 cursor)
{
	AtpCaller	caller = atp_as_table_owner("gap");
	AtpResult	found = atp_query("SELECT count(*) > 0 AS open,"
								  " COALESCE(min(GREATEST(before_seq, 0) - 1) FILTER (WHERE isfinite(again_since) AND GREATEST(before_seq, 0) - 1 > $3), -1) AS next,"
								  " COALESCE((SELECT min(left_at) FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2), -1) AS left_at"
								  " FROM atproto.gap WHERE subscription = $1 AND endpoint = $2 AND closed_at IS NULL",
								  ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(cursor)));
	AtpTuple	row = atp_result_row(found, 0);
	AtpGapWatch watch = {.open = atp_get_bool(row, "open"), .next = atp_get_int8(row, "next"), .left = atp_get_int8(row, "left_at")};

	atp_result_free(found);
	atp_owner_end(caller);
	return watch;
}

void
atp_gap_begins(const char *name, const char *endpoint, int64 first)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("UPDATE atproto.gap SET again_since = CASE WHEN after_seq >= $3 - 1 THEN now() END WHERE id IN"
			" (SELECT id FROM atproto.gap WHERE subscription = $1 AND endpoint = $2 AND closed_at IS NULL"
			"  AND again_since = 'infinity' FOR NO KEY UPDATE SKIP LOCKED)",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(first)));
	atp_owner_end(caller);
}

void
atp_gap_close(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	close_read(name);
	atp_owner_end(caller);
}

bool
atp_gap_grow(const char *name, const char *endpoint, int64 after, int64 before)
{
	AtpCaller	caller = atp_as_table_owner("gap");
	bool		grown = atp_run("UPDATE atproto.gap SET after_seq = LEAST(after_seq, $3), before_seq = GREATEST(before_seq, $4), detected_at = now(), again_since = NULL"
								" WHERE id = (SELECT max(id) FROM atproto.gap WHERE subscription = $1 AND endpoint = $2 AND closed_at IS NULL AND before_seq IS NOT NULL AND events IS NULL"
								"  HAVING count(*) >= " GAPS_MAX ")",
								ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(after), atp_int8_arg(before))) > 0;

	atp_owner_end(caller);
	return grown;
}

void
atp_gap_missed(const char *name, const char *endpoint, int64 after, int64 before)
{
	AtpCaller	caller;

	if (atp_gap_grow(name, endpoint, after, before))
		return;
	caller = atp_as_table_owner("gap");
	atp_run("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) SELECT $1, $2, $3, $4, 'OutdatedCursor'"
			" WHERE NOT EXISTS (SELECT FROM atproto.gap WHERE subscription = $1 AND endpoint = $2 AND after_seq = $3 AND before_seq = $4"
			"  AND closed_at IS NULL AND again_since IS NULL)",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(after), atp_int8_arg(before)));
	atp_owner_end(caller);
}

/* Add the events to the open row of this labeler, or to the row for all; false: there is no such row. */
static bool
add_lost(const AtpApply *a, AtpArg src, const AtpLost *lost)
{
	return atp_run(atp_identity_sql("UPDATE atproto.gap SET events = events + $4, detected_at = now(),"
								 " after_seq = LEAST(after_seq, $5 - 1), before_seq = GREATEST(before_seq, $6 + 1)"
								 " WHERE subscription = $1 AND endpoint = $2 AND target = $7::name AND reason = " DROPPED " AND closed_at IS NULL"
								 " AND (did OPERATOR(@.=) $3 OR (did IS NULL AND $3 IS NULL))"),
				ATP_ARGS(atp_text_arg(a->sub->name), atp_text_arg(a->sub->ep->scope), src, atp_int8_arg(lost->events),
						 atp_int8_arg(lost->first), atp_int8_arg(lost->last), atp_text_arg(a->sub->target))) > 0;
}

/* Strangers make labelers, so only so many have rows of their own. */
static bool
labelers_are_many(const AtpApply *a)
{
	return atp_run("SELECT FROM atproto.gap WHERE subscription = $1 AND reason = " DROPPED " AND closed_at IS NULL AND did IS NOT NULL OFFSET " LABELERS_MAX " - 1 LIMIT 1",
				   ATP_ARGS(atp_text_arg(a->sub->name))) > 0;
}

void
atp_gap_lost(AtpApply *a, struct varlena *did, const AtpLost *lost)
{
	AtpCaller	caller;
	AtpArg		src = atp_did_arg(did);
	bool		there;

	if (lost->events == 0)
		return;
	caller = atp_as_table_owner("gap");
	there = add_lost(a, src, lost);
	if (!there && did != NULL && labelers_are_many(a))
	{
		src = atp_did_arg(NULL);
		there = add_lost(a, src, lost);
	}
	if (!there)
		atp_run("INSERT INTO atproto.gap (subscription, endpoint, did, events, after_seq, before_seq, reason, target)"
				" VALUES ($1, $2, $3, $4, $5 - 1, $6 + 1, " DROPPED ", $7::name)",
				ATP_ARGS(atp_text_arg(a->sub->name), atp_text_arg(a->sub->ep->scope), src, atp_int8_arg(lost->events),
						 atp_int8_arg(lost->first), atp_int8_arg(lost->last), atp_text_arg(a->sub->target)));
	atp_owner_end(caller);
}

void
atp_gap_erased(const AtpApply *a, struct varlena *did, Datum takes)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run(atp_identity_sql("WITH lost AS (SELECT subscription, endpoint, count(*) AS events, min(" POSITION ") - 1 AS after_seq, max(" POSITION ") + 1 AS before_seq"
							 "  FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) $2 AND kind = 'repo' AND subscription = ANY ($3)"
							 "  GROUP BY subscription, endpoint),"
							 " added AS (UPDATE atproto.gap g SET events = g.events + l.events, detected_at = now(),"
							 "  after_seq = LEAST(g.after_seq, l.after_seq), before_seq = GREATEST(g.before_seq, l.before_seq)"
							 "  FROM lost l WHERE g.subscription = l.subscription AND g.endpoint = l.endpoint AND g.target = $1::name"
							 "  AND g.reason = " DROPPED " AND g.closed_at IS NULL AND g.did IS NULL RETURNING l.subscription, l.endpoint)"
							 " INSERT INTO atproto.gap (subscription, target, endpoint, events, after_seq, before_seq, reason)"
							 " SELECT l.subscription, $1::name, l.endpoint, l.events, l.after_seq, l.before_seq, " DROPPED " FROM lost l"
							 "  WHERE NOT EXISTS (SELECT FROM added d WHERE d.subscription = l.subscription AND d.endpoint = l.endpoint)"),
			ATP_ARGS(atp_text_arg(a->sub->target), atp_did_arg(did),
					 (AtpArg) {takes, TEXTARRAYOID, false}));
	atp_owner_end(caller);
}

void
atp_gap_left(const AtpSubscription *sub, bool removed)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("INSERT INTO atproto.gap (subscription, target, endpoint, did, events, after_seq, before_seq, reason)"
			" SELECT CASE WHEN NOT $3 THEN $1 END, target, endpoint, CASE WHEN kind = 'label' THEN did END,"
			"  count(*), min(" POSITION ") - 1, max(" POSITION ") + 1, " DROPPED
			" FROM atproto.held_event WHERE subscription = $1 AND target = $2::name"
			" GROUP BY target, endpoint, CASE WHEN kind = 'label' THEN did END",
			ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->target), atp_bool_arg(removed)));
	atp_owner_end(caller);
}

void
atp_gap_letters(const AtpSubscription *sub, bool removed)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("INSERT INTO atproto.gap (subscription, target, endpoint, events, after_seq, before_seq, reason)"
			" SELECT CASE WHEN NOT $3 THEN $1 END, $2::name, $4, count(*), GREATEST(min(seq), 1) - 1, max(seq) FILTER (WHERE seq < 9223372036854775807) + 1, " LETTERS
			" FROM atproto.dead_letter WHERE subscription = $1",
			ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->target), atp_bool_arg(removed), atp_text_arg(sub->ep->scope)));
	atp_owner_end(caller);
}

/*
 * The roles that use the target's schema see a row with the target.  So events must not be NULL: the owner of a subscription may insert
 * gaps with these reasons, but has no privilege to write the columns events and target (doc/operate/operations.md).
 */
void
atp_gap_keep(const AtpSubscription *sub)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("UPDATE atproto.gap SET subscription = NULL, target = COALESCE(target, $2::name)"
			" WHERE subscription = $1 AND reason IN (" DROPPED ", " LETTERS ") AND closed_at IS NULL AND events IS NOT NULL",
			ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->target)));
	atp_owner_end(caller);
}
