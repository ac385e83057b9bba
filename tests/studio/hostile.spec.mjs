// Hostile content in every field that somebody can fill: each page shows it as text, and none is broken by it.

import { api, expect, test } from "./servers.mjs";

const MARKUP = [
  "<x-pwned onfocus=alert(1) autofocus>",
  "'\"><x-pwned>",
  "</textarea></script></title><x-pwned>",
  "javascript:alert(1)//<x-pwned>",
  "&lt;x-pwned&gt;&#60;x-pwned&#62;",
  "{{secret.x}}<x-pwned>{{",
  "\u202e<x-pwned>\u2066\u200b\u00ad",
  "<!--<x-pwned>-->",
  "]]><x-pwned>",
  "\u0000\u001b[31m<x-pwned>",
];

/** Follows the links of the Studio from its start, each kind of page a few times. */
async function everyPage(request, address, visit) {
  const seen = new Set();
  const kinds = new Map();
  const waiting = ["/studio"];
  while (waiting.length > 0) {
    const path = waiting.shift();
    const kind = path.replace(/[^/]*%[^/]*/g, "*").replace(/\?.*/, (query) => query.replace(/=[^&]*/g, "=*")).replace(/[0-9a-f]{32}/g, "*");
    if (seen.has(path) || (kinds.get(kind) ?? 0) >= 12) continue;
    seen.add(path);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const answer = await request.get(address + path, { maxRedirects: 0 });
    const text = await answer.text();
    await visit(path, answer, text);
    for (const [, link] of text.matchAll(/href="(\/studio[^"#]*)/g)) waiting.push(link.replaceAll("&amp;", "&"));
  }
  return seen.size;
}

test("no value of any field is ever markup", async ({ studio, crib }, info) => {
  test.skip(info.project.name !== "desktop-light", "what is served does not depend on the width of a screen");
  test.setTimeout(240_000);
  const ask = api(crib);
  const tolerant = (...request) => ask(...request).catch(() => null);
  const texts = [...MARKUP, `${MARKUP[0]}${"x".repeat(1 << 20)}`];
  let made = 0;
  for (const [i, text] of texts.entries()) {
    const short = text.slice(0, 60);
    const parameters = { type: "object", properties: { text: { type: "string", description: text.slice(0, 5000), enum: [text.slice(0, 200), "b"] } } };
    const tool = { name: `fuzz_${i}`, description: text.slice(0, 20_000), parameters, request: { method: "POST", url: `${crib.up}/anything`, headers: {}, body: { text: "{{text}}" } }, side_effect: false, group: short, tags: [short, "a"], halt_when: { json_path: "nothing", equals: [short] } };
    if (await tolerant("PUT", `/v1/tools/fuzz_${i}`, tool)) made++;
    await tolerant("PUT", `/v1/tools/fuzz_${i}`, { ...tool, description: `Changed ${text.slice(0, 5000)}` });
    await tolerant("PUT", `/v1/agents/fuzz-${i}`, { description: short, instructions: text.slice(0, 100_000), provider: short, model: short, tools_allow: [`fuzz_${i}`, short], tools_allow_groups: [short], skills: [short] });
    await tolerant("PUT", `/v1/skills/fuzz-${i}`, { document: `---\ndescription: ${JSON.stringify(text.slice(0, 900))}\ntriggers: [${JSON.stringify(short)}]\n---\n${text.slice(0, 50_000)}` });
    await tolerant("POST", "/v1/tokens", { name: short, role: "caller", agents: [short] });
    await tolerant("PUT", `/v1/mcp/servers/fuzz-${i}`, { url: `http://127.0.0.1:9/${encodeURIComponent(short)}`, headers: { "X-Note": short.replace(/[^ -~]/g, "") } });
    const call = (agent, session) => tolerant("POST", `/v1/agents/${agent}/calls`, { tool: `fuzz_${i}`, arguments: { text: text.slice(0, 200) }, ctx: { chat_id: session } });
    await call("support", text.slice(0, 300));
    await call("support", `fuzz-${i}`);
    await tolerant("POST", "/v1/agents/support/calls", { tool: short, arguments: { [short]: text } });
    await tolerant("POST", "/v1/agents/clerk/turns", { message: text, session: `fuzz-turn-${i}` });
    await tolerant("PUT", "/v1/tools/asked", { ...tool, name: "asked", approval: "always", side_effect: true });
    await tolerant("POST", "/v1/agents/support/calls", { tool: "asked", arguments: { text: text.slice(0, 200) }, ctx: { chat_id: `fuzz-${i}` } });
  }
  expect(made, "most of it is taken").toBeGreaterThan(6);

  const pages = await everyPage(studio.request, crib.address, async (path, answer, text) => {
    // A call may have named a tool that never was; and no row can be found by a NUL, which the database does not hold.
    const good = path.includes("%00") ? [200, 303, 400, 404] : [200, 303, 404];
    expect(good, `${answer.status()} ${path}`).toContain(answer.status());
    // What is exported is JSON, and no browser takes it for anything else.
    if (!answer.headers()["content-type"]?.startsWith("text/html")) return;
    expect(/<x-pwned/i.test(text), `markup in ${path}`).toBe(false);
    // What is edited is exactly what is there; everywhere else it can be seen.
    const read = text.replace(/value="[^"]*"/g, "").replace(/<textarea[^]*?<\/textarea>/g, "");
    expect(/[\u202a-\u202e\u2066-\u2069\u200b\u00ad\u0000\u001b]/.test(read), `what can't be seen in ${path}`).toBe(false);
    expect(text.length, `the length of ${path}`).toBeLessThan(4 << 20);
  });
  expect(pages).toBeGreaterThan(80);
  // And what a browser makes of some of them.
  for (const path of ["/studio", "/studio/tools?q=fuzz", "/studio/agents", "/studio/skills", "/studio/tokens", "/studio/sessions", "/studio/approvals", "/studio/sessions/fuzz-0", "/studio/sessions/fuzz-turn-2", "/studio/tools/fuzz_2/edit", "/studio/agents/fuzz-1"]) {
    await studio.goto(crib.address + path);
    await expect(studio.locator("x-pwned"), path).toHaveCount(0);
  }
});

test("what is typed into the address and into forms is text", async ({ studio, crib }, info) => {
  test.skip(info.project.name !== "desktop-light", "what is served does not depend on the width of a screen");
  for (const text of MARKUP) {
    const typed = encodeURIComponent(text);
    for (const path of [`tools?q=${typed}&group=${typed}&tag=${typed}&sort=${typed}`, `tools/${typed}`, `agents/${typed}`, `sessions/${typed}`, `sessions?session=${typed}&agent=${typed}&since=${typed}`, `traces?session=${typed}&status=${typed}`, `skills?q=${typed}&agent=${typed}`, `skills/${typed}`, `mcp/${typed}`, `approvals?state=${typed}`, `approvals/${typed}`, `doubts/${typed}`, `traces/${typed}`, `tools/find_order/versions/${typed}`]) {
      const answer = await studio.request.get(`${crib.address}/studio/${path}`);
      expect(answer.status(), path).toBeLessThan(500);
      expect(/<x-pwned/i.test(await answer.text()), `markup in ${path}`).toBe(false);
    }
  }
  await studio.goto(`${crib.address}/studio/new`);
  const key = await studio.locator("input[name=form_key]").first().inputValue();
  const fields = ["name", "description", "parameters", "method", "url", "query", "headers", "secret_headers", "body", "extract", "path", "approval", "tags", "halt_when", "evidence", "whole", "revision", "command", "document", "base_url", "message", "session", "act", "mark", "verdict", "result", "reason", "decision", "answer", "tool", "groups", "skills", "limits", "arguments", "ctx", "agent", "id", "role"];
  const addresses = ["save", "check", "preview", "switch", "new/curl", "new/openapi", "tools/find_order/try", "save-skill", "delete-skill", "mcp-add", "mcp-import", "mcp/none", "tokens", "tokens/revoke", "agents", "agents/support/profile", "agents/support/tools", "agents/none/chat", "approvals/none", "doubts/none"];
  for (const text of MARKUP) {
    for (const address of addresses) {
      const form = Object.fromEntries([["form_key", key], ...fields.map((field) => [field, text])]);
      const answer = await studio.request.post(`${crib.address}/studio/${address}`, { form, maxRedirects: 0 });
      expect(answer.status(), `${address} with ${text}`).toBeLessThan(500);
      expect(/<x-pwned/i.test(await answer.text()), `markup in the answer of ${address}`).toBe(false);
    }
  }
});
