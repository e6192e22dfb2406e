/*
 * header.c
 *		The trigger that validates a row of atproto.request_header.  CHECK constraints
 *		alone do not suffice, because their errors would print the row, whose value may
 *		be a secret.
 */
#include "postgres.h"

#include "config/row_trigger.h"
#include "config/spi.h"
#include "fmgr.h"
#include "common/quotable.h"

#define NAME_MAX_BYTES	64
#define VALUE_MAX_BYTES	4096

PG_FUNCTION_INFO_V1(atp_request_header_check);

/* Is this a token of HTTP? */
static bool
is_name(const char *name)
{
	size_t		len = strlen(name);

	return len > 0 && len <= NAME_MAX_BYTES &&
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-") == len;
}

/* Is this a header which the connection itself sends? */
static bool
is_ours(const char *name)
{
	static const char *const ours[] = {"host", "upgrade", "connection", "content-length", "transfer-encoding"};

	for (int i = 0; i < lengthof(ours); i++)
		if (pg_strcasecmp(name, ours[i]) == 0)
			return true;
	return pg_strncasecmp(name, "sec-websocket-", strlen("sec-websocket-")) == 0;
}

static bool
is_value(const char *value)
{
	if (strlen(value) > VALUE_MAX_BYTES)
		return false;
	for (; *value != '\0'; value++)
		if (*value < ' ' || *value > '~')
			return false;
	return true;
}

/* SQL: atproto_internal.request_header_check(), BEFORE INSERT OR UPDATE, for each row */
Datum
atp_request_header_check(PG_FUNCTION_ARGS)
{
	AtpTuple	row = atp_row_trigger(fcinfo, "request_header_check", ATP_BEFORE_ROW, ATP_ON_ALL).row;
	const char *name = atp_get_text_or_null(row, "name");
	const char *value = atp_get_text_or_null(row, "value");

	if (atp_get_text_or_null(row, "subscription") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("subscription must not be null")));
	if (name == NULL || !is_name(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid name of a header: \"%s\"", name ? atp_quotable(name) : ""),
				 errhint("Use 1 to %d letters, digits and characters such as a hyphen.", NAME_MAX_BYTES)));
	if (is_ours(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("header \"%s\" cannot be set", name),
				 errdetail("The connection to the server has its own."),
				 errhint("Leave this header out.")));
	if (value == NULL || !is_value(value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value of header \"%s\"", name),
				 errhint("Use a text of printable ASCII characters, at most %d of them.", VALUE_MAX_BYTES)));
	return PointerGetDatum(row.tuple);
}
