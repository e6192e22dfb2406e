/*
 * check_nodes.c
 *		Invariants of the nodes of Citus: each has what the coordinator knows to be there.
 */
#include "postgres.h"

#include "tables/check/check.h"
#include "tables/records/table_link.h"

/* Between the commits of the coordinator and of a node, the node has the number before: pg_dist_transaction has a row then. */
#define IS_SETTLED(node)	"NOT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_transaction t WHERE t.groupid = " node ")"

const AtpInvariant atp_check_nodes[] = {
	{
		"node is behind", "#.node_mark! #.node_written", ATP_CHECK_NODES,
		"WITH m AS MATERIALIZED (SELECT did, writer, number FROM #.node_mark)"
		" SELECT NULL, format('node %s, writer %s', w.node, w.writer), format('its rows are of transaction %s, the last one that wrote there was %s', COALESCE(m.number, 0), w.number)"
		" FROM #.node_written w LEFT JOIN m ON m.did OPERATOR(@.=) w.did AND m.writer = w.writer"
		" WHERE COALESCE(m.number, 0) < w.number AND " IS_SETTLED("w.node"),
		"A consumer marks its repositories when the consumer starts. See Standbys and restores in doc/operate/citus.md."
	},
	{
		"links of a node are missing", "#.node_written atproto.subscription!", 0,
		"SELECT NULL, format('node %s', w.node), format('it came back with older rows, which was noticed at %s', max(w.behind_since)) FROM #.node_written w"
		" WHERE w.behind_since IS NOT NULL AND EXISTS (SELECT 1 FROM (" ATP_WANTED_LINKS " HAVING count(*) > 0) s) GROUP BY w.node",
		"SELECT atproto.rebuild_links({target})"
	},
	{NULL}
};
