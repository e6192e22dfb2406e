/*
 * plc_sink.c
 *		The sink for the entries of a did:plc directory: judges each operation by the account's log in tables and batch,
 *		and writes accepted and refused operations (M-01, M-05, M-10).  Where the subscription says so, atproto.identity follows
 *		in the same transaction (M-30).
 *
 * Most operations follow the newest operation of their account, so only the newest is read.  Where an operation of the batch
 * follows another, the account's whole log is read, but of the operations themselves only those that are followed.  Each
 * statement runs once for all accounts of the batch.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/clock.h"
#include "common/signature.h"
#include "data/signed.h"
#include "identity/identity_log.h"
#include "tables/plc/plc_request.h"
#include "tables/plc/plc_tables.h"
#include "tables/plc/plc_text.h"
#include "tables/repos/held.h"
#include "types/types.h"

/* The entries of one account in a part of the batch. */
typedef struct Account
{
	struct varlena *did;
	AtpEvent  **events;
	int			nevents;
	AtpErr	   *errs;			/* why each event was refused; ATP_OK: accepted, or known */
	bool	   *known;			/* the table, or an event before, has the operation of the event */
	AtpPlcStored *stored;		/* rows of the table: all, or only the newest */
	int			nstored;
	AtpPlcLog	log;
	uint32_t	kept;			/* so many places of the log are rows of the table, which stay */
	const AtpEvent **sources;	/* of the other places of the log: the events */
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

static AtpBytes
packed_bytes(const struct varlena *packed)
{
	return packed != NULL ? (AtpBytes) {(const uint8_t *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed)} : (AtpBytes) {NULL, 0};
}

static void *
alloc_zeros(Size size)
{
	return palloc_extended(Max(size, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

/* An empty log of the account, with room for so many operations. */
static void
init_log(const AtpApply *a, Account *account, uint32_t room)
{
	atp_plc_log_init(&account->log, row_of(a, account->events[0])->did, room,
					 palloc_extended(atp_plc_log_room(room), MCXT_ALLOC_HUGE));
	account->sources = alloc_zeros(room * sizeof(AtpEvent *));
	account->errs = alloc_zeros(account->nevents * sizeof(AtpErr));
	account->known = alloc_zeros(account->nevents * sizeof(bool));
}

static void
begin_log(const AtpApply *a, Account *account)
{
	init_log(a, account, account->nstored + account->nevents);
	account->kept = account->nstored;
	for (int i = 0; i < account->nstored; i++)
	{
		const AtpPlcStored *row = &account->stored[i];
		AtpPlcPlace place = {
			.signer = atp_plc_packed_signer(packed_bytes(row->packed)), .created_at = row->created_at,
			.prev = index_of(account, row->prev), .nullified_by = index_of(account, row->nullified_by)
		};

		memcpy(place.cid, row->cid, sizeof(place.cid));
		atp_plc_log_restore(&account->log, &place);
	}
}

/* The stored operations that operations of the batch follow, in *followed; returns their number. */
static int
find_followed(const AtpApply *a, Account *accounts, int naccounts, int nevents, AtpPlcStored ***followed)
{
	int			n = 0;

	*followed = palloc(Max(nevents, 1) * sizeof(AtpPlcStored *));
	for (int i = 0; i < naccounts; i++)
		for (int e = 0; e < accounts[i].nevents; e++)
		{
			const AtpPlcOp *op = row_of(a, accounts[i].events[e])->op;
			uint32_t	prev = op != NULL && op->has_prev ? atp_plc_log_find(&accounts[i].log, op->prev) : ATP_PLC_NONE;

			if (prev == ATP_PLC_NONE || accounts[i].log.places[prev].keys != NULL)
				continue;
			/* no keys yet, but not NULL any more: an operation stands once in the list */
			accounts[i].log.places[prev].keys = (const AtpPlcKey *) palloc(sizeof(AtpPlcKey));
			(*followed)[n++] = &accounts[i].stored[prev];
		}
	return n;
}

/* Kind and keys of a stored operation; bytes of a user that are no operation give no keys, so that nothing can follow. */
static void
load_keys(AtpPlcPlace *place, AtpBytes cbor)
{
	static AtpPlcOp op;

	if (cbor.ptr == NULL || !atp_plc_op_stored(cbor, &op))
		return;
	place->kind = (uint8_t) op.kind;
	place->nkeys = (uint8_t) op.nkeys;
	place->keys = (const AtpPlcKey *) memcpy(palloc(Max(op.nkeys, 1) * sizeof(AtpPlcKey)), op.keys, op.nkeys * sizeof(AtpPlcKey));
}

/* Reads what is needed of the stored operations that operations of the batch follow. */
static void
complete_followed(const AtpApply *a, Account *accounts, int naccounts, int nevents, AtpPlcTextIds *texts)
{
	AtpPlcStored **followed;
	int			n = find_followed(a, accounts, naccounts, nevents, &followed);
	AtpPlcStored **cut = palloc(Max(n, 1) * sizeof(AtpPlcStored *));
	int			ncut = 0;

	for (int i = 0; i < n; i++)
		if (!followed[i]->whole)
			cut[ncut++] = followed[i];
	atp_plc_read_packed(a->statements, cut, ncut);
	for (int i = 0; i < n; i++)
		atp_plc_texts_note_ids(texts, packed_bytes(followed[i]->packed));
	atp_plc_texts_read(texts);
	for (int i = 0; i < naccounts; i++)
		for (int k = 0; k < accounts[i].nstored; k++)
			if (accounts[i].log.places[k].keys != NULL)
				load_keys(&accounts[i].log.places[k], atp_plc_texts_unpack(texts, packed_bytes(accounts[i].stored[k].packed), NULL));
}

/* Operations with a "prev" that the account's log lacks. */
typedef struct Unknown
{
	int			n;
	AtpEvent  **events;
} Unknown;

static void
judge_event(const AtpApply *a, Account *account, int index)
{
	const AtpEvent *event = account->events[index];
	const AtpPlcRow *row = row_of(a, event);
	AtpErr	   *err = &account->errs[index];
	AtpPlcVerdict verdict;

	account->known[index] = row->op != NULL && atp_plc_log_find(&account->log, row->op->cid) != ATP_PLC_NONE;
	if (account->known[index] || (*err = row->err) != ATP_OK)
		return;
	*err = atp_plc_judge(&account->log, row->op, row->did, row->created_at, &atp_signature_verifier, &verdict);
	atp_require_curve(*err);
	if (*err != ATP_OK)
		return;
	account->sources[account->log.n] = event;
	atp_plc_log_add(&account->log, row->op, row->created_at, row->op->keys, &verdict);
}

static void
judge_events(const AtpApply *a, Account *account)
{
	for (int i = 0; i < account->nevents; i++)
		judge_event(a, account, i);
}

/* Is the log the whole log of the account, as the table should have it?  A user may have altered the table. */
static bool
is_whole(const Account *account)
{
	for (int i = 0; i < account->nstored; i++)
		if (account->stored[i].n != i + 1)
			return false;
	return account->nstored > 0;
}

/* Was an operation refused that could hold if the log had the operations before? */
static bool
may_lack_operations(const Account *account)
{
	for (int i = 0; i < account->nevents; i++)
		if (account->errs[i] == ATP_E_PLC_KEY || account->errs[i] == ATP_E_PLC_ORDER || account->errs[i] == ATP_E_PLC_LATE ||
			account->errs[i] == ATP_E_PLC_PREV || account->errs[i] == ATP_E_PLC_NULLIFIED || account->errs[i] == ATP_E_PLC_TOMBSTONE)
			return true;
	return false;
}

/* Has the log all operations of the other log, at the same times (M-10), and more? */
static bool
has_more(const AtpPlcLog *log, const AtpPlcLog *other)
{
	for (uint32_t i = 0; i < other->n; i++)
	{
		uint32_t	at = atp_plc_log_find(log, other->places[i].cid);

		if (at == ATP_PLC_NONE || log->places[at].created_at != other->places[i].created_at)
			return false;
	}
	return log->n > other->n;
}

/*
 * M-11: the table may have operations of an account, and lack operations before: set_cursor(), or a new account in "dids", lets the
 * stream begin behind them.  A lacking operation cannot be put between the stored ones.  So answer and stored operations are judged
 * anew together (plc_answer.c), from the genesis on.  If all operations hold that the table has, at the times that the table has, and
 * more, the account's rows are replaced from the first that differs.  With other times, an answer could take back what is settled.
 */
static void
judge_anew(const AtpApply *a, Account *account)
{
	Account		again = *account;

	init_log(a, &again, account->nevents);
	judge_events(a, &again);
	if (!has_more(&again.log, &account->log))
		return;
	again.kept = 0;
	while (again.kept < (uint32_t) again.nstored && is_cid(again.stored[again.kept].cid, again.log.places[again.kept].cid))
		again.kept++;
	for (int i = 0; i < again.nevents; i++)
	{
		const AtpPlcOp *op = row_of(a, again.events[i])->op;
		uint32_t	before = op == NULL ? ATP_PLC_NONE : atp_plc_log_find(&account->log, op->cid);

		again.known[i] |= account->known[i];
		if (before < (uint32_t) account->nstored)
			again.events[i]->seq = account->stored[before].seq;
	}
	*account = again;
}

static void
judge_account(const AtpApply *a, Account *account)
{
	judge_events(a, account);
	if (a->sink != &atp_plc_sink && may_lack_operations(account) && is_whole(account))
		judge_anew(a, account);
}

/* Puts the refused entries, and what is known of the others. */
static void
note_verdicts(AtpApply *a, const Account *account, AtpPlcWriter *w, Unknown *unknown)
{
	for (int i = 0; i < account->nevents; i++)
	{
		AtpEvent   *event = account->events[i];
		AtpErr		err = account->errs[i];

		event->verdict.judged = ATP_JUDGED_TRUE;
		if (account->known[i])
		{
			a->skips[ATP_SKIP_OLD]++;	/* M-10 */
			if (a->sink != &atp_plc_sink)
				atp_plc_put_known(w, account->did, row_of(a, event)->op->cid);
		}
		else if (err != ATP_OK)
		{
			atp_plc_put_refused(w, event, row_of(a, event), err);
			if (err == ATP_E_PLC_PREV)
				unknown->events[unknown->n++] = event;
			else
				a->skips[ATP_SKIP_INVALID]++;
		}
	}
	a->rows += account->log.n - account->nstored;
}

static const uint8_t *
cid_before(const AtpPlcLog *log, const AtpPlcPlace *place)
{
	return place->prev != ATP_PLC_NONE ? log->places[place->prev].cid : NULL;
}

/* Notes the texts of the account's new operations. */
static void
note_texts(const AtpApply *a, const Account *account, AtpPlcTextIds *texts)
{
	for (uint32_t i = account->kept; i < account->log.n; i++)
		atp_plc_texts_note(texts, account->did, row_of(a, account->sources[i])->op->cbor,
						   cid_before(&account->log, &account->log.places[i]));
}

static void
put_operation(const AtpApply *a, const Account *account, uint32_t i, AtpPlcTextIds *texts, AtpPlcWriter *w)
{
	const AtpPlcPlace *place = &account->log.places[i];
	const AtpEvent *event = account->sources[i];
	AtpPlcStored row = {
		.did = account->did, .n = number_of(account, i), .prev = place->prev == ATP_PLC_NONE ? 0 : number_of(account, place->prev),
		.nullified_by = place->nullified_by == ATP_PLC_NONE ? 0 : number_of(account, place->nullified_by), .created_at = place->created_at,
		.seq = event->seq, .packed = atp_plc_texts_pack(texts, row_of(a, event)->op->cbor, place->signer, cid_before(&account->log, place))
	};

	memcpy(row.cid, place->cid, sizeof(row.cid));
	atp_plc_put_operation(w, &row);
}

/* Puts the account's new operations, and the stored operations that were nullified. */
static void
put_account(const AtpApply *a, const Account *account, AtpPlcTextIds *texts, AtpPlcWriter *w)
{
	const AtpPlcLog *log = &account->log;

	if (account->kept < (uint32_t) account->nstored)
		atp_plc_put_replaced(w, account->did, number_of(account, account->kept), account->nstored - (int) account->kept);
	for (uint32_t i = 0; i < log->n; i++)
	{
		uint32_t	by = log->places[i].nullified_by;

		if (i >= account->kept)
			put_operation(a, account, i, texts, w);
		else if (by != ATP_PLC_NONE && by != index_of(account, account->stored[i].nullified_by))
			atp_plc_put_nullified(w, account->did, number_of(account, i), number_of(account, by));
	}
}

/* Gives the rows to their accounts; both lists are in the order of the DIDs. */
static void
give_stored(Account *accounts, int naccounts, AtpPlcStored *rows, int nrows)
{
	for (int i = 0, at = 0; i < naccounts; i++)
	{
		int			end = at;

		while (end < nrows && atp_compare_dids(rows[end].did, accounts[i].did) == 0)
			end++;
		if (end == at)
			continue;
		accounts[i].stored = &rows[at];
		accounts[i].nstored = end - at;
		at = end;
	}
}

/* Reads the newest stored operation of each account, and the whole logs where operations of the batch do not follow it. */
static void
read_stored(const AtpApply *a, Account *accounts, int naccounts)
{
	struct varlena **dids = palloc(Max(naccounts, 1) * sizeof(struct varlena *));
	AtpPlcStored *rows;
	int			found;
	int			n = 0;

	for (int i = 0; i < naccounts; i++)
		dids[i] = accounts[i].did;
	rows = atp_plc_read_newest(a->statements, dids, naccounts, &found);
	give_stored(accounts, naccounts, rows, found);
	for (int i = 0; i < naccounts; i++)
		if (!follows_newest(a, &accounts[i]))
			dids[n++] = accounts[i].did;
	if (n == 0)
		return;
	rows = atp_plc_read_logs(a->statements, dids, n, &found);
	give_stored(accounts, naccounts, rows, found);
}

/* M-30: the transaction in which this process compared the identities of all accounts with the log; invalid: not yet. */
static TransactionId compared_in = InvalidTransactionId;
static bool is_compared = false;	/* compared_in has committed */

static bool
is_following(void)
{
	is_compared |= TransactionIdIsValid(compared_in) && compared_in != GetCurrentTransactionIdIfAny() && TransactionIdDidCommit(compared_in);
	return is_compared || (TransactionIdIsValid(compared_in) && compared_in == GetCurrentTransactionIdIfAny());
}

static bool
has_refused(const Account *account)
{
	for (int i = 0; i < account->nevents; i++)
		if (account->errs[i] != ATP_OK && !account->known[i])
			return true;
	return false;
}

/* Another source of the same tables, without identities, may have brought an operation first. */
static bool
has_known(const Account *account)
{
	for (int i = 0; i < account->nevents; i++)
		if (account->known[i])
			return true;
	return false;
}

/* M-30, M-31: do the identities follow the log that this subscription keeps? */
static bool
is_log_of_identities(const AtpApply *a)
{
	return a->sub->settings.identities && atp_identity_log_is_believed(a->sub->owner, a->sub->target);
}

/* M-31: a refused entry may have changed the account's key, so the directory is asked for the document. */
static void
doubt_refused(const AtpApply *a, const Account *accounts, int naccounts)
{
	struct varlena **dids = palloc(Max(naccounts, 1) * sizeof(struct varlena *));
	int			n = 0;

	for (int i = 0; i < naccounts; i++)
		if (has_refused(&accounts[i]))
			dids[n++] = accounts[i].did;
	atp_identities_doubt(dids, n, a->sub->owner);
}

/* M-31: so may an operation that became a dead letter. */
static void
doubt_lettered(AtpApply *a)
{
	struct varlena **dids = palloc(Max(list_length(a->batch->letters), 1) * sizeof(struct varlena *));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, a->batch->letters)
	{
		const AtpDeadLetter *letter = lfirst(lc);

		if (letter->did != NULL && letter->event != NULL && letter->event >= &a->batch->events[a->lo] && letter->event < &a->batch->events[a->hi])
			dids[n++] = letter->did;
	}
	if (n > 0 && is_log_of_identities(a))
		atp_identities_doubt(dids, atp_sort_dids(dids, n), a->sub->owner);
}

/*
 * M-30: the identities follow the operations that this transaction has written.  A process that begins to follow compares the
 * identities of all accounts: operations may have come while nobody followed, or while the log was not believed.
 */
static void
follow_operations(const AtpApply *a, const Account *accounts, int naccounts)
{
	struct varlena **dids = palloc(Max(naccounts, 1) * sizeof(struct varlena *));
	struct varlena **behind;
	List	   *released;
	int			n = 0;

	if (!is_log_of_identities(a))
	{
		is_compared = false;
		compared_in = InvalidTransactionId;
		return;
	}
	doubt_refused(a, accounts, naccounts);
	for (int i = 0; i < naccounts; i++)
		if (accounts[i].log.n > (uint32_t) accounts[i].nstored || has_known(&accounts[i]))
			dids[n++] = accounts[i].did;
	if (!is_following())
	{
		compared_in = GetCurrentTransactionId();
		n = -1;
	}
	if (n == 0)
		return;
	released = atp_identity_log_follow(a->sub, dids, n, atp_time_of_day());
	if (n < 0)
		atp_identity_log_doubt(a->sub);
	behind = palloc(Max(list_length(released), 1) * sizeof(struct varlena *));
	for (n = 0; n < list_length(released); n++)
		behind[n] = list_nth(released, n);
	atp_held_release(behind, n);
}

/*
 * M-11: an operation that follows a refused operation is refused, too.  An operation that follows an unknown operation waits for the
 * account's log.  Both have a row in plc_refused already.
 */
static void
find_waiting(AtpApply *a, const Unknown *unknown)
{
	int			n = unknown->n;
	struct varlena **dids = palloc(Max(n, 1) * sizeof(struct varlena *));
	const uint8_t **prevs = palloc(Max(n, 1) * sizeof(uint8_t *));
	bool	   *refused = palloc(Max(n, 1) * sizeof(bool));

	for (int i = 0; i < n; i++)
	{
		dids[i] = unknown->events[i]->did;
		prevs[i] = row_of(a, unknown->events[i])->op->prev;
	}
	atp_plc_find_refused(a->statements, dids, prevs, n, refused);
	for (int i = 0; i < n; i++)
	{
		/* a waiting operation was counted when the stream brought it */
		if (a->sink == &atp_plc_sink)
			a->skips[refused[i] ? ATP_SKIP_INVALID : ATP_SKIP_HELD]++;
		a->batch->held |= !refused[i];
		if (!refused[i])
			unknown->events[i]->verdict.judged = ATP_JUDGED_HELD;
	}
}

static void
apply_entries(AtpApply *a, int lo, int hi)
{
	int			n;
	int			naccounts;
	AtpEvent  **events = sort_events(a, lo, hi, &n);
	Account    *accounts = find_accounts(events, n, &naccounts);
	AtpPlcTextIds *texts;
	AtpPlcWriter *w;
	Unknown		unknown = {.events = palloc(Max(n, 1) * sizeof(AtpEvent *))};

	if (n == 0)
		return;
	texts = atp_plc_texts_begin(a->statements);
	w = atp_plc_writer(a->statements, a->sub->name, n);
	read_stored(a, accounts, naccounts);
	for (int i = 0; i < naccounts; i++)
		begin_log(a, &accounts[i]);
	complete_followed(a, accounts, naccounts, n, texts);
	for (int i = 0; i < naccounts; i++)
	{
		judge_account(a, &accounts[i]);
		note_verdicts(a, &accounts[i], w, &unknown);
		note_texts(a, &accounts[i], texts);
	}
	atp_plc_texts_find_ids(texts);
	for (int i = 0; i < naccounts; i++)
		put_account(a, &accounts[i], texts, w);
	atp_plc_write(w);
	follow_operations(a, accounts, naccounts);
	find_waiting(a, &unknown);
}

/* M-11: asks for the logs of accounts with waiting operations, as far as there is room. */
static void
request_logs(AtpApply *a)
{
	struct varlena **dids = palloc(Max(a->hi - a->lo, 1) * sizeof(struct varlena *));
	int			n = 0;
	bool	   *open;

	for (int i = a->lo; i < a->hi; i++)
		if (a->batch->events[i].verdict.judged == ATP_JUDGED_HELD)
			dids[n++] = a->batch->events[i].did;
	if (n == 0)
		return;
	n = atp_sort_dids(dids, n);
	open = palloc(n * sizeof(bool));
	if (atp_plc_request_logs(a->sub, dids, n, open) == n)
		return;
	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];
		struct varlena **did = event->verdict.judged != ATP_JUDGED_HELD ? NULL
			: bsearch(&event->did, dids, n, sizeof(struct varlena *), atp_compare_did_refs);

		if (did == NULL || open[did - dids])
			continue;
		a->skips[ATP_SKIP_HELD]--;
		a->skips[ATP_SKIP_HELD_DROPPED]++;
	}
}

static void
after_entries(AtpApply *a)
{
	doubt_lettered(a);
	request_logs(a);
}

static void
apply_entry(AtpApply *a, int row, int event)
{
	apply_entries(a, event, event + 1);
}

const AtpSink atp_plc_sink = {.uses = ATP_USE_PLC, .apply = apply_entries, .apply_row = apply_entry, .after_apply = after_entries};

/* plc_answer.c notes for itself which accounts are asked for again */
const AtpSink atp_plc_answer_sink = {.uses = ATP_USE_PLC, .apply = apply_entries, .apply_row = apply_entry, .after_apply = doubt_lettered};
