/*
 * table_link.c
 *		The table link: the targets that records link to.
 */
#include "postgres.h"

#include "core/repo/link.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "tables/records/table_link.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_link_fits_sql);

static const AtpColumn columns[] = {
	{"target", ATP_TYPE_ATURI, ATP_KEY, "NOT NULL", "what the record links to: the URI of a record, or at:// and a DID"},
	{"source", ATP_TYPE_INT4, ATP_KEY, "NOT NULL", "link_source.id: collection of the record, and path of the link in the record"},
	{"rkey", ATP_TYPE_RKEY, ATP_KEY, "NOT NULL", "record key of the record that links"},
	{"did", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "account of the record that links"},
};

/*
 * Citus divides a table by one column, and backlinks are looked up by the linked account: so the table gets the
 * column authority.  Citus wants the column in the key, where it adds nothing, since target determines authority.
 */
#define SETUP \
	"ALTER TABLE #.link ADD COLUMN authority @.aturi;" \
	"COMMENT ON COLUMN #.link.authority IS 'account that owns the target: all links to the account are on one server (atproto.distribute())';" \
	"UPDATE #.link SET authority = @.aturi_repo(target);" \
	"ALTER TABLE #.link ALTER COLUMN authority SET NOT NULL;" \
	"ALTER TABLE #.link DROP CONSTRAINT link_pkey;" \
	"ALTER TABLE #.link ADD PRIMARY KEY (target, source, rkey, did, authority)"

#define PUT \
	"INSERT INTO #.link AS l ({columns}) SELECT * FROM unnest({arrays}) ON CONFLICT (target, source, rkey, did) DO NOTHING"
#define PUT_BY_AUTHORITY \
	"INSERT INTO #.link AS l ({columns}, authority) SELECT u.*, @.aturi_repo(u.target) FROM unnest({arrays}) u ({columns})" \
	" ON CONFLICT (target, source, rkey, did, authority) DO NOTHING"
#define DELETE \
	"DELETE FROM #.link l USING unnest({arrays}) u (target, source, rkey, did)" \
	" WHERE l.target OPERATOR(@.=) u.target AND l.source = u.source AND l.rkey OPERATOR(@.=) u.rkey AND l.did OPERATOR(@.=) u.did"
#define TELL	" RETURNING l.target, l.source"
#define TOLD	{ATP_TYPE_ATURI, ATP_TYPE_INT4}

static const AtpStatement put_by_authority = {
	PUT_BY_AUTHORITY, SPI_OK_INSERT, {0}, {0}, &atp_link_table, ATP_ROWS_IN
};

static const AtpStatement put_by_authority_told = {
	PUT_BY_AUTHORITY TELL, SPI_OK_INSERT_RETURNING, {0}, TOLD, &atp_link_table, ATP_ROWS_IN
};

static const AtpStatement statements[] = {
	[ATP_PUT_LINKS] = {
		PUT, SPI_OK_INSERT, {0}, {0}, &atp_link_table, ATP_ROWS_IN | ATP_DIRECT, &put_by_authority
	},
	[ATP_DELETE_LINKS] = {
		DELETE, SPI_OK_DELETE, {0}, {0}, &atp_link_table, ATP_ROWS_IN | ATP_BY_KEY
	},
	[ATP_PUT_LINKS_TOLD] = {
		PUT TELL, SPI_OK_INSERT_RETURNING, {0}, TOLD, &atp_link_table, ATP_ROWS_IN, &put_by_authority_told
	},
	[ATP_DELETE_LINKS_TOLD] = {
		DELETE TELL, SPI_OK_DELETE_RETURNING, {0}, TOLD, &atp_link_table, ATP_ROWS_IN | ATP_BY_KEY
	},
};

const AtpTable atp_link_table = {
	.name = "link",
	.use = ATP_USE_LINKS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	/* one index: the links to a target from one source lie together, in the order of their record keys */
	.key = "PRIMARY KEY (target, source, rkey, did)",
	.comment = "links of records to records and accounts; each link of a record at a path is stored once",
	/*
	 * An account that was deleted and came back shows no links until its old links are purged, since link does not
	 * tell when a link came.
	 */
	.view = "visible_link",
	.view_query = "SELECT l.*, s.collection, s.path FROM #.link l"
	" JOIN #.link_source s ON s.id = l.source JOIN #.repo p ON p.did OPERATOR(@.=) l.did"
	" WHERE p.active AND p.hidden_at IS NULL AND p.purge_rev IS NULL",
	.view_comment = "links of active repositories that are not hidden, with their sources",
	.statements = statements,
	.nstatements = lengthof(statements),
	.shard_by = "authority",
	.shard_setup = SETUP,
	.routed_by = "target",
	.route = atp_link_authority,
};

struct varlena *
atp_link_authority(const struct varlena *target)
{
	const uint8_t *stored = (const uint8_t *) VARDATA_ANY(target);

	return atp_varlena(stored, atp_uri_repo_len(stored, VARSIZE_ANY_EXHDR(target)));
}

bool
atp_link_fits(const struct varlena *target, const struct varlena *rkey, const struct varlena *did)
{
	size_t		n = VARSIZE_ANY_EXHDR(target);
	size_t		authority = atp_uri_repo_len((const uint8_t *) VARDATA_ANY(target), n);

	return n + authority + VARSIZE_ANY_EXHDR(rkey) + VARSIZE_ANY_EXHDR(did) <= ATP_LINK_ENTRY_MAX;
}

/* SQL: atproto.link_fits(target, rkey, did) */
Datum
atp_link_fits_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(atp_link_fits(PG_GETARG_VARLENA_PP(0), PG_GETARG_VARLENA_PP(1), PG_GETARG_VARLENA_PP(2)));
}
