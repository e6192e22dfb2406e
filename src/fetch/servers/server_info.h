/*
 * server_info.h
 *		Limits of table host_question, which queues requests of describe_server() and host_status()
 *		for the fetcher.
 */
#ifndef ATP_SERVER_INFO_H
#define ATP_SERVER_INFO_H

/* The fetcher gives up requests that are older. */
#define ATP_QUESTION_DEAD	"interval '1 minute'"

/* Unanswered requests at a time. */
#define ATP_QUESTIONS_MAX	100

#endif							/* ATP_SERVER_INFO_H */
