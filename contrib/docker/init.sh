#!/bin/bash
# What the image's entrypoint runs once, in a new database: the extension, and the
# role of the exporter (EXPORTER_PASSWORD).
set -euo pipefail

psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<-SQL
	CREATE EXTENSION atproto;
	\i ${ROLE_SQL:-/usr/share/atproto/role.sql}
	\getenv password EXPORTER_PASSWORD
	ALTER ROLE prometheus PASSWORD :'password';
SQL
