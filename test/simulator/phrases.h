/*
 * phrases.h
 *		What people of the simulated network say, and in what language.
 */
#ifndef SIM_PHRASES_H
#define SIM_PHRASES_H

#include <stddef.h>

typedef struct Phrases
{
	const char *const *text;
	size_t		n;
} Phrases;

typedef struct Language
{
	const char *code;
	const char *joint;			/* between two sentences */
	Phrases		begins;			/* what a post begins with */
	Phrases		goes_on;
	Phrases		answers;
	Phrases		tags;
} Language;

#define LANGUAGES	6

extern const Language languages[LANGUAGES];

extern const Phrases pictures;	/* alt texts */
extern const Phrases first_names;
extern const Phrases last_names;

#endif							/* SIM_PHRASES_H */
