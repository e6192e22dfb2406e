/*
 * option.h
 *		Options of a subscription with a fixed set of values: the sets, and their
 *		checks.
 */
#ifndef ATP_OPTION_H
#define ATP_OPTION_H

#include "postgres.h"

#include "common/compat.h"
#include "config/spi.h"

/* In the order of their enums (subscription.h); each list ends with NULL. */
extern const char *const atp_events_words[];
extern const char *const atp_verify_words[];
extern const char *const atp_backfill_words[];
extern const char *const atp_fetch_as_words[];
extern const char *const atp_actions_words[];	/* of AtpAction */

/* The index of a word in a list; -1: not in the list. */
extern int	atp_word_number(const char *const *words, const char *word);

/* The common ERRORs for options; hint: the permitted values. */
pg_noreturn extern void atp_option_is_null(const char *option, const char *hint);
pg_noreturn extern void atp_option_has_null(const char *option, const char *hint);
/* A function's argument, rather than an option of a subscription. */
pg_noreturn extern void atp_argument_is_null(const char *argument);
pg_noreturn extern void atp_option_is_wrong(const char *option, const char *value, const char *hint);

/*
 * Raise an ERROR which names the option and its permitted values, if a row of atproto.subscription has a
 * wrong one.  The table's CHECK constraints would print the whole row, including passwords, and no permitted
 * values.
 */
extern void atp_options_check(AtpTuple row);

#endif							/* ATP_OPTION_H */
