/*
 * link_source.c
 *		The table link_source: where in records of a collection links stand.
 */
#include "postgres.h"

#include "core/link.h"
#include "tables/link.h"

static const AtpColumn columns[] = {
	{"id", ATP_TYPE_INT4, ATP_KEY, "PRIMARY KEY",
	"up to " CppAsString2(ATP_LINK_SOURCES_MAX) ": records have brought it; above: somebody has named it"},
	{"collection", ATP_TYPE_NSID, ATP_VALUE, "NOT NULL"},
	{"path", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL CHECK (octet_length(path) <= " CppAsString2(ATP_LINK_PATH_MAX) ")",
	"as record_links() gives it"},
};

const AtpTable atp_link_source_table = {
	.name = "link_source",
	.use = ATP_USE_LINKS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "UNIQUE (collection, path)",
	.comment = "where links stand: link.source is one of these",
	.shard_by = ATP_EVERYWHERE,
};
