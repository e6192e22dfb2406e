/*
 * cppcheck.h
 *		What of PostgreSQL's macros cppcheck has to know, since it reads none of
 *		its headers.
 */
#define PG_FUNCTION_INFO_V1(function)
#define foreach(cell, list) for (cell = list_head(list); cell != NULL; cell = lnext(list, cell))
#define pg_attribute_printf(format, arguments)
#define CppAsString(identifier) #identifier
#define CppAsString2(x) CppAsString(x)
