/*
 * change_record.c
 *		Changes of the table record, as events of the kind commit (O-21, O-25).
 */
#include "postgres.h"

#include "access/detoast.h"
#include "changes/change.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "core/atp.h"
#include "core/syntax/tid.h"
#include "data/dagcbor_value.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/jsonb.h"

/* The key of a row; did_value is the DID as it is stored. */
typedef struct Key
{
	char	   *did;
	char	   *collection;
	char	   *rkey;
	struct varlena *did_value;
} Key;

/* False: the reader has not asked for this repository or collection. */
static bool
read_record_key(const AtpRowChange *change, const AtpChangeRow *row, Key *key)
{
	const AtpChangeOptions *options = &change->changes->options;

	key->did_value = PG_DETOAST_DATUM_PACKED(row->values[ATP_RECORD_DID]);
	if (!atp_change_has_did(options, key->did_value))
		return false;
	key->collection = atp_change_text(row, ATP_RECORD_COLLECTION);
	if (!atp_change_has_collection(options, key->collection))
		return false;
	key->did = atp_change_text(row, ATP_RECORD_DID);
	key->rkey = atp_change_text(row, ATP_RECORD_RKEY);
	return true;
}

static bool
same_key(const Key *a, const Key *b)
{
	return strcmp(a->did, b->did) == 0 && strcmp(a->collection, b->collection) == 0 && strcmp(a->rkey, b->rkey) == 0;
}

/* A value larger than a message counts as different from one that was written anew, so that neither is read into memory. */
static bool
same_value(const AtpRowChange *change, int column)
{
	Datum		a = change->had->values[column];
	Datum		b = change->has->values[column];
	Size		size;

	if (change->had->nulls[column] || change->has->nulls[column])
		return change->had->nulls[column] && change->has->nulls[column];
	/* the UPDATE has left the value alone */
	if (a == b)
		return true;
	size = toast_raw_datum_size(a);
	if (size != toast_raw_datum_size(b) || size > (Size) change->changes->options.max_message)
		return false;
	return datumIsEqual(PointerGetDatum(PG_DETOAST_DATUM_PACKED(a)), PointerGetDatum(PG_DETOAST_DATUM_PACKED(b)), false, -1);
}

/*
 * Has an UPDATE written only columns that are no part of the record, such as fault?  Without the old row, only a large
 * value that was left alone tells so.  The message has value, or raw in a row without value; with keep_raw, a row has both.
 */
static bool
is_bookkeeping(const AtpRowChange *change)
{
	const AtpChangeRow *has = change->has;
	int			told = has->nulls[ATP_RECORD_VALUE] && !has->unchanged[ATP_RECORD_VALUE] ? ATP_RECORD_RAW : ATP_RECORD_VALUE;

	if (change->whole)
		return same_value(change, ATP_RECORD_CID) && same_value(change, ATP_RECORD_VALUE) && same_value(change, told);
	return has->unchanged[told];
}

static void
append_raw(StringInfo out, AtpBytes block)
{
	appendStringInfoString(out, ",\"raw\":");
	atp_append_base64(out, block);
}

/* A dagcbor, which atp_change_fits() has found to be undamaged.  Where jsonb could not hold the record, raw, as in a table with jsonb. */
static void
append_packed(StringInfo out, AtpBytes stored)
{
	static const char member[] = ",\"record\":";
	AtpPackedPart whole = atp_dagcbor_whole(stored);
	AtpBytes	cbor = atp_dagcbor_unpack(&whole);

	appendStringInfoString(out, member);
	if (!atp_dagcbor_jsonb_text(out, cbor))
	{
		out->len -= (int) strlen(member);
		append_raw(out, cbor);
	}
	pfree(unconstify(uint8_t *, cbor.ptr));
}

static void
append_record(StringInfo out, const char *before, const AtpChangeRow *row)
{
	atp_append_text(out, before, "cid", atp_change_text(row, ATP_RECORD_CID));
	if (row->unchanged[ATP_RECORD_VALUE])
		appendStringInfoString(out, ",\"record\":\"unchanged\"");
	else if (!row->nulls[ATP_RECORD_VALUE] && row->table->packed)
		append_packed(out, atp_change_bytes(row, ATP_RECORD_VALUE));
	else if (!row->nulls[ATP_RECORD_VALUE])
	{
		Jsonb	   *value = DatumGetJsonbP(row->values[ATP_RECORD_VALUE]);

		appendStringInfoString(out, ",\"record\":");
		JsonbToCString(out, &value->root, VARSIZE(value));
	}
	else if (row->unchanged[ATP_RECORD_RAW])
		appendStringInfoString(out, ",\"raw\":\"unchanged\"");
	else if (!row->nulls[ATP_RECORD_RAW])
		append_raw(out, atp_change_bytes(row, ATP_RECORD_RAW));
	else
		appendStringInfoString(out, ",\"record\":null");
}

static StringInfo
begin_commit(const AtpRowChange *change, const Key *key, const char *rev, const char *operation)
{
	StringInfo	out = atp_message_begin(change->changes, change->txn, "commit", change->table->target, key->did);

	appendStringInfoString(out, ",\"commit\":{");
	if (rev != NULL)
		appendStringInfo(out, "\"rev\":\"%s\",", rev);
	appendStringInfo(out, "\"operation\":\"%s\",\"collection\":\"%s\",\"rkey\":\"%s\"", operation, key->collection, key->rkey);
	return out;
}

/* The old row for the message; NULL: the reader has not asked for old rows, or WAL has none. */
static const AtpChangeRow *
told_old(const AtpRowChange *change)
{
	return change->changes->options.old && change->whole ? change->had : NULL;
}

static void
append_old(const AtpRowChange *change, StringInfo out)
{
	const AtpChangeRow *old = told_old(change);

	if (old == NULL)
		return;
	appendStringInfoString(out, ",\"old\":{");
	append_record(out, "", old);
	appendStringInfoChar(out, '}');
}

static bool
fits_message(const AtpRowChange *change, const AtpChangeRow *row)
{
	if (atp_change_fits(change, row, told_old(change)))
		return true;
	atp_change_tell_unknown(change->changes, change->txn, change->table);
	return false;
}

static void
tell_written(const AtpRowChange *change, const Key *key, const char *operation)
{
	StringInfo	out;

	if (!fits_message(change, change->has))
		return;
	out = begin_commit(change, key, atp_change_text(change->has, ATP_RECORD_REV), operation);
	append_record(out, ",", change->has);
	append_old(change, out);
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}

/* A record's row has the revision of the last write.  The revision of the deletion is in the repository's row, if the transaction has written that row. */
static void
tell_deleted(const AtpRowChange *change, const Key *key)
{
	uint64		rev = atp_change_rev(change->txn, key->did_value);
	char		text[ATP_TID_TEXT + 1] = "";
	StringInfo	out;

	if (!fits_message(change, NULL))
		return;
	if (rev != 0)
		atp_tid_format(rev, text);
	out = begin_commit(change, key, rev != 0 ? text : NULL, "delete");
	append_old(change, out);
	appendStringInfoChar(out, '}');
	atp_message_end(change->changes);
}

/* An UPDATE of the key is a deletion and a new record. */
void
atp_change_of_record(const AtpRowChange *change)
{
	Key			had,
				has;
	bool		tell_had = change->had != NULL && read_record_key(change, change->had, &had);
	bool		tell_has = change->has != NULL && read_record_key(change, change->has, &has);
	bool		same = change->had == NULL || (tell_had && tell_has && same_key(&had, &has));

	if ((change->changes->options.kinds & ATP_CHANGE_COMMITS) == 0)
		return;
	if (change->update && same)
	{
		if (tell_has && !is_bookkeeping(change))
			tell_written(change, &has, "update");
		return;
	}
	if (tell_had)
		tell_deleted(change, &had);
	if (tell_has)
		tell_written(change, &has, "create");
}
