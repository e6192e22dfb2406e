/*
 * archive_plan.h
 *		A page of network.bsky.jetstream.planSnapshot (H-20): the segments, or ranges of blocks of segments, that may
 *		have the rows of a request; and the request.
 *
 * The whole page is checked before the first unit is handed out, so that no unit of a faulty page is used.
 */
#ifndef ATP_ARCHIVE_PLAN_H
#define ATP_ARCHIVE_PLAN_H

#include "core/archive/archive.h"
#include "core/archive/segment_name.h"
#include "core/codec/json.h"

#define ATP_PLAN_MAX				(UINT32_C(32) << 20)	/* bytes of a page */
#define ATP_PLAN_DEPTH_MAX			16
#define ATP_PLAN_UNITS_MAX			200000
#define ATP_PLAN_COLLECTIONS_MAX	100
#define ATP_PLAN_DIDS_MAX			10000

/* A whole segment, or a range of blocks of a segment. */
typedef struct AtpPlanUnit
{
	uint64_t	segment;		/* index of the segment: see segment_name.h */
	uint64_t	min_seq;		/* of the segment's rows */
	uint64_t	max_seq;
	bool		is_whole;
	uint32_t	first;			/* the first and the last block of the range; 0 for a whole segment */
	uint32_t	last;
} AtpPlanUnit;

/* Goes through the units of a page.  The units must be applied in this order, which is the order of the sequence numbers. */
typedef struct AtpPlanUnits
{
	const char *start;			/* of the page */
	AtpJsonReader segments;
	AtpJsonReader ranges;		/* of the present segment */
	bool		in_ranges;
	bool		has_segment;	/* unit is a segment that has been read */
	uint64_t	next_block;		/* the next range begins here or later */
	AtpPlanUnit unit;
} AtpPlanUnits;

typedef struct AtpPlan
{
	uint64_t	sealed_tip_seq; /* last sequence number of the sealed archive, at most before_seq of the request; 0: empty archive */
	uint64_t	planned_through_seq;	/* the page covers what was asked up to here */
	uint64_t	blocks_matched; /* blocks that have to be read, of whole segments, too: what the plan costs */
	uint32_t	units;
	AtpBytes	segments;		/* the page's list of segments */
	const char *start;
} AtpPlan;

/* Checks the page in s.  The text must stay in place while its units are read. */
extern AtpErr atp_plan_parse(const char *s, size_t n, AtpPlan *plan, size_t *at);

extern void atp_plan_units_begin(AtpPlanUnits *units, const AtpPlan *plan);

/* The next unit; ATP_E_JSON_END after the last.  There is no other error for a page that atp_plan_parse() accepts. */
extern AtpErr atp_plan_units_next(AtpPlanUnits *units, size_t *at);

/* Kinds of events that a request names. */
#define ATP_PLAN_COMMIT		0x01
#define ATP_PLAN_IDENTITY	0x02
#define ATP_PLAN_ACCOUNT	0x04
#define ATP_PLAN_SYNC		0x08

typedef struct AtpPlanRequest
{
	unsigned	kinds;			/* 0: all */
	const AtpSpan *collections; /* NSIDs, or authorities followed by ".*" */
	size_t		ncollections;	/* 0: all */
	const AtpSpan *dids;
	size_t		ndids;			/* 0: all */
	uint64_t	after_seq;		/* least sequence number, exclusive ... */
	uint64_t	before_seq;		/* ... and greatest, inclusive; 0: to the end of the sealed archive */
} AtpPlanRequest;

/*
 * Writes the body of the request.  *n is its length: if it is above room, out has only the first part.  An error for
 * what a server would refuse, so that nothing else can be written into the JSON than these values.
 */
extern AtpErr atp_plan_request_write(const AtpPlanRequest *request, char *out, size_t room, size_t *n);

#endif							/* ATP_ARCHIVE_PLAN_H */
