/*
 * link_source.c
 *		The table link_source: the collections and paths at which records have links.
 */
#include "postgres.h"

#include "core/repo/link.h"
#include "executor/spi.h"
#include "tables/records/table_link.h"

static const AtpColumn columns[] = {
	{"id", ATP_TYPE_INT4, ATP_KEY, "PRIMARY KEY",
	"up to " CppAsString2(ATP_LINK_SOURCES_MAX) ": brought by a record; above: named by an operator or a subscription"},
	{"collection", ATP_TYPE_NSID, ATP_VALUE, "NOT NULL", "collection of the records that link"},
	{"path", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL CHECK (octet_length(path) <= " CppAsString2(ATP_LINK_PATH_MAX) ")",
	"path of the link in these records, as record_links() gives it, for example subject.uri"},
	{"counted", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL DEFAULT false", "true: link_count has the number of links from this source; set by count_links()"},
};

#define BROUGHT		CppAsString2(ATP_LINK_SOURCES_MAX)
#define SOURCES_ARGS	ATP_ARRAY(ATP_TYPE_NSID), ATP_ARRAY(ATP_TYPE_TEXT)

/*
 * Inserts sources with the next ids, in the order of the arguments.  A process that inserts the same ids at the same
 * time is waited for; ON CONFLICT then inserts nothing, and the caller looks the sources up again.
 */
#define ADD(last, limit) \
	"INSERT INTO #.link_source (id, collection, path) SELECT (l.id + u.n)::integer, u.collection, u.path" \
	" FROM (SELECT " last " FROM #.link_source) l (id), unnest($1, $2) WITH ORDINALITY u (collection, path, n)" limit \
	" ORDER BY u.n ON CONFLICT DO NOTHING"

#define FIND(more) { \
	"SELECT u.n, s.id, s.counted FROM unnest($1, $2, $3) u (collection, path, n)" \
	" JOIN #.link_source s ON s.collection OPERATOR(@.=) u.collection AND s.path = u.path" more, \
	SPI_OK_SELECT, {SOURCES_ARGS, ATP_ARRAY(ATP_TYPE_INT4)}, {ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_BOOL}, \
	&atp_link_source_table, ATP_PLANNED_ANEW \
}

static const AtpStatement statements[] = {
	[ATP_FIND_SOURCES] = FIND(""),
	[ATP_LOCK_SOURCES] = FIND(" FOR SHARE OF s"),
	[ATP_ADD_SOURCES] = {
		ADD("COALESCE(max(id) FILTER (WHERE id <= " BROUGHT "), 0)", " WHERE l.id + u.n <= " BROUGHT),
		SPI_OK_INSERT, {SOURCES_ARGS}, {0}, &atp_link_source_table
	},
	[ATP_NAME_SOURCES] = {
		ADD("GREATEST(max(id), " BROUGHT ")", ""),
		SPI_OK_INSERT, {SOURCES_ARGS}, {0}, &atp_link_source_table
	},
	[ATP_LAST_SOURCE] = {
		"SELECT COALESCE(max(id), 0) FROM #.link_source WHERE id <= " BROUGHT,
		SPI_OK_SELECT, {0}, {ATP_TYPE_INT4}, &atp_link_source_table
	},
};

const AtpTable atp_link_source_table = {
	.name = "link_source",
	.use = ATP_USE_LINKS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "UNIQUE (collection, path)",
	.comment = "sources of links: collection of the linking records and path in them; link.source refers to a row",
	.statements = statements,
	.nstatements = lengthof(statements),
	.shard_by = ATP_EVERYWHERE,
};
