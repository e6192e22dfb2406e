// Keeps an index of the words of all posts in a file of SQLite, each change once (doc/use/changes.md):
// DATABASE_URL=… node search.mjs FILE, with Node 24 or newer, and npm install pg.
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const POSTS = 'app.bsky.feed.post';
const OPTIONS = `targets 'atproto', collections '${POSTS}', kinds 'commit', positions 'changes'`;
const COPY = `SELECT aturi(did, collection, rkey)::text AS uri, cid::text, jsonb_build_object('text', value->'text') AS record FROM atproto.record WHERE collection = '${POSTS}'`;
const SLOT = "SELECT wal_status, active_pid, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'search'";

// The server does not have all changes after the position: the index is made anew.
class Lost extends Error {}

const number = (lsn) => lsn.split('/').reduce((sum, half) => (sum << 32n) | BigInt(`0x${half}`), 0n);
const text = (lsn) => `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`;

const store = new DatabaseSync(process.argv[2], { timeout: 60000 });
store.exec(`CREATE TABLE IF NOT EXISTS position (lsn TEXT, system TEXT, timeline INTEGER);
CREATE TABLE IF NOT EXISTS post (id INTEGER PRIMARY KEY, uri TEXT UNIQUE, cid TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5 (text);`);
const insert = store.prepare('INSERT INTO post (uri, cid) VALUES (?, ?) ON CONFLICT (uri) DO UPDATE SET cid = excluded.cid RETURNING id');
const words = store.prepare('INSERT OR REPLACE INTO word (rowid, text) VALUES (?, ?)');
const forget = store.prepare('DELETE FROM post WHERE uri = ? RETURNING id');
const silence = store.prepare('DELETE FROM word WHERE rowid = ?');
const stored = () => store.prepare('SELECT * FROM position').get();
const same = (a, b) => a?.lsn === b?.lsn && a?.system === b?.system && a?.timeline === b?.timeline;

const put = (uri, cid, record) => words.run(insert.all(uri, cid)[0].id, typeof record?.text === 'string' ? record.text : null); // an account may write anything into its record
const remove = (uri) => forget.all(uri).forEach(({ id }) => silence.run(id));

function begin(position) {
  store.exec('BEGIN IMMEDIATE');
  if (same(stored(), position)) return;
  console.error('another process keeps this index');
  process.exit(1);
}

// Changes and position become durable together.
function end(position) {
  store.prepare('UPDATE position SET lsn = ?, system = ?, timeline = ?').run(position.lsn, position.system, position.timeline);
  store.exec('COMMIT');
  return position;
}

// Copies the table as it is where a new slot begins.  SQLite's lock keeps other processes out until the COMMIT.
async function build(sql, stream, server, position) {
  begin(position);
  if ((await sql.query(SLOT)).rowCount) await stream.query('DROP_REPLICATION_SLOT search');
  const failover = (await sql.query('SHOW server_version_num')).rows[0].server_version_num >= 170000 ? ', FAILOVER' : '';
  const slot = (await stream.query(`CREATE_REPLICATION_SLOT search LOGICAL atproto (SNAPSHOT 'export'${failover})`)).rows[0];
  for (const table of ['position', 'post', 'word']) store.exec(`DELETE FROM ${table}`);
  await sql.query(`BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '${slot.snapshot_name}'; DECLARE posts CURSOR FOR ${COPY}`);
  for (let rows; rows?.length !== 0; rows.forEach(({ uri, cid, record }) => put(uri, cid, record))) ({ rows } = await sql.query('FETCH 1000 FROM posts'));
  await sql.query('COMMIT');
  store.prepare('INSERT INTO position VALUES (?, ?, ?)').run(slot.consistent_point, server.system, server.timeline);
  store.exec('COMMIT');
}

// Whether the server has what the index has.
async function compare(stream, position, server) {
  if (position.system === server.system && position.timeline === server.timeline) return;
  const [history] = server.timeline > 1 ? (await stream.query(`TIMELINE_HISTORY ${server.timeline}`)).rows : [{ content: '' }];
  const line = String(history.content).split('\n').find((line) => parseInt(line) === position.timeline);
  if (position.system !== server.system || !line || number(position.lsn) > number(line.split(/\s+/)[1])) throw new Lost('the server does not have what the index has');
}

async function follow(sql, stream, lost) {
  const identity = (await stream.query('IDENTIFY_SYSTEM')).rows[0];
  const server = { system: identity.systemid, timeline: Number(identity.timeline) };
  if (lost || !stored()) await build(sql, stream, server, stored());
  let position = stored();
  await compare(stream, position, server);
  const slot = async () => (await sql.query(SLOT)).rows[0];
  if (((await slot())?.wal_status ?? 'lost') === 'lost') throw new Lost('the slot is gone');

  let [checked, over] = [false, false];
  const waiting = [];
  const failed = new Promise((_, reject) => {
    // messages behind the one that failed may have come in the same packet: they are not stored
    const fail = (reason) => (over = true) && reject(reason);
    stream.on('error', fail);
    stream.on('end', () => fail(new Error('the server has ended the stream')));
    const take = (chunk) => {
      if (over || !checked) return waiting.push(chunk);
      if (chunk[0] === 0x6b) {
        // a keepalive: the server has no more changes up to here; stored when the server asks for an answer, or after 16 MB of WAL
        const lsn = chunk.readBigUInt64BE(1);
        if (lsn > number(position.lsn) + (chunk[17] ? 0n : 1n << 24n) && !store.isTransaction) {
          begin(position);
          position = end({ ...server, lsn: text(lsn) });
        }
      } else {
        const change = JSON.parse(chunk.subarray(25));
        if (!store.isTransaction) begin(position);
        if (change.kind === 'commit' && change.commit.record !== 'unchanged') {
          const { operation, collection, rkey, cid, record } = change.commit;
          const uri = `at://${change.did}/${collection}/${rkey}`;
          if (operation === 'delete') remove(uri);
          else put(uri, cid, record);
        } else if (change.kind === 'position') position = end({ ...server, lsn: change.lsn });
        else throw new Lost(change.kind);
      }
      if (store.isTransaction && chunk[0] !== 0x6b) return;
      // confirms what is stored, and no more; the server ends the connection of a silent program
      const status = Buffer.alloc(34).fill('r', 0, 1);
      for (const at of [1, 9, 17]) status.writeBigUInt64BE(number(position.lsn), at);
      stream.connection.sendCopyFromChunk(status);
    };
    stream.connection.on('copyData', ({ chunk }) => {
      try {
        take(chunk);
      } catch (reason) {
        fail(reason);
      }
    });
    stream.query(`START_REPLICATION SLOT search LOGICAL ${position.lsn} (${OPTIONS})`).catch(fail);
    stream.connection.once('replicationStart', async () => {
      try {
        // from now on nobody else can move the slot
        const now = await slot();
        if (now?.active_pid !== stream.processID) throw new Error('the slot belongs to another process');
        if (number(now.confirmed_flush_lsn) > number(position.lsn)) throw new Lost('somebody else has read the slot');
        checked = true;
        waiting.splice(0).forEach(take);
      } catch (reason) {
        fail(reason);
      }
    });
  });
  await failed;
}

for (let lost = false; ; await sleep(1000)) {
  const [sql, stream] = [{}, { replication: 'database' }].map((how) => new pg.Client({ connectionString: process.env.DATABASE_URL, ...how }));
  try {
    for (const client of [sql, stream]) client.on('error', () => {}); // each query fails, too
    await sql.connect();
    await stream.connect();
    await follow(sql, stream, lost);
  } catch (reason) {
    lost = reason instanceof Lost;
    console.error(`${lost ? 'begin anew' : 'connect again'}: ${reason.message}`);
  }
  if (store.isTransaction) store.exec('ROLLBACK');
  stream.connection.removeAllListeners('copyData');
  stream.connection.stream.destroy();
  sql.connection.stream.destroy();
}
