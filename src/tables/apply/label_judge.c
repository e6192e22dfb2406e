/*
 * label_judge.c
 *		At level full: verdicts on labels by their labelers' signatures (V-49, F-32).
 *
 * A labeler has no row that could be locked and could record that labels are held (a repository has); the rows
 * of atproto.held_event are the only record.  If two subscriptions fill a table, the first may overlook labels
 * that the second is about to hold.  Then labels are written out of their order, which does no harm: of two
 * labels with the same key, the later one wins in the table (F-33).
 */
#include "postgres.h"

#include "common/clock.h"
#include "identity/identity_log.h"
#include "tables/repos/held.h"
#include "tables/repos/admission_after.h"
#include "tables/apply/label_judge.h"
#include "types/types.h"

/* Identity and held labels of a labeler. */
typedef struct Labeler
{
	AtpIdentity who;
	AtpHeldCount held;
	AtpHeldOrder order;			/* of the labels that follow */
} Labeler;

typedef struct Labelers
{
	const AtpApply *apply;
	struct varlena **dids;
	int			n;
	Labeler    *list;
	TimestampTz now;
} Labelers;

/*
 * The identity of an account in its role as a labeler: only the label key counts, and a labeler needs neither a
 * repository key nor a PDS.  If the document lacks only these, the identity is good, and the look-up was a success.
 */
static AtpIdentity
as_labeler(AtpIdentity who)
{
	if ((who.state == ATP_IDENTITY_NO_KEY || who.state == ATP_IDENTITY_NO_PDS) && who.has_label_key)
	{
		who.state = ATP_IDENTITY_GOOD;
		if (who.resolved_at == who.asked_at)
			who.error = NULL;
	}
	who.has_key = who.has_label_key;
	memcpy(who.key, who.label_key, ATP_MULTIKEY_LEN);
	return who;
}

/* Read the identities and count the held labels of all labelers of these events. */
static void
read_labelers(Labelers *l, AtpApply *a, int lo, int hi)
{
	AtpIdentity *identities;
	AtpHeldCount *counts;
	int			n = 0;

	for (int i = lo; i < hi; i++)
		n += a->batch->events[i].nparts;
	l->apply = a;
	l->dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	l->n = 0;
	for (int i = lo; i < hi; i++)
		for (int p = 0; p < a->batch->events[i].nparts; p++)
			l->dids[l->n++] = a->batch->events[i].parts[p].did;
	l->n = atp_sort_dids(l->dids, l->n);
	l->list = palloc0(sizeof(Labeler) * Max(l->n, 1));
	if (l->n == 0)
		return;
	identities = palloc(sizeof(AtpIdentity) * l->n);
	counts = palloc(sizeof(AtpHeldCount) * l->n);
	l->now = atp_time_of_day();
	atp_identities_read(l->dids, l->n, identities);
	atp_identities_complete(l->dids, l->n, identities, l->now);
	atp_held_count(a, l->dids, l->n, counts);
	for (int i = 0; i < l->n; i++)
	{
		l->list[i].who = as_labeler(identities[i]);
		l->list[i].held = counts[i];
	}
}

static Labeler *
labeler_of(Labelers *l, const AtpEvent *part)
{
	struct varlena **place = bsearch(&part->did, l->dids, l->n, sizeof(struct varlena *), atp_compare_did_refs);

	return &l->list[place - l->dids];
}

/*
 * Held labels are written in the order of the stream.  If earlier labels of the labeler were held after the batch was
 * read, or if a new label comes while labels are held, the part must wait: set stays.
 */
static void
follow_held(Labeler *labeler, const AtpEvent *part)
{
	if (part->held == NULL)
		labeler->order.stays |= labeler->held.n > 0;
	else
		atp_held_order_follow(&labeler->order, part->held, labeler->held.n, labeler->held.first_rev);
}

/* V-41: has a document without a label key been read since the labels came?  An older document proves nothing: the key may be new. */
static bool
has_no_key(const AtpApply *a, const AtpEvent *part, const AtpIdentity *who)
{
	return who->state == ATP_IDENTITY_GOOD && !who->has_key && !atp_admission_is_doubtful(a, part, who) && atp_admission_was_answered(part, who);
}

/* Set the verdict on a part by the labeler's identity.  True: the signatures decide. */
static bool
judge_part(Labelers *l, AtpEvent *part, const Labeler *labeler, bool is_signed)
{
	const AtpIdentity *who = &labeler->who;

	/* a replayed letter does not wait behind held labels: a user has asked for exactly this message */
	if (labeler->order.stays && !l->apply->replay)
		atp_admission_hold(part, ATP_HELD_ORDER);
	/* no label has a signature, so no key could make a label true: do not wait for a key */
	else if (!is_signed)
		part->verdict.judged = ATP_JUDGED_TRUE;
	else if (has_no_key(l->apply, part, who))
		atp_admission_ignore(part, ATP_SKIP_NO_IDENTITY);
	else
		return atp_admission_has_key(l->apply, part, who, l->now);
	return false;
}

/*
 * Judge all parts of a message.  The parts have different labelers, so the order of the parts does not matter.  M-41: only the
 * labeler's present key counts.  A label has no chain: no later label confirms an earlier label that a former key has signed.
 */
static void
judge_event(Labelers *l, AtpEvent *event)
{
	AtpRow	   *rows = l->apply->batch->rows + event->first_row;
	bool	   *is_signed = palloc0(sizeof(bool) * Max(event->nparts, 1));
	bool	   *asks = palloc0(sizeof(bool) * Max(event->nparts, 1));
	bool	   *fits = palloc0(sizeof(bool) * Max(event->nparts, 1));

	for (int r = 0; r < event->nrows; r++)
		is_signed[rows[r].label.part - event->parts] |= rows[r].label.signature != NULL;
	for (int p = 0; p < event->nparts; p++)
	{
		AtpEvent   *part = &event->parts[p];
		Labeler    *labeler = labeler_of(l, part);

		part->held = event->held;
		part->verdict.judged = ATP_JUDGED_TRUE;
		part->verdict.request_identity = part->verdict.refresh = false;
		part->verdict.asked_at = labeler->who.asked_at;
		follow_held(labeler, part);
		asks[p] = fits[p] = judge_part(l, part, labeler, is_signed[p]);
	}
	for (int r = 0; r < event->nrows; r++)
	{
		AtpLabelRow *row = &rows[r].label;
		int			p = row->part - event->parts;

		row->refuted = row->signature == NULL ||
			(asks[p] && !atp_signed_fits(row->signature, labeler_of(l, row->part)->who.key));
		if (row->signature != NULL && row->refuted)
			fits[p] = false;
	}
	event->verdict.judged = ATP_JUDGED_TRUE;
	for (int p = 0; p < event->nparts; p++)
	{
		AtpEvent   *part = &event->parts[p];
		Labeler    *labeler = labeler_of(l, part);

		if (asks[p])
			atp_admission_by_signature(part, &labeler->who, fits[p]);
		labeler->order.stays |= part->verdict.judged == ATP_JUDGED_HELD;
		/* a held event has a single part: if the part waits on, keep the row of atproto.held_event */
		if (part->verdict.judged == ATP_JUDGED_HELD && part->held != NULL)
			event->verdict.judged = ATP_JUDGED_HELD;
	}
}

/* Repeat the effect of an event that the transaction has judged already on the labelers' order. */
static void
pass_event(Labelers *l, const AtpEvent *event)
{
	for (int p = 0; p < event->nparts; p++)
	{
		const AtpEvent *part = &event->parts[p];
		Labeler    *labeler = labeler_of(l, part);

		follow_held(labeler, part);
		labeler->order.stays |= part->verdict.judged == ATP_JUDGED_HELD;
	}
}

void
atp_labels_judge(AtpApply *a, int lo, int hi)
{
	Labelers	l = {0};

	read_labelers(&l, a, a->lo, hi);
	for (int i = a->lo; i < lo; i++)
		pass_event(&l, &a->batch->events[i]);
	for (int i = lo; i < hi; i++)
		if (a->batch->events[i].nparts > 0)
			judge_event(&l, &a->batch->events[i]);
}

bool
atp_label_is_taken(const AtpLabelRow *row)
{
	/* even in a part with the verdict false, single labels may have a valid signature */
	return row->part == NULL ||
		(!row->refuted && (row->part->verdict.judged == ATP_JUDGED_TRUE || row->part->verdict.judged == ATP_JUDGED_FALSE));
}

/* Is it certain that the labeler has not signed the label? */
static bool
is_false(const AtpLabelRow *row)
{
	return row->part != NULL && row->refuted &&
		(row->part->verdict.judged == ATP_JUDGED_TRUE || row->part->verdict.judged == ATP_JUDGED_FALSE);
}

void
atp_labels_count(AtpApply *a, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		for (int p = 0; p < event->nparts; p++)
		{
			const AtpEvent *part = &event->parts[p];

			if (part->verdict.judged == ATP_JUDGED_HELD)
				a->skips[ATP_SKIP_HELD] += part->held == NULL;
			else if (part->verdict.judged == ATP_JUDGED_IGNORED)
				a->skips[part->verdict.ignored_as]++;
		}
		for (int r = 0; r < event->nrows; r++)
		{
			const AtpLabelRow *row = &a->batch->rows[event->first_row + r].label;

			if (row->part == NULL)
				continue;
			a->skips[ATP_SKIP_VERIFIED] += atp_label_is_taken(row);
			a->skips[ATP_SKIP_BAD_SIGNATURE] += is_false(row);
		}
	}
}

void
atp_labels_reject_unsigned(AtpApply *a)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		for (int r = 0; r < event->nrows; r++)
		{
			const AtpRow *row = &a->batch->rows[event->first_row + r];
			const AtpSigned *s = row->label.signature;

			if (is_false(&row->label))
				atp_admission_dead_letter(a->batch, event, row->label.src, s == NULL ? "The label is not signed."
										  : psprintf("The label is not signed by the labeler's key, \\x%s.", atp_signed_key(s)))->path = row->path;
		}
	}
	MemoryContextSwitchTo(old);
}

void
atp_labels_after_apply(AtpApply *a)
{
	AtpEvent  **parts;
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		n += a->batch->events[i].nparts;
	parts = palloc(sizeof(AtpEvent *) * Max(n, 1));
	n = 0;
	for (int i = a->lo; i < a->hi; i++)
		for (int p = 0; p < a->batch->events[i].nparts; p++)
			parts[n++] = &a->batch->events[i].parts[p];
	if (n > 0)
		atp_admission_write(a, parts, n);
}
