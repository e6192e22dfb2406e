// A PLC directory and PDSs, all on free ports of 127.0.0.1 and with nothing in them.
//
//   node serve.mjs DIR PDSS PORTFILE
//
// DIR has the packages (setup), PDSS is how many PDSs there are.  The port file gets
// {"plc": URL, "pds": [URL, ...], "control": URL}.  It ends with its standard input.
// POST to the control URL what no XRPC method does, as JSON:
//   {"do": "rotate", "did": ..., "pds": N, "silent": true}   another key; silent: without #identity
//   {"do": "migrate", "did": ..., "from": N, "to": N, "handle": ..., "password": ...}
//   {"do": "tombstone", "did": ..., "pds": N}
import fs from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import net from 'node:net'
import { pathToFileURL } from 'node:url'

// Servers that name no host would listen on all addresses.
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (first, ...rest) {
  const callback = rest.find((x) => typeof x === 'function')
  return listen.call(this, { port: Number(first?.port ?? first), host: '127.0.0.1' }, callback)
}

const [dir, pdss, portFile] = process.argv.slice(2)
const require = createRequire(dir + '/')
const load = (name) => import(pathToFileURL(require.resolve(name)))
const { TestPlc, TestPds, mockNetworkUtilities } = await load('@atproto/dev-env')
const { Secp256k1Keypair } = await load('@atproto/crypto')
const { createUpdateOp } = await load('@did-plc/lib')

const plc = await TestPlc.create({})
const pds = []
for (let i = 0; i < Number(pdss); i++) {
  const one = await TestPds.create({ didPlcUrl: plc.url })
  mockNetworkUtilities(one)
  pds.push(one)
}

async function call(server, method, nsid, { jwt, body, type, query } = {}) {
  const answer = await fetch(`${server.url}/xrpc/${nsid}${query ? '?' + new URLSearchParams(query) : ''}`, {
    method,
    headers: {
      ...(jwt ? { authorization: `Bearer ${jwt}` } : {}),
      ...(body ? { 'content-type': type ?? 'application/json' } : {}),
    },
    body: body && !type ? JSON.stringify(body) : body,
  })
  if (!answer.ok) throw new Error(`${nsid}: ${answer.status} ${await answer.text()}`)
  return answer.headers.get('content-type')?.startsWith('application/json') ? answer.json() : answer.arrayBuffer()
}

const actions = {
  // The PDS reads the key of each account anew, from a file.
  async rotate({ did, pds: n, silent }) {
    const { ctx } = pds[n]
    const key = await Secp256k1Keypair.create({ exportable: true })
    const { keyLocation } = await ctx.actorStore.getLocation(did)
    await ctx.plcClient.updateAtprotoKey(did, ctx.plcRotationKey, key.did())
    fs.writeFileSync(keyLocation, await key.export())
    if (!silent) await ctx.sequencer.sequenceIdentity(did)
    return { key: key.did() }
  },

  // As people do it: account, repository, document; then the old one is deactivated.  That the
  // new one is to be activated is left to whoever asked.
  async migrate({ did, from, to, handle, password }) {
    const [old, other] = [pds[from], pds[to]]
    const session = (server) =>
      call(server, 'POST', 'com.atproto.server.createSession', { body: { identifier: did, password } })
    const { accessJwt: oldJwt } = await session(old)
    const { did: aud } = await call(other, 'GET', 'com.atproto.server.describeServer')
    const lxm = 'com.atproto.server.createAccount'
    const { token } = await call(old, 'GET', 'com.atproto.server.getServiceAuth', { jwt: oldJwt, query: { aud, lxm } })
    await call(other, 'POST', lxm, { jwt: token, body: { did, handle, password, email: `${handle}@example.com` } })
    const { accessJwt: jwt } = await session(other)
    const car = await call(old, 'GET', 'com.atproto.sync.getRepo', { query: { did } })
    await call(other, 'POST', 'com.atproto.repo.importRepo', { jwt, body: car, type: 'application/vnd.ipld.car' })
    const wanted = await call(other, 'GET', 'com.atproto.identity.getRecommendedDidCredentials', { jwt })
    const last = await old.ctx.plcClient.getLastOp(did)
    const op = await createUpdateOp(last, old.ctx.plcRotationKey, (o) => ({ ...o, ...wanted }))
    await old.ctx.plcClient.sendOperation(did, op)
    await call(old, 'POST', 'com.atproto.server.deactivateAccount', { jwt: oldJwt, body: {} })
    return {}
  },

  async tombstone({ did, pds: n }) {
    await pds[n].ctx.plcClient.tombstone(did, pds[n].ctx.plcRotationKey)
    return {}
  },
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
control.listen(0, () => {
  const url = `http://127.0.0.1:${control.address().port}`
  const ports = JSON.stringify({ plc: plc.url, pds: pds.map((one) => one.url), control: url })
  fs.writeFileSync(portFile + '.new', ports)
  fs.renameSync(portFile + '.new', portFile)
})
process.stdin.resume().on('end', () => process.exit(0))
process.on('SIGTERM', () => process.exit(0))
