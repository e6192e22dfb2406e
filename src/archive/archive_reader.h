/*
 * archive_reader.h
 *		Reads the archive of a Jetstream over HTTP: asks for plans, receives segments and blocks, and hands out rows in the
 *		order of their numbers (H-10 to H-16, H-20 to H-23).
 *
 * H-02: no function here waits, or touches a table.  The caller pumps net/http.h, and calls atp_archive_next() again and again.
 * H-41: bytes received ahead are bounded by AtpArchiveOptions.memory; one decoded block is in memory, too.
 */
#ifndef ATP_ARCHIVE_READER_H
#define ATP_ARCHIVE_READER_H

#include "postgres.h"

#include "core/archive/archive_block.h"
#include "core/archive/archive_plan.h"

typedef struct AtpArchive AtpArchive;

/* The server, and what to ask for; copied, except the lists of the filter, which must live as long. */
typedef struct AtpArchiveOptions
{
	const char *origin;			/* scheme and host */
	const char *methods;		/* authority of the XRPC methods */
	const char *headers;		/* lines "Name: value\r\n" for these requests (H-15) */
	const char *ca_file;
	const char *proxy;
	size_t		memory;			/* bytes that are received ahead at most */
	size_t		block_max;		/* bytes of a decompressed block at most (H-21) */
	AtpPlanRequest filter;		/* kinds, collections, dids */
} AtpArchiveOptions;

typedef enum AtpArchiveStep
{
	ATP_ARCHIVE_ROW,			/* *row is the next row, valid until the next call; it may be outside of the filter and the range */
	ATP_ARCHIVE_BLOCK_READ,		/* all rows of a block were handed out */
	ATP_ARCHIVE_WAITS,			/* for the network */
	ATP_ARCHIVE_PLANNED,		/* a page of the plan has come: see atp_archive_plan_of() */
	ATP_ARCHIVE_PAGE_READ,		/* the rows of the page were handed out */
	ATP_ARCHIVE_FAILED			/* see atp_archive_error() */
} AtpArchiveStep;

/* Bytes and blocks since the last call of atp_archive_counts(). */
typedef struct AtpArchiveCounts
{
	int64		bytes;
	int64		blocks;
} AtpArchiveCounts;

extern AtpArchive *atp_archive_new(const AtpArchiveOptions *options);

/* Was the reader made with these limits? */
extern bool atp_archive_has_limits(const AtpArchive *a, size_t memory, size_t block_max);

/* Change the filter of the pages asked for from now on; its lists must live as long. */
extern void atp_archive_filter(AtpArchive *a, const AtpPlanRequest *filter);

/* Ask for a page: rows above after, up to the tip; tip 0: up to the end of the archive.  Transfers of the page before end. */
extern void atp_archive_plan(AtpArchive *a, int64 after, int64 tip);

extern AtpArchiveStep atp_archive_next(AtpArchive *a, AtpArchiveRow *row);

/* The page of ATP_ARCHIVE_PLANNED. */
extern const AtpPlan *atp_archive_plan_of(const AtpArchive *a);

/* Why the last step failed; for people. */
extern const char *atp_archive_error(const AtpArchive *a);

/* After a failure: seconds for which the server wants to be left alone; 0: none. */
extern int	atp_archive_rest_s(const AtpArchive *a);

/* After a failure: the server does not accept the token (H-15). */
extern bool atp_archive_is_denied(const AtpArchive *a);

/* After a failure: the server does not accept the request of a page; a list of the filter may be too long for it (H-27). */
extern bool atp_archive_is_refused(const AtpArchive *a);

/* After a failure: a block was refused for the third time (H-22), and will hardly become right soon. */
extern bool atp_archive_stays_bad(const AtpArchive *a);

/*
 * Request the missing bytes of the failed transfer (H-14).  False: the page has to be planned anew, because the server has no such
 * segment or block.
 */
extern bool atp_archive_again(AtpArchive *a);

extern AtpArchiveCounts atp_archive_counts(AtpArchive *a);

/* NULL is allowed. */
extern void atp_archive_free(AtpArchive *a);

#endif							/* ATP_ARCHIVE_READER_H */
