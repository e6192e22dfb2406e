/*
 * uri_analyze.h
 *		The statistics that uri_analyze.c makes and uri_support.c reads.
 */
#ifndef ATP_URI_ANALYZE_H
#define ATP_URI_ANALYZE_H

/* PostgreSQL leaves 10000 to 30000 to everybody.  Its numbers are shares of a column. */
#define ATP_STATISTIC_KIND_URI		17479

enum
{
	ATP_STATISTIC_URI_REPO,		/* of the average repository */
	ATP_STATISTIC_URI_COLLECTION,	/* of the average collection of a repository */
	/* of that of the average row, those aside that the histogram shows */
	ATP_STATISTIC_URI_REPO_OF_ROW,
	ATP_STATISTIC_URI_COLLECTION_OF_ROW,
	ATP_STATISTIC_URI_NUMBERS
};

#endif							/* ATP_URI_ANALYZE_H */
