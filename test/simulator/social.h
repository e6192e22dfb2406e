/*
 * social.h
 *		A network that people would make (--social).  Each account joins with a handle, a
 *		profile and some follows; posts answer, quote, mention; likes, reposts and
 *		follows name what is there, and each of them comes once.
 */
#ifndef SIM_SOCIAL_H
#define SIM_SOCIAL_H

#include "network.h"
#include "value.h"

/* What the record in the making is about. */
typedef struct About
{
	const Post *post;			/* is liked, reposted, answered or quoted; or NULL */
	bool		is_quote;
	PostRef		root;			/* first post of the thread in which the post is a reply; account NOBODY: the post begins a thread */
	const Account *account;		/* is followed, blocked or listed */
	const char *path;			/* of the own list, or of the own post that is gated */
} About;

/* The handle that the account always has. */
extern void social_handle(const Network *net, const Account *account, char out[HANDLE_MAX]);

/* The same, as people say it. */
extern void social_name(const Network *net, const Account *account, char out[HANDLE_MAX]);

/*
 * Chooses what a record of this kind is about.  Gives the kind that can be made: where
 * there is nothing left to like, say, a post.
 */
extern Kind social_plan(Network *net, Account *account, Kind kind, About *about);

/* Fills a record, which has $type and createdAt; false for a kind that is as without --social. */
extern bool social_record(Network *net, const Account *account, Kind kind, const About *about, Values *v,
						  Value *record);

#endif							/* SIM_SOCIAL_H */
