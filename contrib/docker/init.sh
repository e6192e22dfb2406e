#!/bin/bash
# What the image's entrypoint runs once, in a new database: the extension, the
# role of the exporter (EXPORTER_PASSWORD), and, on servers with a list of output
# plugins, the extension's plugin (doc/use/plugin.md).
set -euo pipefail

psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<-SQL
	CREATE EXTENSION atproto;
	\i ${ROLE_SQL:-/usr/share/atproto/role.sql}
	\getenv password EXPORTER_PASSWORD
	ALTER ROLE prometheus PASSWORD :'password';
	SELECT format('ALTER SYSTEM SET output_plugin_libraries = %s, atproto', setting)
	FROM pg_settings WHERE name = 'output_plugin_libraries' AND setting !~ '\\matproto\\M' \gexec
SQL
