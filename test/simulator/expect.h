/*
 * expect.h
 *		What the stream must leave in tables, and what is needed to check it.
 */
#ifndef SIM_EXPECT_H
#define SIM_EXPECT_H

#include "network.h"

/* Writes the files that README.md lists into options->expect; makes the directory. */
extern void expect_write(const Network *net);

#endif							/* SIM_EXPECT_H */
