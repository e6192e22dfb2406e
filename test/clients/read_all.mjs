// Reads the result of each query of standard input, one a line, with a driver: read_all.mjs pg|postgres.
//
// The server's address is in DATABASE_URL.  Prints the number of rows of each result, or the error.
import { readFileSync } from 'node:fs';

let count, end;
if (process.argv[2] === 'pg') {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  count = async (query) => (await client.query(query)).rows.length;
  end = () => client.end();
} else {
  const { default: postgres } = await import('postgres');
  const sql = postgres(process.env.DATABASE_URL, { max: 1 });
  count = async (query) => (await sql.unsafe(query)).length;
  end = () => sql.end();
}
for (const query of readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  try {
    console.log(await count(query));
  } catch (error) {
    console.log(`${query}: ${error}`);
  }
}
await end();
