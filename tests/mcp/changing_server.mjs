// A server of the TypeScript SDK that gains a tool while it runs: node changing_server.mjs NODE_MODULES PORT
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [modules, port] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/server/${path}.js`));
const { McpServer } = await load("mcp");
const { StreamableHTTPServerTransport } = await load("streamableHttp");

const text = (text) => ({ content: [{ type: "text", text }] });
const sessions = new Map();

function newServer() {
  const server = new McpServer({ name: "changing", version: "1.0.0" });
  server.registerTool("grow", { description: "Adds a tool" }, async () => {
    for (const other of sessions.values()) {
      other.server.registerTool("grown", { description: "It was not here before" }, async () => text("grown"));
    }
    return text("added");
  });
  return server;
}

createServer(async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.transport.handleRequest(request, response);
  const server = newServer();
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, { server, transport }),
  });
  await server.connect(transport);
  await transport.handleRequest(request, response);
}).listen(Number(port), "127.0.0.1");
