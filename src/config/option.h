/*
 * option.h
 *		Options of a subscription that have a few values, and what these are.
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
extern const char *const atp_actions_words[];	/* of AtpAction */

/* A word's place in its list; -1: it is none of them. */
extern int	atp_word_number(const char *const *words, const char *word);

/* One and the same ERROR for each of them; hint: what it may be. */
pg_noreturn extern void atp_option_is_null(const char *option, const char *hint);
pg_noreturn extern void atp_option_has_null(const char *option, const char *hint);
pg_noreturn extern void atp_option_is_wrong(const char *option, const char *value, const char *hint);

/*
 * An ERROR that names the option and its values, where one of a row of
 * atproto.subscription has another: the table's own checks would print the whole
 * row, passwords in it included, and no values.
 */
extern void atp_options_check(AtpTuple row);

#endif							/* ATP_OPTION_H */
