/*
 * server_info.h
 *		Limits of table server_info_request, which queues requests of describe_server() and host_status()
 *		for the fetcher.
 */
#ifndef ATP_SERVER_INFO_H
#define ATP_SERVER_INFO_H

/* The fetcher gives up requests that are older. */
#define ATP_SERVER_INFO_EXPIRY	"interval '1 minute'"

/* Unanswered requests at a time. */
#define ATP_SERVER_INFO_MAX	100

/* Answers that are kept, each for a day at most. */
#define ATP_SERVER_INFO_KEPT	1000

#endif							/* ATP_SERVER_INFO_H */
