/*
 * options.h
 *		The command line of the simulator.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* What an event can be: first the kinds of records, each of its own collection. */
typedef enum Kind
{
	KIND_LIKE,
	KIND_POST,
	KIND_REPOST,
	KIND_FOLLOW,
	KIND_BLOCK,
	KIND_LISTITEM,
	KIND_LIST,
	KIND_PROFILE,				/* a second profile of an account replaces the first */
	KIND_THREADGATE,
	KIND_OTHER,
	KIND_STATUS,				/* of the application in examples/statusphere */
	RECORD_KINDS,
	KIND_DELETE = RECORD_KINDS, /* of any record */
	KIND_UPDATE,				/* of a post */
	KIND_IDENTITY,
	KIND_ACCOUNT,				/* an account goes, comes back, or is deleted */
	KIND_SYNC,
	KINDS
} Kind;

typedef struct Options
{
	uint64_t	events;
	uint64_t	accounts;		/* at the start */
	uint64_t	seed;
	uint64_t	history;		/* records of the largest repositories at the start */
	bool		social;			/* people who join, talk and answer: see social.h */
	uint64_t	start;			/* of the time that the stream tells of, in microseconds */
	uint64_t	span;			/* of it, or 0: 1 to 2 milliseconds an event */
	uint64_t	text;			/* mean length of a post's text, in bytes */
	double		batches;		/* percentage of commits with several operations */
	double		mix[KINDS];		/* weights */
	double		p256;			/* percentage of accounts with a key of this curve; the others have k256 */
	uint64_t	epoch;			/* messages between two changes of the directory; 0: none */
	uint64_t	rotations;		/* accounts that get a new key with each change of the directory */
	uint64_t	migrations;		/* accounts that move to a new host, and get a new key, with each change */
	const char *directory;		/* for documents and keys, or NULL */
	const char *exports;		/* directory for all repositories at each of them and at the end, or NULL */
	const char *export;			/* DID,REV,FILE: one repository as it was, or NULL */
	bool		sign;
	uint64_t	after;			/* the last sequence number of an earlier network, whose stream goes on with this network */
	const char *leave;			/* file with a DID in each line: accounts of an earlier network, deleted before all else; or NULL */
	const char *expect;			/* directory, or NULL */
	const char *output;			/* file; NULL: standard output */
} Options;

extern void options_parse(Options *o, int argc, char **argv);

#endif							/* SIM_OPTIONS_H */
