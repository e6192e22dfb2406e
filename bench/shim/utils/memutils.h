/*
 * memutils.h
 *		See postgres.h beside this directory.
 */
