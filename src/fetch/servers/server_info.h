/*
 * server_info.h
 *		Questions to hosts, as table host_question keeps them.
 */
#ifndef ATP_SERVER_INFO_H
#define ATP_SERVER_INFO_H

/* Who has asked waits no longer than this, and the fetcher asks no later. */
#define ATP_QUESTION_DEAD	"interval '1 minute'"

/* What is unanswered at a time. */
#define ATP_QUESTIONS_MAX	100

#endif							/* ATP_SERVER_INFO_H */
