/*
 * uri_analyze.h
 *		The statistics that uri_analyze.c computes and uri_support.c reads.
 */
#ifndef ATP_URI_ANALYZE_H
#define ATP_URI_ANALYZE_H

/* PostgreSQL leaves the kinds 10000 to 30000 to private use.  The numbers are shares of a column. */
#define ATP_STATISTIC_KIND_URI		17479

enum
{
	ATP_STATISTIC_URI_REPO,		/* the average repository */
	ATP_STATISTIC_URI_COLLECTION,	/* the average collection of a repository */
	/* the group of the average row, without groups larger than a bin of the histogram */
	ATP_STATISTIC_URI_REPO_OF_ROW,
	ATP_STATISTIC_URI_COLLECTION_OF_ROW,
	ATP_STATISTIC_URI_NUMBERS
};

#endif							/* ATP_URI_ANALYZE_H */
