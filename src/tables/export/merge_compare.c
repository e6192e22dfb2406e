/*
 * merge_compare.c
 *		Compares the records of an export's tree with the rows of a repository: see merge_compare.h.
 */
#include "postgres.h"

#include "stream/format.h"
#include "tables/export/merge_compare.h"

static void
next_record(AtpMergeCompare *c)
{
	c->state = atp_export_fetch(c->export, &c->record);
	if (c->state == ATP_EXPORT_BAD)
		atp_export_error(c->export);
}

void
atp_compare_begin(AtpMergeCompare *c, MemoryContext parent, AtpStatements *set, const AtpSettings *settings,
				  AtpExport *e, struct varlena *did)
{
	*c = (AtpMergeCompare) {.settings = settings, .export = e};
	c->rows = atp_stored_begin(parent, set, settings, did);
	if (!atp_export_rewind(e))
		atp_export_error(e);
	next_record(c);
}

static AtpBytes
tree_path(const AtpMergeCompare *c)
{
	return (AtpBytes) {(const uint8_t *) c->record.path.ptr, c->record.path.len};
}

AtpCompared
atp_compare_look(AtpMergeCompare *c, const AtpStoredRow **row)
{
	int			cmp;

	*row = NULL;
	if (c->state == ATP_EXPORT_MORE && c->record.collection.ptr == NULL)
		return ATP_COMPARED_INVALID;
	if (c->state == ATP_EXPORT_MORE && !atp_wants_collection(c->settings, c->record.collection))
		return ATP_COMPARED_UNWANTED;
	*row = atp_stored_row(c->rows);
	if (c->state == ATP_EXPORT_DONE)
		return *row == NULL ? ATP_COMPARED_END : ATP_COMPARED_TABLE;
	cmp = *row == NULL ? -1 : atp_mst_compare(tree_path(c), (*row)->path);
	return cmp < 0 ? ATP_COMPARED_TREE : cmp > 0 ? ATP_COMPARED_TABLE : ATP_COMPARED_BOTH;
}

void
atp_compare_next(AtpMergeCompare *c, AtpCompared where)
{
	if (where == ATP_COMPARED_TREE)
		atp_stored_pass(c->rows, tree_path(c));
	if (where == ATP_COMPARED_TABLE || where == ATP_COMPARED_BOTH)
		atp_stored_next(c->rows);
	if (where != ATP_COMPARED_TABLE)
		next_record(c);
}

bool
atp_compare_is_same(const AtpMergeCompare *c, const AtpStoredRow *row)
{
	return row->cid.len == c->record.cid.len && memcmp(row->cid.ptr, c->record.cid.ptr, row->cid.len) == 0 &&
		row->rev <= atp_export_head(c->export)->rev;
}

void
atp_compare_rest(AtpMergeCompare *c)
{
	atp_stored_rest(c->rows);
}
