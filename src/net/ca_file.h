/*
 * ca_file.h
 *		The file of certificate authorities that a subscription names.
 */
#ifndef ATP_CA_FILE_H
#define ATP_CA_FILE_H

#include "postgres.h"

#define ATP_CA_FILE_MAX		(1024 * 1024)	/* the system's have a quarter of that */

/*
 * Read it, palloc'd in the current context.  NULL: *why says why it cannot be,
 * and nothing of what it contains.
 */
extern char *atp_ca_file_read(const char *path, size_t *len, const char **why);

#endif							/* ATP_CA_FILE_H */
