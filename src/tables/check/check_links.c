/*
 * check_links.c
 *		Invariants of the table link, which has the links of all records if a subscription keeps
 *		links.
 */
#include "postgres.h"

#include "tables/check/check.h"
#include "tables/records/table_link.h"

/* No row: no subscription keeps links, and the table is not checked. */
#define WANTED_LINKS "(" ATP_WANTED_LINKS " HAVING count(*) > 0) w"
#define IS_WANTED	"(w.links IS NULL OR s.collection::text || ':' || s.path LIKE ANY (w.links))"

#define OBJECT(target)	"format('%s:%s %s', s.collection, s.path, " target ")"
#define REBUILD			"SELECT atproto.rebuild_links({target})"

const AtpInvariant atp_check_links[] = {
	{
		"link is missing", "#.record #.link! #.link_source atproto.subscription!", ATP_CHECK_PLAIN | ATP_CHECK_WHOLE,
		"SELECT DISTINCT p.did, " OBJECT("p.target") ", format('record key %s', p.rkey)"
		" FROM " WANTED_LINKS " CROSS JOIN " ATP_LINK_PLACES("(SELECT * FROM #.record{sample})") " p JOIN #.link_source s ON " ATP_IS_LINK_SOURCE
		" LEFT JOIN #.link l ON l.target OPERATOR(@.=) p.target AND l.source = s.id AND l.rkey OPERATOR(@.=) p.rkey AND l.did OPERATOR(@.=) p.did"
		" WHERE " IS_WANTED " AND l.did IS NULL",
		REBUILD
	},
	{
		"link of no record", "#.record! #.link #.link_source atproto.subscription!", ATP_CHECK_PLAIN | ATP_CHECK_WHOLE,
		"SELECT l.did, " OBJECT("l.target") ", format('record key %s', l.rkey)"
		" FROM " WANTED_LINKS " CROSS JOIN #.link l{sample} JOIN #.link_source s ON s.id = l.source"
		" LEFT JOIN #.record r ON r.did OPERATOR(@.=) l.did AND r.collection OPERATOR(@.=) s.collection AND r.rkey OPERATOR(@.=) l.rkey"
		" WHERE r.did IS NULL OR NOT EXISTS (SELECT 1 FROM " ATP_STORED_LINKS " k"
		"  WHERE k.target OPERATOR(@.=) l.target AND k.path = s.path)",
		REBUILD
	},
	{
		"link that is not wanted", "#.link #.link_source atproto.subscription!", 0,
		"SELECT NULL, format('%s:%s', s.collection, s.path), format('%s links', count(*))"
		" FROM " WANTED_LINKS " JOIN #.link_source s ON NOT " IS_WANTED " JOIN #.link l{sample} ON l.source = s.id GROUP BY s.collection, s.path",
		REBUILD
	},
	{
		"link without a source", "#.link #.link_source!", 0,
		"SELECT l.did, format('source %s', l.source), format('record key %s, target %s', l.rkey, l.target)"
		" FROM #.link l{sample} LEFT JOIN #.link_source s ON s.id = l.source WHERE s.id IS NULL",
		REBUILD
	},
	{
		"count of links is wrong", "#.link! #.link_count #.link_source.counted!", ATP_CHECK_PLAIN,
		"SELECT NULL, format('source %s, %s', c.source, c.target), format('the count is %s, the table link has %s', COALESCE(c.n::text, 'null'), CASE WHEN s.counted THEN l.n::text ELSE 'no counted source' END)"
		" FROM #.link_count c{sample} LEFT JOIN #.link_source s ON s.id = c.source CROSS JOIN LATERAL"
		"  (SELECT count(*) AS n FROM #.link l WHERE l.target OPERATOR(@.=) c.target AND l.source = c.source) l"
		" WHERE s.counted IS NOT TRUE OR c.n IS DISTINCT FROM l.n OR l.n = 0",
		REBUILD
	},
	{
		"links without their count", "#.link #.link_count! #.link_source.counted", ATP_CHECK_PLAIN | ATP_CHECK_WHOLE,
		"SELECT DISTINCT NULL::@.did, " OBJECT("l.target") ", 'link_count has no row'"
		" FROM #.link l{sample} JOIN #.link_source s ON s.id = l.source AND s.counted"
		" LEFT JOIN #.link_count c ON c.target OPERATOR(@.=) l.target AND c.source = l.source WHERE c.target IS NULL",
		REBUILD
	},
	{NULL}
};
