/*
 * dns.h
 *		TXT records, many look-ups at a time, through c-ares.
 *
 * Nothing here waits, or minds a transaction.  A look-up is started, atp_dns_pump()
 * moves all of them on, and each is taken when it has ended.  The sockets are in
 * the set of poll.h.  A build without c-ares has atp_dns_supported false, and
 * nothing else here may be called then.
 */
#ifndef ATP_DNS_H
#define ATP_DNS_H

#include "postgres.h"

#include "common/clock.h"

extern const bool atp_dns_supported;

/* The whole of a look-up, W-55. */
#define ATP_DNS_MS		3000

typedef enum AtpDnsOutcome
{
	ATP_DNS_RECORDS,			/* all of them were given to the function */
	ATP_DNS_NONE,				/* there is no such name, or it has no such record */
	ATP_DNS_FAILED				/* no answer, or none that can be understood */
} AtpDnsOutcome;

/* The strings of the records in their order; first: a record begins.  It must not raise an ERROR. */
typedef void (*AtpDnsString) (void *arg, const char *s, size_t n, bool first);

/* The end, after all strings; error is for people, with ATP_DNS_FAILED.  It must not raise an ERROR. */
typedef void (*AtpDnsDone) (void *arg, AtpDnsOutcome outcome, const char *error);

/* From _PG_init(): the setting. */
extern void atp_dns_init(void);

/* Once in a process, after atp_poll_begin().  Raises an ERROR when there is no memory. */
extern void atp_dns_begin(void);

/*
 * Look up the TXT records of a name.  done() is called once, perhaps before this
 * returns, else from atp_dns_pump() or while the sockets are served.
 */
extern void atp_dns_txt(const char *name, AtpDnsString string, AtpDnsDone done, void *arg);

/* Whatever is over time ends; to be called in each round. */
extern void atp_dns_pump(AtpTime now);

/* Milliseconds until atp_dns_pump() has something to do; -1: nothing. */
extern long atp_dns_timeout(AtpTime now);

/* How many look-ups run. */
extern int	atp_dns_running(void);

#endif							/* ATP_DNS_H */
