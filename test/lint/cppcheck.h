/*
 * cppcheck.h
 *		What of PostgreSQL's macros cppcheck has to know, since it reads none of
 *		its headers.
 */
#define PG_FUNCTION_INFO_V1(function)
#define foreach(cell, list) for (cell = list_head(list); cell != NULL; cell = lnext(list, cell))
#define dlist_foreach_modify(i, head) for ((i).cur = dlist_head_node(head); (i).cur != NULL; (i).cur = (i).next)
#define pg_attribute_printf(format, arguments)
#define CppAsString(identifier) #identifier
#define CppAsString2(x) CppAsString(x)
#define ERROR 21
#define ereport(level, ...) do { if (level >= ERROR) abort(); } while (0)
