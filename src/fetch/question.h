/*
 * question.h
 *		Questions to hosts, as table host_question keeps them.
 */
#ifndef ATP_QUESTION_H
#define ATP_QUESTION_H

/* Who has asked waits no longer than this, and the fetcher asks no later. */
#define ATP_QUESTION_DEAD	"interval '1 minute'"

/* What is unanswered at a time. */
#define ATP_QUESTIONS_MAX	100

#endif							/* ATP_QUESTION_H */
