// A did:plc directory, built by setup-plc, with its database in PostgreSQL.
//
//   node plc.mjs BUNDLE PORTFILE DATABASE [PORT]        the directory, on this port or a free one of 127.0.0.1
//   node plc.mjs BUNDLE PORTFILE DATABASE sequencer     the process that gives the operations their numbers
//
// DATABASE is an address (postgresql://...).  The port file gets {"plc": URL, "control": URL}; of the sequencer {}.
// Both end with their standard input.
//
// The directory's clock stands still, at a time that the control sets: the times of operations are the directory's.
// POST to the control URL, as JSON:
//   {"do": "clock", "at": "2026-01-02T03:04:05.678Z"}       null: the clock of the machine, which goes on
//   {"do": "key", "curve": "k256"}                          or p256: a new key, as did:key
//   {"do": "submit", "did": ..., "by": did:key, "operation": {...}}
//        signs and sends it as a client does; without did it is a genesis.  {"status", "answer", "did", "cid", "operation"}
//   {"do": "plant", ...}       likewise, past the checks of a client's operation: the only way for a genesis of 2022
//   {"do": "many", "count": N} so many accounts at once, without numbers in between if the sequencer stands still
//   {"do": "encode", "operations": [...]}                   the DAG-CBOR of each, in hexadecimal
import fs from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { createRequire } from 'node:module'

// Servers that name no host would listen on all addresses.
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (first, ...rest) {
  const callback = rest.find((x) => typeof x === 'function')
  return listen.call(this, { port: Number(first?.port ?? first), host: '127.0.0.1' }, callback)
}

const [bundle, portFile, database, how] = process.argv.slice(2)
const { Database, PlcServer, SequencerLeader, plc, crypto, cbor, cidForCbor } = createRequire(import.meta.url)(bundle)

function ready(what) {
  fs.writeFileSync(portFile + '.new', JSON.stringify(what))
  fs.renameSync(portFile + '.new', portFile)
}

process.stdin.resume().on('end', () => process.exit(0))
process.on('SIGTERM', () => process.exit(0))

const db = Database.postgres({ url: database })
if (how === 'sequencer') {
  new SequencerLeader(db).run()
  ready({})
} else {
  const Clock = Date
  let at = null
  globalThis.Date = class extends Clock {
    constructor(...args) {
      if (args.length === 0 && at !== null) super(at)
      else super(...args)
    }
    static now() {
      return at ?? Clock.now()
    }
  }

  await db.migrateToLatestOrThrow()
  const adminSecret = 'secret'
  const server = await PlcServer.create({ db, port: how ?? 0, adminSecret }).start()
  const url = `http://127.0.0.1:${server.address().port}`

  // The keys outlive the process.
  const curves = { k256: crypto.Secp256k1Keypair, p256: crypto.P256Keypair }
  const keyFile = portFile + '.keys'
  const keys = new Map()
  for (const line of fs.existsSync(keyFile) ? fs.readFileSync(keyFile, 'utf8').trim().split('\n') : []) {
    const [curve, secret] = line.split(' ')
    const known = await curves[curve].import(secret)
    keys.set(known.did(), known)
  }
  async function key(curve) {
    const made = await curves[curve].create({ exportable: true })
    keys.set(made.did(), made)
    fs.appendFileSync(keyFile, `${curve} ${Buffer.from(await made.export()).toString('hex')}\n`)
    return made.did()
  }

  async function signed({ did, by, operation }) {
    const op = operation.sig ? operation : await plc.addSignature(operation, keys.get(by))
    return { did: did ?? (await plc.didForCreateOp(op)), cid: (await cidForCbor(op)).toString(), operation: op }
  }

  const actions = {
    clock: (what) => ((at = what.at === null ? null : Clock.parse(what.at)), {}),
    key: async (what) => ({ key: await key(what.curve) }),
    async submit(what) {
      const op = await signed(what)
      const answer = await fetch(`${url}/${op.did}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(op.operation),
      })
      return { ...op, status: answer.status, answer: await answer.text() }
    },
    async plant(what) {
      const op = await signed(what)
      await db.validateAndAddOp(op.did, op.operation, new Date())
      return op
    },
    async many({ count }) {
      const by = await key('k256')
      for (let i = 0; i < count; i++) {
        const operation = plc.formatAtprotoOp({
          signingKey: by,
          handle: `one${i}.example.com`,
          pds: 'https://many.example.com',
          rotationKeys: [by],
          prev: null,
        })
        await actions.plant({ by, operation })
      }
      return {}
    },
    encode: ({ operations }) => operations.map((op) => Buffer.from(cbor.encode(op)).toString('hex')),
  }

  const control = http.createServer(async (request, response) => {
    try {
      let text = ''
      for await (const part of request) text += part
      const what = JSON.parse(text)
      response.end(JSON.stringify(await actions[what.do](what)))
    } catch (e) {
      response.statusCode = 500
      response.end(String(e?.stack ?? e))
    }
  })
  control.listen(0, () => ready({ plc: url, control: `http://127.0.0.1:${control.address().port}` }))
}
