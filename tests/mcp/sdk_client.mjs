// A client of the official TypeScript SDKs: node sdk_client.mjs NODE_MODULES URL TOKEN v1|v2-legacy|v2-current
import { pathToFileURL } from "node:url";

const [modules, url, token, kind] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/${path}`));
const requestInit = { headers: { Authorization: `Bearer ${token}`, "Toolcrib-Ctx-Chat-Id": "chat-ts" } };
const info = { name: "toolcrib-test", version: "1.0.0" };

let client, transport;
if (kind === "v1") {
  const { Client } = await load("sdk/dist/esm/client/index.js");
  const { StreamableHTTPClientTransport } = await load("sdk/dist/esm/client/streamableHttp.js");
  client = new Client(info);
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
} else {
  const { Client, StreamableHTTPClientTransport } = await load("client/dist/index.mjs");
  const mode = kind === "v2-legacy" ? "legacy" : { pin: "2026-07-28" };
  client = new Client(info, { versionNegotiation: { mode } });
  transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
}
await client.connect(transport);
const out = {};
const listed = await client.listTools();
out.tools = listed.tools.map((tool) => tool.name);
const call = (name, args) => client.callTool({ name, arguments: args });
out.square = await call("constructs__shape", { item: { kind: "square", side: 2 } });
out.wrong = await call("constructs__bounded", { n: 4 });
out.fails = await call("constructs__fails", {});
out.unknown = await call("no_such_tool", {}).then(() => "answered", (error) => `${error.code}`);
const controller = new AbortController();
setTimeout(() => controller.abort(), 300);
const slow = { name: "constructs__slow", arguments: { seconds: 20 } };
const options = { signal: controller.signal };
const begun = Date.now();
const running = kind === "v1" ? client.callTool(slow, undefined, options) : client.callTool(slow, options);
out.cancelled = await running.then(() => "answered", () => "cancelled");
out.cancelled_after = Date.now() - begun;
const progress = [];
const listening = { onprogress: (told) => progress.push(told.progress) };
const rest = { name: "constructs__slow", arguments: { seconds: 0.4 } };
await (kind === "v1" ? client.callTool(rest, undefined, listening) : client.callTool(rest, listening));
out.progress = progress;
await client.close();
console.log(JSON.stringify(out));
