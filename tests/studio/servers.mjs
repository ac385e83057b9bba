// A Toolcrib with something to see, and the upstream of its tools: httpbin, which others wrote. The model of its agent is the
// scripted one of examples/support-agent, since none can be reached from a test.

import { spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test as base, expect } from "@playwright/test";

const ROOT = resolve(import.meta.dirname, "../..");
const TOOLCRIB = process.env.TOOLCRIB_BINARY ?? join(ROOT, "target/debug/toolcrib");
const MODEL = process.env.TOOLCRIB_SUPPORT_AGENT ?? join(ROOT, "target/debug/support-agent");
const EVERYTHING = join(import.meta.dirname, "node_modules/@modelcontextprotocol/server-everything/dist/index.js");
const PYTHON = process.env.TOOLCRIB_PYTHON ?? join(ROOT, ".venv/bin/python");

/** Text that would be markup, script or trickery if anybody let it. */
export const HOSTILE = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1">"'\u202egpj.exe\u0007`;

/** A port below those that the system gives to outgoing connections, which may take one between its choice and its use. */
export async function freePort() {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 15_000);
    const isFree = await new Promise((done) => {
      const server = createServer().once("error", () => done(false));
      server.listen(port, () => server.close(() => done(true)));
    });
    if (isFree) return port;
  }
}

/** An MCP server that others wrote. */
export async function everything() {
  const port = await freePort();
  const server = spawn("node", [EVERYTHING, "streamableHttp"], { stdio: "ignore", env: { ...process.env, PORT: String(port) } });
  const url = `http://127.0.0.1:${port}/mcp`;
  adopted.push(server);
  await answers(url, server);
  return { url, stop: () => server.kill("SIGTERM") };
}

/** Servers that end with the tests, also when one of these failed before it stopped its own. */
const adopted = [];

async function answers(url, process) {
  for (let i = 0; i < 600; i++) {
    if (process.exitCode !== null) throw new Error(`${url}: the server ended with ${process.exitCode}`);
    try {
      return await fetch(url);
    } catch {
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  throw new Error(`${url} does not answer`);
}

async function start(folder) {
  const [port, upstreamPort, shopPort, modelPort] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const model = spawn(MODEL, [String(shopPort), String(modelPort)], { stdio: "ignore" });
  writeFileSync(
    join(folder, "toolcrib.toml"),
    `[providers.scripted]\nformat = "openai"\nbase_url = "http://127.0.0.1:${modelPort}/v1"\nallow_http = true\nallow_private = true\n`,
  );
  const serve = "from waitress import serve; from httpbin import app; import sys; serve(app, host='127.0.0.1', port=int(sys.argv[1]))";
  const upstream = spawn(PYTHON, ["-c", serve, String(upstreamPort)], { stdio: "ignore" });
  const log = join(folder, "server.log");
  const out = openSync(log, "a");
  const environment = Object.entries(process.env).filter(([name]) => !name.startsWith("TOOLCRIB_"));
  const server = spawn(TOOLCRIB, ["--db", join(folder, "toolcrib.db"), "serve", "--bind", `127.0.0.1:${port}`], {
    cwd: folder,
    stdio: ["ignore", out, out],
    env: {
      ...Object.fromEntries(environment),
      TOOLCRIB_EGRESS_ALLOW_HTTP: "1",
      TOOLCRIB_EGRESS_ALLOW_PRIVATE: "1",
    },
  });
  const [address, up] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${upstreamPort}`];
  await Promise.all([
    answers(`${address}/health/live`, server),
    answers(`${up}/get`, upstream),
    answers(`http://127.0.0.1:${modelPort}/requests`, model),
  ]);
  const token = readFileSync(log, "utf8").match(/tcr_[0-9a-f]+/)[0];
  const stop = () => [server, upstream, model].forEach((process) => process.kill("SIGTERM"));
  return { address, up, token, stop };
}

/** Asks the API. */
export function api({ address, token }) {
  return async (method, path, body) => {
    const answer = await fetch(address + path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = answer.status === 204 ? null : await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(json)}`);
    return json;
  };
}

async function fill(crib) {
  const ask = api(crib);
  const texts = (...names) => ({
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  });
  const tools = [
    { name: "find_order", description: "Find an order by its number", parameters: texts("number"), request: { url: `${crib.up}/anything`, query: { number: "{{number}}" } }, group: "orders" },
    { name: "refund_order", description: "Refund an order", parameters: texts("number"), request: { method: "POST", url: `${crib.up}/post`, body: { number: "{{number}}" } }, approval: "always", group: "orders" },
    { name: "read_metadata", description: "Reach for the metadata service", request: { url: "http://169.254.169.254/latest" } },
    { name: "hostile", description: `Says ${HOSTILE}`, parameters: texts("text"), request: { method: "POST", url: `${crib.up}/anything`, body: { text: "{{text}}" } }, side_effect: false, group: HOSTILE.replaceAll("\u0007", "") },
  ];
  for (const tool of tools) await ask("PUT", `/v1/tools/${tool.name}`, tool);
  await ask("PUT", "/v1/agents/support", {});
  const tone = "---\ndescription: How we speak to customers\n---\nShort sentences.\n";
  await ask("PUT", "/v1/skills/tone-of-voice", { document: tone });
  const instructions = "You answer customers of a small shop.";
  await ask("PUT", "/v1/agents/clerk", { instructions, provider: "scripted", model: "script", tools_allow: ["find_order"], skills_eager: ["tone-of-voice"] });
  const call = (tool, args, session) => ask("POST", "/v1/agents/support/calls", { tool, arguments: args, ctx: { chat_id: session } });
  await call("find_order", { number: "7" }, "chat-1");
  await call("read_metadata", {}, "chat-1");
  await call("hostile", { text: HOSTILE }, "chat-2");
}

export const test = base.extend({
  crib: [
    async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), "toolcrib-studio-"));
      const crib = await start(folder);
      await fill(crib);
      await use(crib);
      crib.stop();
      adopted.forEach((server) => server.kill("SIGTERM"));
      rmSync(folder, { recursive: true, force: true });
    },
    { scope: "worker" },
  ],
  /** A page of somebody who is logged in; it fails the test when the browser complains. */
  studio: async ({ page, crib }, use) => {
    const complaints = [];
    // A form that is sent back with its problems, or that comes too late, is no fault of the page.
    const expected = /status of (400|409|422)/;
    page.on("console", (message) => {
      if (message.type() === "error" && !expected.test(message.text())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(`${crib.address}/studio`);
    await page.getByLabel("Token").fill(crib.token);
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
    await use(page);
    expect(complaints).toEqual([]);
    expect(await page.evaluate(() => window.pwned)).toBeUndefined();
  },
});

export { expect };
