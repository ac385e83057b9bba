// Skills, MCP servers, tokens, configuration, doctor, and calls in doubt.

import { createServer } from "node:http";
import { looksRight } from "./looks.mjs";
import { api, everything, expect, freePort, test } from "./servers.mjs";

const unique = (info, name) => `${name}-${info.project.name}`;

test("a skill is written, specialised for an agent, and compared", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const name = unique(info, "refunds");
  await studio.getByRole("link", { name: "Skills", exact: true }).click();
  await studio.getByLabel("Name").fill(name);
  await studio.getByLabel("SKILL.md").fill("no frontmatter");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  await expect(studio.getByRole("alert")).toContainText("description");
  await expect(studio.getByLabel("Name"), "what was typed stays").toHaveValue(name);
  await studio.getByLabel("SKILL.md").fill("---\ndescription: Refunds\ntriggers: [refund]\n---\nAsk for the number.\n");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  await expect(studio.getByRole("heading", { name })).toBeVisible();
  await studio.getByLabel("SKILL.md").fill("---\ndescription: Refunds\ntriggers: [refund]\n---\nAsk for the number first.\n");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  await studio.getByText(/^Version 2,/).click();
  await expect(studio.locator("details[open] ins")).toContainText("Ask for the number first.");
  await looksRight(studio, "skill", info);

  await studio.goto(`${crib.address}/studio/agents/clerk`);
  await studio.getByRole("row", { name: new RegExp(`^${name} shared`) }).getByRole("link", { name: "specialise" }).click();
  await expect(studio.getByLabel("SKILL.md")).toHaveValue(/Ask for the number first/);
  await studio.getByLabel("SKILL.md").fill("---\ndescription: Refunds\n---\nAsk the clerk.\n");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  await studio.goto(`${crib.address}/studio/agents/clerk`);
  await studio.getByRole("row", { name: new RegExp(`^${name} specialised`) }).getByRole("link").click();
  await expect(studio.getByRole("heading", { name: "From the shared one to this" })).toBeVisible();
  await expect(studio.locator("ins").first()).toContainText("Ask the clerk.");

  await studio.goto(`${crib.address}/studio/skills/${name}`);
  await ask("PUT", `/v1/skills/${name}`, { document: "---\ndescription: Refunds\n---\nTheirs.\n" });
  await studio.getByLabel("SKILL.md").fill("---\ndescription: Refunds\n---\nMine.\n");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  await expect(studio.getByRole("alert")).toContainText("Somebody wrote this skill first");
  await expect(studio.locator("del")).toContainText("Theirs.");
  await studio.getByRole("button", { name: "Save the skill" }).click();
  expect((await ask("GET", `/v1/skills/${name}`)).document).toContain("Mine.");
  await studio.getByRole("button", { name: "Delete it" }).click();
  await expect(studio.getByRole("heading", { name: "Skills" })).toBeVisible();
  await ask("DELETE", `/v1/skills/${name}?agent=clerk`);
});

test("an MCP server is adopted, looked at and removed", async ({ studio, crib }, info) => {
  const server = await everything();
  const name = unique(info, "every");
  await studio.getByRole("link", { name: "MCP", exact: true }).click();
  await looksRight(studio, "mcp", info);
  await studio.getByLabel("Name", { exact: true }).fill(name);
  await studio.getByLabel("Address").fill(server.url);
  await studio.getByRole("button", { name: "Adopt it" }).click();
  await expect(studio.getByRole("heading", { name })).toBeVisible();
  await expect(studio.getByRole("link", { name: new RegExp(`${name.replaceAll("-", ".")}.*echo`) })).toBeVisible();
  await studio.getByRole("button", { name: "Show what would change" }).click();
  await expect(studio.getByRole("status")).toContainText("It would be: 0 new, 0 changed");
  await looksRight(studio, "mcp-server", info);
  await studio.getByRole("button", { name: "Is it there?" }).click();
  await expect(studio.getByRole("status")).toContainText("speaks MCP");
  const exported = await (await studio.request.get(`${crib.address}/studio/mcp-export`)).json();
  expect(exported.mcpServers[name].url).toBe(server.url);
  server.stop();
  await studio.getByRole("button", { name: "Remove it with its tools" }).click();
  await expect(studio.getByText("No MCP server is adopted yet.")).toBeVisible();
  await studio.getByLabel(/JSON, as desktop clients/).fill(JSON.stringify({ mcpServers: { [name]: { url: server.url, headers: { Authorization: "Bearer hunter2hunter2" } } } }));
  await studio.getByRole("button", { name: "Take it over" }).click();
  await expect(studio.getByText("Its value was dropped")).toBeVisible();
  expect(await studio.content()).not.toContain("hunter2");
  await api(crib)("DELETE", `/v1/mcp/servers/${name}`);
});

test("a tool is deleted, and what its server then lists anew waits until it is accepted", async ({ studio, crib }, info) => {
  const server = await everything();
  const name = unique(info, "held");
  await studio.getByRole("link", { name: "MCP", exact: true }).click();
  await studio.getByLabel("Name", { exact: true }).fill("  ");
  await studio.getByLabel("Address").fill(server.url);
  await studio.getByRole("button", { name: "Adopt it" }).click();
  await expect(studio.getByRole("alert")).toContainText("the name is missing");
  await studio.getByLabel("Name", { exact: true }).fill(name);
  await studio.getByLabel("Address").fill(server.url);
  await studio.getByLabel("Later changes wait").check();
  await studio.getByRole("button", { name: "Adopt it" }).click();
  const echo = studio.getByRole("link", { name: /__echo$/ });
  const tool = await echo.innerText();
  await echo.click();
  await studio.getByRole("button", { name: "Delete this tool" }).click();
  await expect(studio).toHaveURL(/\/studio\/tools$/);
  expect((await studio.request.get(`${crib.address}/studio/tools/${tool}`)).status()).toBe(404);

  await studio.goto(`${crib.address}/studio/mcp/${name}`);
  await expect(echo).toHaveCount(0);
  await studio.getByRole("button", { name: "Take over what it lists" }).click();
  await expect(studio.getByRole("status")).toContainText("These wait until somebody accepts them: 1 new");
  await expect(studio.getByText("These changes wait:")).toContainText(tool);
  await looksRight(studio, "mcp-server-waits", info);
  await studio.getByRole("link", { name: "MCP", exact: true }).click();
  await expect(studio.getByRole("row", { name: new RegExp(`^${name}.*1 change\\(s\\) wait`) })).toBeVisible();
  await studio.getByRole("link", { name }).click();
  await studio.getByRole("button", { name: "Accept what waits" }).click();
  await expect(studio.getByRole("status")).toContainText("1 change(s) accepted");
  await expect(echo).toBeVisible();
  await studio.getByRole("button", { name: "Remove it with its tools" }).click();
  await expect(studio.getByRole("row", { name: new RegExp(`^${name}`) })).toHaveCount(0);
  server.stop();
});

test("tokens are made, used and revoked, and each role sees its part", async ({ studio, crib, browser }, info) => {
  const name = unique(info, "auditor of the year");
  await studio.getByRole("link", { name: "Tokens", exact: true }).click();
  await studio.getByLabel("Who holds it").fill(name);
  await studio.getByLabel("Role", { exact: true }).selectOption("auditor");
  await studio.getByLabel(/Ends after/).fill("many");
  await studio.getByRole("button", { name: "Make it" }).click();
  await expect(studio.getByRole("alert")).toContainText("expires_in_days");
  await studio.getByLabel("Who holds it").fill(name);
  await studio.getByLabel("Role", { exact: true }).selectOption("auditor");
  await studio.getByRole("button", { name: "Make it" }).click();
  const token = await studio.getByRole("status").locator("code").textContent();
  await studio.reload();
  await expect(studio.getByRole("row", { name: new RegExp(name) }), "a reload makes no second one").toHaveCount(1);
  await expect(studio.getByText("you are logged in with it")).toBeVisible();
  await looksRight(studio, "tokens", info);

  const other = await (await browser.newContext()).newPage();
  await other.goto(`${crib.address}/studio/tools/find_order`);
  await other.getByLabel("Token").fill(token);
  await other.keyboard.press("Enter");
  await expect(other.getByRole("heading", { name: "find_order" })).toBeVisible();
  await expect(other.getByRole("link", { name: "Edit it" })).toHaveCount(0);
  await expect(other.getByRole("link", { name: "Tokens" })).toHaveCount(0);
  for (const path of ["/studio/new", "/studio/tokens", "/studio/configuration", "/studio/tools/find_order/edit"]) {
    expect((await other.request.get(crib.address + path)).status(), path).toBe(403);
  }
  await studio.getByRole("row", { name: new RegExp(name) }).getByRole("button", { name: "Revoke" }).click();
  await expect(studio.getByRole("row", { name: new RegExp(name) })).toHaveCount(0);
  await other.goto(`${crib.address}/studio`);
  await expect(other, "a token that is revoked ends the session").toHaveURL(/login/);
  await other.context().close();
});

test("configuration and doctor say what this server is", async ({ studio }, info) => {
  await studio.getByRole("link", { name: "Configuration", exact: true }).click();
  await expect(studio.getByRole("row", { name: /egress\.allow_http true.*environment/ })).toBeVisible();
  await looksRight(studio, "configuration", info);
  await studio.getByRole("link", { name: "Doctor", exact: true }).click();
  const blocked = studio.getByRole("listitem").filter({ hasText: "blocked 1 call(s) of the last day" });
  await expect(blocked).toBeVisible();
  await looksRight(studio, "doctor", info);
  await blocked.getByRole("link").click();
  await expect(studio.getByRole("row", { name: /read_metadata.*blocked/ }).first()).toBeVisible();
});

test("a call in doubt gets a verdict", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const port = await freePort();
  // It takes the request and says nothing: nobody can know what it did.
  const upstream = createServer((request) => request.resume().on("end", () => request.socket.destroy())).listen(port, "127.0.0.1");
  const tool = `charge_${info.project.name.replace("-", "_")}`;
  await ask("PUT", `/v1/tools/${tool}`, { name: tool, description: "Charge a card", request: { method: "POST", url: `http://127.0.0.1:${port}/charge`, body: { amount: 5 } } });
  const outcome = await ask("POST", "/v1/agents/support/calls", { tool, arguments: {}, ctx: { chat_id: unique(info, "doubt") } });
  expect(outcome.status).toBe("in_doubt");
  upstream.close();
  await studio.goto(`${crib.address}/studio/sessions/${unique(info, "doubt")}`);
  await studio.getByRole("link", { name: "give a verdict" }).click();
  await expect(studio.getByRole("heading", { name: `Was ${tool} performed?` })).toBeVisible();
  await looksRight(studio, "doubt", info);
  await studio.getByLabel("How you know").fill("the bank's statement");
  await studio.getByRole("button", { name: "It was performed" }).click();
  await expect(studio.getByText("succeeded")).toBeVisible();
  await studio.goto(`${crib.address}/studio/doubts`);
  await expect(studio.getByText(tool)).toHaveCount(0);
  await looksRight(studio, "doubts", info);
});
