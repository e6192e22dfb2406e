/*
 * dns.c
 *		Look-ups of TXT records through c-ares: see dns.h.
 */
#include "postgres.h"

#ifdef ATP_CARES
#define CARES_NO_DEPRECATED		/* the replacements of deprecated functions are missing in older versions of c-ares */
#include <ares.h>
#include <arpa/nameser.h>
#endif

#include "core/wire/dns_txt.h"
#include "net/dns.h"
#include "net/poll.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"

static char *name_servers;

void
atp_dns_init(void)
{
	DefineCustomStringVariable("atproto.name_servers",
							   "Name servers that are asked for the TXT records of handles.",
							   "Addresses, each perhaps with a port, separated by commas; empty: those of the operating system.",
							   &name_servers, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
}

#ifndef ATP_CARES

const bool	atp_dns_supported = false;

void
atp_dns_begin(void)
{
}

void
atp_dns_txt(const char *name, AtpDnsString string, AtpDnsDone done, void *arg)
{
	done(arg, ATP_DNS_FAILED, "this build has no c-ares");
}

void
atp_dns_pump(AtpTime now)
{
}

long
atp_dns_timeout(AtpTime now)
{
	return -1;
}

int
atp_dns_running(void)
{
	return 0;
}

#else

const bool	atp_dns_supported = true;

/* Time limit of one try; the second try may go to another name server. */
#define TRY_MS			1000
#define TRIES			2
/* Largest answer by UDP, in bytes: this size passes all networks without fragmentation. */
#define UDP_MAX			1232
/*
 * A channel keeps the name servers configured when it was made, so a new channel replaces it after this time.
 */
#define CHANNEL_MS		60000

typedef struct LookUp
{
	ares_channel channel;
	char	   *name;
	AtpDnsString string;
	AtpDnsDone	done;			/* NULL: done() has been called already, after the time limit */
	void	   *arg;
	AtpTime		begun;
	struct LookUp *next;
} LookUp;

static ares_channel channel = NULL;
static ares_channel former = NULL;	/* the channel before, kept until its look-ups have ended */
static AtpTime made_at;
static char *made_for = NULL;	/* atproto.name_servers */
static LookUp *look_ups = NULL;

/* --- the channel --- */

/* Let c-ares handle ready sockets.  Each channel recognizes its own sockets and ignores others. */
static void
process_sockets(ares_socket_t readable, ares_socket_t writable)
{
	if (channel != NULL)
		ares_process_fd(channel, readable, writable);
	if (former != NULL)
		ares_process_fd(former, readable, writable);
}

static bool
is_in_use(ares_channel which)
{
	for (const LookUp *it = look_ups; it != NULL; it = it->next)
		if (it->channel == which)
			return true;
	return false;
}

/* Destroy the former channel; look-ups still running on it fail. */
static void
end_former(void)
{
	ares_channel which = former;

	former = NULL;
	if (which != NULL)
		ares_destroy(which);
}

static void
socket_ready(pgsocket fd, uint32 events, void *arg)
{
	process_sockets((events & WL_SOCKET_READABLE) ? fd : ARES_SOCKET_BAD,
					(events & WL_SOCKET_WRITEABLE) ? fd : ARES_SOCKET_BAD);
}

static void
socket_state(void *data, ares_socket_t fd, int readable, int writable)
{
	atp_poll_set(fd, (readable ? WL_SOCKET_READABLE : 0) | (writable ? WL_SOCKET_WRITEABLE : 0), socket_ready, NULL);
}

/*
 * Replace the channel.  A channel's options cannot change while look-ups run on it, so changed settings need
 * a new channel.
 */
static void
make_channel(AtpTime now)
{
	struct ares_options options = {
		.flags = ARES_FLAG_EDNS,
		.timeout = TRY_MS,
		.tries = TRIES,
		.ednspsz = UDP_MAX,
		.sock_state_cb = socket_state
	};
	int			mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ | ARES_OPT_SOCK_STATE_CB;
	int			rc;

#ifdef ARES_OPT_QUERY_CACHE
	/*
	 * No query cache (a maximum age of zero seconds): a handle is looked up again to see whether the record
	 * has changed.
	 */
	mask |= ARES_OPT_QUERY_CACHE;
#endif
	end_former();
	former = channel;
	channel = NULL;
	rc = ares_init_options(&channel, &options, mask);
	if (rc == ARES_SUCCESS && name_servers[0] != '\0')
	{
		rc = ares_set_servers_ports_csv(channel, name_servers);
		if (rc != ARES_SUCCESS)
			ereport(LOG,
					(errmsg("invalid value for parameter \"%s\": \"%s\"", "atproto.name_servers", name_servers),
					 errdetail("%s", ares_strerror(rc))));
	}
	else if (rc != ARES_SUCCESS)
		ereport(ERROR, (errmsg("could not begin to use the domain name system: %s", ares_strerror(rc))));
	made_at = now;
	if (made_for != NULL)
		pfree(made_for);
	made_for = MemoryContextStrdup(TopMemoryContext, name_servers);
}

void
atp_dns_begin(void)
{
	int			rc = ares_library_init(ARES_LIB_INIT_ALL);

	if (rc != ARES_SUCCESS)
		ereport(ERROR, (errmsg("could not begin to use the domain name system: %s", ares_strerror(rc))));
}

/* --- look-ups --- */

/* Pass the outcome of a look-up to its callbacks. */
static void
give_outcome(const LookUp *it, int status, const unsigned char *message, int len)
{
	unsigned	records = 0;

	/*
	 * Parse the answer ourselves: c-ares' parser takes the TXT records of every name in the answer, and in
	 * some versions of every class.
	 */
	if (status == ARES_SUCCESS && !atp_dns_txt_read(message, len, it->name, it->string, it->arg, &records))
		status = ARES_EBADRESP;
	if (status == ARES_SUCCESS)
		it->done(it->arg, records > 0 ? ATP_DNS_RECORDS : ATP_DNS_NONE, NULL);
	else if (status == ARES_ENODATA || status == ARES_ENOTFOUND)
		it->done(it->arg, ATP_DNS_NONE, NULL);
	else
		it->done(it->arg, ATP_DNS_FAILED, ares_strerror(status));
}

static void
on_answer(void *arg, int status, int timeouts, unsigned char *message, int len)
{
	LookUp	   *it = arg;

	for (LookUp **p = &look_ups; *p != NULL; p = &(*p)->next)
		if (*p == it)
		{
			*p = it->next;
			break;
		}
	if (it->done != NULL)
		give_outcome(it, status, message, len);
	pfree(it->name);
	pfree(it);
}

void
atp_dns_txt(const char *name, AtpDnsString string, AtpDnsDone done, void *arg)
{
	AtpTime		now = atp_now();
	LookUp	   *it;

	if (!is_in_use(former))
		end_former();
	if (channel == NULL || strcmp(made_for, name_servers) != 0 ||
		(former == NULL && atp_remaining(now, made_at, CHANNEL_MS) == 0))
		make_channel(now);
	it = MemoryContextAlloc(TopMemoryContext, sizeof(LookUp));
	*it = (LookUp) {channel, MemoryContextStrdup(TopMemoryContext, name), string, done, arg, now, look_ups};
	look_ups = it;
	ares_query(channel, name, ns_c_in, ns_t_txt, on_answer, it);
}

void
atp_dns_pump(AtpTime now)
{
	if (look_ups == NULL)
		return;
	process_sockets(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	/*
	 * c-ares cannot cancel a single look-up.  After the time limit the caller gets its answer, and the
	 * look-up ends by itself later.
	 */
	for (LookUp *it = look_ups; it != NULL; it = it->next)
		if (it->done != NULL && atp_remaining(now, it->begun, ATP_DNS_MS) == 0)
		{
			AtpDnsDone	done = it->done;

			it->done = NULL;
			done(it->arg, ATP_DNS_FAILED, "the name servers do not answer");
		}
}

static long
timeout_of(ares_channel which)
{
	struct timeval wait = {ATP_DNS_MS / 1000, 0};
	struct timeval most = wait;

	if (which != NULL)
		(void) ares_timeout(which, &most, &wait);
	return wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1;
}

long
atp_dns_timeout(AtpTime now)
{
	long		ms;

	if (look_ups == NULL)
		return -1;
	ms = Min(timeout_of(channel), timeout_of(former));
	for (LookUp *it = look_ups; it != NULL; it = it->next)
		if (it->done != NULL)
			ms = Min(ms, atp_remaining(now, it->begun, ATP_DNS_MS));
	return ms;
}

int
atp_dns_running(void)
{
	int			n = 0;

	for (LookUp *it = look_ups; it != NULL; it = it->next)
		n += it->done != NULL;
	return n;
}

#endif
