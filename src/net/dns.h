/*
 * dns.h
 *		Look-ups of TXT records, many at a time, through c-ares.
 *
 * No function here waits or needs a transaction, and a transaction may be open. atp_dns_txt() starts a
 * look-up, atp_dns_pump() advances all look-ups, and a callback gets the result.  The sockets are in
 * the set of poll.h.  In a build without c-ares atp_dns_supported is false, and no look-up may be
 * started.
 */
#ifndef ATP_DNS_H
#define ATP_DNS_H

#include "postgres.h"

#include "common/clock.h"

extern const bool atp_dns_supported;

/* Time limit of a whole look-up, W-55. */
#define ATP_DNS_MS		3000

typedef enum AtpDnsOutcome
{
	ATP_DNS_RECORDS,			/* the string callback got all records */
	ATP_DNS_NONE,				/* the name does not exist, or has no TXT record */
	ATP_DNS_FAILED				/* no answer, or an answer that cannot be parsed */
} AtpDnsOutcome;

/*
 * Called for the strings of the records, in order; first: the string begins a record.  Must not raise an
 * ERROR.
 */
typedef void (*AtpDnsString) (void *arg, const char *s, size_t n, bool first);

/* Called once, after all strings; error is for people, set with ATP_DNS_FAILED.  Must not raise an ERROR. */
typedef void (*AtpDnsDone) (void *arg, AtpDnsOutcome outcome, const char *error);

/* From _PG_init(): the setting. */
extern void atp_dns_init(void);

/* Once in a process, after atp_poll_begin().  Raises an ERROR when there is no memory. */
extern void atp_dns_begin(void);

/*
 * Look up the TXT records of a name. done() is called once: perhaps before this function returns, else from
 * atp_dns_pump() or while the sockets are served.  Raises an ERROR when c-ares cannot be initialized.
 */
extern void atp_dns_txt(const char *name, AtpDnsString string, AtpDnsDone done, void *arg);

/* Ends look-ups that have reached their time limit; call in each round of the main loop. */
extern void atp_dns_pump(AtpTime now);

/* Milliseconds until atp_dns_pump() has work; -1: no look-up is running. */
extern long atp_dns_timeout(AtpTime now);

/* The number of look-ups whose callback is still to be called. */
extern int	atp_dns_running(void);

#endif							/* ATP_DNS_H */
