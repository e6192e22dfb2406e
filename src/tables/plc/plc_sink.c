/*
 * plc_sink.c
 *		The sink for the entries of a did:plc directory: judges each operation by the account's log in tables and batch,
 *		and writes accepted and refused operations (M-01, M-05, M-10).  Where the subscription says so, atproto.identity follows
 *		in the same transaction (M-30).
 *
 * Most operations follow the newest operation of their account, so only the newest is read.  Where an operation of the batch
 * follows another, the account's whole log is read, without the operations themselves.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/signature.h"
#include "data/signed.h"
#include "identity/identity_log.h"
#include "tables/plc/plc_tables.h"
#include "tables/repos/held.h"
#include "types/types.h"

/* The entries of one account in a part of the batch. */
typedef struct Account
{
	struct varlena *did;
	AtpEvent  **events;
	int			nevents;
	AtpPlcStored *stored;		/* rows of the table: all, or only the newest */
	int			nstored;
	AtpPlcLog	log;
	const AtpEvent **sources;	/* of the places of the log behind the stored ones: the events */
} Account;

static const AtpPlcRow *
row_of(const AtpApply *a, const AtpEvent *event)
{
	return &a->batch->rows[event->first_row].plc;
}

static int
compare_events(const void *a, const void *b)
{
	const AtpEvent *one = *(AtpEvent *const *) a;
	const AtpEvent *two = *(AtpEvent *const *) b;
	int			c = atp_compare_dids(one->did, two->did);

	return c != 0 ? c : (one > two) - (one < two);
}

/* The events with rows in [lo, hi), by account, and within it in their order. */
static AtpEvent **
sort_events(AtpApply *a, int lo, int hi, int *n)
{
	AtpEvent  **events = palloc(Max(hi - lo, 1) * sizeof(AtpEvent *));

	*n = 0;
	for (int i = lo; i < hi; i++)
		if (a->batch->events[i].nrows > 0)
			events[(*n)++] = &a->batch->events[i];
	qsort(events, *n, sizeof(AtpEvent *), compare_events);
	return events;
}

static Account *
find_accounts(AtpEvent **events, int n, int *naccounts)
{
	Account    *accounts = palloc0(Max(n, 1) * sizeof(Account));

	*naccounts = 0;
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || atp_compare_dids(events[i]->did, events[i - 1]->did) != 0)
			accounts[(*naccounts)++] = (Account) {.did = events[i]->did, .events = &events[i]};
		accounts[*naccounts - 1].nevents++;
	}
	return accounts;
}

static bool
is_cid(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, ATP_CID_BLESSED_LEN) == 0;
}

/* Does each operation repeat or follow the newest stored operation, or follow an earlier operation of the batch? */
static bool
follows_newest(const AtpApply *a, const Account *account)
{
	const uint8_t *newest = account->nstored > 0 ? account->stored[0].cid : NULL;

	for (int i = 0; i < account->nevents; i++)
	{
		const AtpPlcOp *op = row_of(a, account->events[i])->op;

		if (op == NULL || (newest != NULL && is_cid(op->cid, newest)))
			continue;
		if (newest != NULL && (!op->has_prev || !is_cid(op->prev, newest)))
			return false;
		newest = op->cid;
	}
	return true;
}

/* The keys of a stored operation; bytes of a user that are no operation give no keys, so that nothing can follow. */
static void
load_keys(AtpPlcPlace *place, AtpBytes body)
{
	static AtpPlcOp op;

	place->nkeys = 0;
	place->keys = palloc(sizeof(AtpPlcKey));
	if (body.ptr == NULL || !atp_plc_op_stored(body, &op))
		return;
	place->kind = (uint8_t) op.kind;
	place->nkeys = (uint8_t) op.nkeys;
	place->keys = (const AtpPlcKey *) memcpy(palloc(Max(op.nkeys, 1) * sizeof(AtpPlcKey)), op.keys, op.nkeys * sizeof(AtpPlcKey));
}

/* The number of a place in the table, and back. */
static int32
number_of(const Account *account, uint32_t index)
{
	return (account->nstored > 0 ? account->stored[0].n : 1) + (int32) index;
}

static uint32_t
index_of(const Account *account, int32 n)
{
	int64		index = (int64) n - (account->nstored > 0 ? account->stored[0].n : 1);

	return n > 0 && index >= 0 && index < account->nstored ? (uint32_t) index : ATP_PLC_NONE;
}

static void
begin_log(const AtpApply *a, Account *account)
{
	uint32_t	room = account->nstored + account->nevents;

	atp_plc_log_init(&account->log, row_of(a, account->events[0])->did, room,
					 palloc_extended(atp_plc_log_room(room), MCXT_ALLOC_HUGE));
	account->sources = palloc(account->nevents * sizeof(AtpEvent *));
	for (int i = 0; i < account->nstored; i++)
	{
		const AtpPlcStored *row = &account->stored[i];
		AtpPlcPlace place = {
			.signer = (uint8_t) row->signer, .created_at = row->created_at, .prev = index_of(account, row->prev),
			.nullified_by = index_of(account, row->nullified_by)
		};

		memcpy(place.cid, row->cid, sizeof(place.cid));
		if (row->body.ptr != NULL)
			load_keys(&place, row->body);
		atp_plc_log_restore(&account->log, &place);
	}
}

/* Kind and keys of a stored operation are read when an operation follows it. */
static void
complete_prev(const AtpApply *a, Account *account, const AtpPlcOp *op)
{
	uint32_t	prev = op->has_prev ? atp_plc_log_find(&account->log, op->prev) : ATP_PLC_NONE;

	if (prev != ATP_PLC_NONE && account->log.places[prev].keys == NULL)
		load_keys(&account->log.places[prev], atp_plc_read_body(a->statements, account->did, number_of(account, prev)));
}

static void
judge_event(AtpApply *a, Account *account, const AtpEvent *event, AtpPlcWriter *w)
{
	const AtpPlcRow *row = row_of(a, event);
	AtpPlcVerdict verdict;
	AtpErr		err = row->err;

	if (row->op != NULL && atp_plc_log_find(&account->log, row->op->cid) != ATP_PLC_NONE)
	{
		a->skips[ATP_SKIP_OLD]++;	/* M-10 */
		return;
	}
	if (err == ATP_OK)
	{
		complete_prev(a, account, row->op);
		err = atp_plc_judge(&account->log, row->op, row->did, row->created_at, atp_signature_verify, NULL, &verdict);
		atp_require_curve(err);
	}
	if (err != ATP_OK)
	{
		atp_plc_put_refused(w, event, row, err);
		a->skips[ATP_SKIP_INVALID]++;
		return;
	}
	account->sources[account->log.n - account->nstored] = event;
	atp_plc_log_add(&account->log, row->op, row->created_at, row->op->keys, &verdict);
	a->rows++;
}

/* Puts the account's new operations, and the stored operations that were nullified. */
static void
put_account(const AtpApply *a, const Account *account, AtpPlcWriter *w)
{
	const AtpPlcLog *log = &account->log;

	for (uint32_t i = 0; i < log->n; i++)
	{
		const AtpPlcPlace *place = &log->places[i];
		bool		nullified = place->nullified_by != ATP_PLC_NONE;
		int32		by = nullified ? number_of(account, place->nullified_by) : 0;

		if (i >= (uint32_t) account->nstored)
		{
			const AtpEvent *event = account->sources[i - account->nstored];
			AtpPlcStored row = {
				.did = account->did, .n = number_of(account, i), .prev = place->prev == ATP_PLC_NONE ? 0 : number_of(account, place->prev),
				.nullified_by = by, .signer = place->signer, .created_at = place->created_at, .body = row_of(a, event)->op->cbor
			};

			memcpy(row.cid, place->cid, sizeof(row.cid));
			atp_plc_put_operation(w, &row, event->seq);
		}
		else if (nullified && place->nullified_by >= (uint32_t) account->nstored)
			atp_plc_put_nullified(w, account->did, number_of(account, i), by);
	}
}

static int
compare_stored(const void *a, const void *b)
{
	return atp_compare_dids(((const AtpPlcStored *) a)->did, ((const AtpPlcStored *) b)->did);
}

/* The newest stored operation of each account; both lists are in the order of the DIDs. */
static void
find_newest(const AtpApply *a, Account *accounts, int naccounts)
{
	struct varlena **dids = palloc(Max(naccounts, 1) * sizeof(struct varlena *));
	AtpPlcStored *newest;
	int			found;

	for (int i = 0; i < naccounts; i++)
		dids[i] = accounts[i].did;
	newest = atp_plc_read_newest(a->statements, dids, naccounts, &found);
	qsort(newest, found, sizeof(AtpPlcStored), compare_stored);
	for (int i = 0, at = 0; i < naccounts && at < found; i++)
		if (atp_compare_dids(newest[at].did, accounts[i].did) == 0)
		{
			accounts[i].stored = &newest[at++];
			accounts[i].nstored = 1;
		}
}

/*
 * M-30: the identities follow the operations that this transaction has written.  A process that begins to follow compares the
 * identities of all accounts: operations may have come while nobody followed, or while the log was not believed.
 */
static void
follow_operations(const AtpApply *a, const Account *accounts, int naccounts)
{
	static bool following = false;
	struct varlena **dids = palloc(Max(naccounts, 1) * sizeof(struct varlena *));
	struct varlena **behind;
	List	   *released;
	int			n = 0;

	if (!a->sub->settings.identities || !atp_identity_log_is_believed(a->sub->owner, a->sub->target))
	{
		following = false;
		return;
	}
	for (int i = 0; i < naccounts; i++)
		if (accounts[i].log.n > (uint32_t) accounts[i].nstored)
			dids[n++] = accounts[i].did;
	if (following && n == 0)
		return;
	released = atp_identity_log_follow(a->sub->target, dids, following ? n : -1, atp_time_of_day());
	following = true;
	behind = palloc(Max(list_length(released), 1) * sizeof(struct varlena *));
	for (n = 0; n < list_length(released); n++)
		behind[n] = list_nth(released, n);
	atp_held_release(behind, n);
}

static void
apply_entries(AtpApply *a, int lo, int hi)
{
	int			n;
	int			naccounts;
	AtpEvent  **events = sort_events(a, lo, hi, &n);
	Account    *accounts = find_accounts(events, n, &naccounts);
	AtpPlcWriter *w;

	if (n == 0)
		return;
	find_newest(a, accounts, naccounts);
	w = atp_plc_writer(a->statements, a->sub->name, n);
	for (int i = 0; i < naccounts; i++)
	{
		Account    *account = &accounts[i];

		if (!follows_newest(a, account))
			account->stored = atp_plc_read_log(a->statements, account->did, &account->nstored);
		begin_log(a, account);
		for (int e = 0; e < account->nevents; e++)
			judge_event(a, account, account->events[e], w);
		put_account(a, account, w);
	}
	atp_plc_write(w);
	follow_operations(a, accounts, naccounts);
}

static void
apply_entry(AtpApply *a, int row, int event)
{
	apply_entries(a, event, event + 1);
}

const AtpSink atp_plc_sink = {.uses = ATP_USE_PLC, .apply = apply_entries, .apply_row = apply_entry};
