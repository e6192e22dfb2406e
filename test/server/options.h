/*
 * options.h
 *		The command line: what to serve, and which faults to make.
 */
#ifndef SRV_OPTIONS_H
#define SRV_OPTIONS_H

#include "buffer.h"
#include "capture.h"
#include "compress.h"

#include <stdbool.h>

/* What is done before the message with a given seq is sent. */
typedef enum FaultKind
{
	FAULT_MESSAGES,				/* send extra messages */
	FAULT_ERROR,				/* send an error message and close */
	FAULT_TEXT,					/* send a text message */
	FAULT_BINARY,				/* send a binary message, uncompressed */
	FAULT_PING,					/* send a ping */
	FAULT_RAW,					/* write bytes that are no WebSocket frame of ours */
	FAULT_DUP,					/* send the message twice */
	FAULT_SWAP					/* send the message after its successor */
} FaultKind;

typedef struct Fault
{
	FaultKind	kind;
	int64_t		at;				/* a seq; 0: at the start of every connection */
	Capture		messages;
	Buffer		bytes;			/* of TEXT, BINARY and RAW */
} Fault;

#define FAULTS_MAX	64
#define HOLDS_MAX	64
#define NEVER		(-1)

typedef struct Options
{
	/* what is served, and where */
	const char *bind;
	const char *port;
	const char *port_file;
	const char *log;
	const char *tls_cert;
	const char *tls_key;
	bool		exit_on_eof;
	Capture		capture;
	int64_t		live_start;		/* NEVER: the end of the capture */
	int64_t		oldest;
	bool		inclusive;
	bool		close_at_end;
	Dictionary *dictionary;		/* NULL: nothing is compressed */
	bool		zstd_unsized;
	double		rate;			/* messages a second; 0: as fast as it goes */
	int64_t		rate_from;		/* what is before comes as fast as it goes */
	int64_t		hold[HOLDS_MAX];
	unsigned	nholds;

	/* faults of the upgrade */
	int			status;
	const char *retry_after;
	const char *redirect;
	const char *body_file;
	int64_t		body_size;
	int64_t		interim;
	bool		bad_accept;
	bool		no_upgrade_reply;
	int64_t		status_times;	/* how many connections; NEVER: all */

	/* faults of the stream, by number of messages sent on the connection */
	int64_t		cut_after;
	int64_t		cut_inside;
	bool		cut_reset;
	int64_t		cut_times;
	int64_t		close_after;
	int			close_code;
	int64_t		stall_after;

	/* faults of the stream, by seq */
	Fault		fault[FAULTS_MAX];
	unsigned	nfaults;
	int64_t		skip_from;
	int64_t		skip_to;

	/* faults of the whole connection */
	int64_t		trickle_bytes;
	int64_t		trickle_usec;
	int64_t		fragment;
	bool		ignore_pings;
	int64_t		fault_times;	/* of every fault but status and cut */
} Options;

extern void options_parse(Options *o, int argc, char **argv);
extern void options_free(Options *o);

#endif							/* SRV_OPTIONS_H */
