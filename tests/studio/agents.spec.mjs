// Agents: what each may use and why, who it is, and a conversation with it, seen in the viewer.

import { looksRight } from "./looks.mjs";
import { api, expect, test } from "./servers.mjs";

const unique = (info, name) => `${name}-${info.project.name}`;

test("what an agent may use is seen with why, and changed", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const id = unique(info, "buyer");
  await studio.getByRole("link", { name: "Agents", exact: true }).click();
  await looksRight(studio, "agents", info);
  await studio.getByLabel("Id").fill("Not an id");
  await studio.getByRole("button", { name: "Make it" }).click();
  await expect(studio.getByRole("alert")).toContainText("is no agent id");
  await studio.getByLabel("Id").fill(id);
  await studio.getByRole("button", { name: "Make it" }).click();
  await expect(studio.getByRole("heading", { name: id })).toBeVisible();
  const row = (tool) => studio.getByRole("row", { name: new RegExp(`^${tool} `) });
  await expect(row("find_order")).toContainText("neither tools_allow nor tools_allow_groups names it");

  await studio.getByLabel("Rule for find_order").selectOption("allowed");
  await studio.getByLabel("Rule for read_metadata").selectOption("denied");
  await studio.getByRole("button", { name: "Save the tools" }).click();
  await expect(row("find_order")).toContainText("✓ yes");
  await expect(row("find_order")).toContainText("tools_allow names it");
  await expect(row("read_metadata")).toContainText("tools_deny names it");

  await studio.getByLabel("Whole groups, with commas").fill("orders");
  await studio.getByLabel("Defer find_order").check();
  await studio.getByRole("button", { name: "Save the tools" }).click();
  await expect(row("refund_order")).toContainText("tools_allow_groups names its group orders");
  await expect(row("find_order")).toContainText("when it is searched for");
  await looksRight(studio, "agent", info);
  await studio.getByLabel("Which").selectOption("those it may use");
  await studio.getByRole("button", { name: "Find" }).click();
  await expect(row("read_metadata")).toHaveCount(0);

  // Who may use everything has no list, and is not narrowed by the way.
  await studio.getByLabel("every tool that is not denied").check();
  await studio.getByRole("button", { name: "Save the tools" }).click();
  await expect(studio.getByRole("alert")).toContainText("take the rules");
  expect((await ask("GET", `/v1/agents/${id}`)).profile.tools_allow).toEqual(["find_order"]);
});

test("a profile is saved, unless somebody was faster", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const id = unique(info, "writer");
  await ask("PUT", `/v1/agents/${id}`, { fallback_models: [{ provider: "scripted", model: "other" }], tools_allow: [] });
  await studio.goto(`${crib.address}/studio/agents/${id}`);
  await studio.getByRole("link", { name: "Edit who it is" }).click();
  await looksRight(studio, "profile", info);
  await studio.getByLabel("Instructions").fill("You write.\nShortly.");
  await studio.getByLabel("Time of a turn, in seconds").fill("soon");
  await studio.getByRole("button", { name: "Save the profile" }).click();
  await expect(studio.getByRole("alert")).toContainText("a whole number");
  await expect(studio.getByLabel("Instructions"), "what was typed stays").toHaveValue("You write.\nShortly.");
  await studio.getByLabel("Time of a turn, in seconds").fill("45");
  await studio.getByLabel("Provider").fill("scripted");
  await studio.getByLabel("Model", { exact: true }).fill("script");
  await studio.getByRole("button", { name: "Save the profile" }).click();
  await expect(studio.getByText("scripted/script")).toBeVisible();
  const { profile } = await ask("GET", `/v1/agents/${id}`);
  expect(profile).toMatchObject({ instructions: "You write.\nShortly.", fallback_models: [{ provider: "scripted", model: "other" }], limits: { turn_timeout: 45 } });

  await studio.getByRole("link", { name: "Edit who it is" }).click();
  await studio.getByLabel("Description").fill("Mine");
  await ask("PUT", `/v1/agents/${id}`, { ...profile, description: "Theirs" });
  await studio.getByRole("button", { name: "Save the profile" }).click();
  await expect(studio.getByRole("alert")).toContainText("somebody changed this agent");
  expect((await ask("GET", `/v1/agents/${id}`)).profile.description).toBe("Theirs");
  await studio.goto(`${crib.address}/studio/agents/${id}`);
  await studio.getByRole("button", { name: "Delete this agent" }).click();
  await expect(studio.getByRole("heading", { name: "Agents" })).toBeVisible();
  await expect(studio.getByRole("link", { name: id, exact: true })).toHaveCount(0);
});

test("a conversation is had and seen as it happens", async ({ studio, crib, browser }, info) => {
  await studio.goto(`${crib.address}/studio/agents/clerk`);
  await expect(studio.getByRole("row", { name: /tone-of-voice shared .*✓ yes.*always in its prompt/ })).toBeVisible();
  await studio.getByLabel("Say something to it").fill("Where is order 1002?");
  await studio.getByRole("button", { name: "Send" }).click();
  await expect(studio.getByRole("heading", { name: /^Session / })).toBeVisible();
  await expect(studio.getByText("Your office chair is in transit.")).toBeVisible();
  await expect(studio.getByText("Skills came into the prompt")).toContainText("tone-of-voice (eager)");
  const card = studio.locator(".card", { hasText: "find_order" });
  await expect(card).toContainText("ok");
  await card.getByText("What went over the wire").click();
  await expect(card.getByText("curl --request GET")).toBeVisible();
  await studio.getByText(/answered in \d+ ms; prompt about/).first().click();
  await expect(studio.getByRole("row", { name: /^instructions \d+$/ }).first()).toBeVisible();
  await looksRight(studio, "session", info);

  // Another operator who looks at the same session sees what is said next without a click.
  const other = await (await browser.newContext()).newPage();
  await other.goto(studio.url().split("#")[0]);
  await other.getByLabel("Token").fill(crib.token);
  await other.keyboard.press("Enter");
  await expect(other.getByText("Your office chair is in transit.")).toBeVisible();
  await studio.getByLabel("Say something to it").fill("And hello");
  await studio.getByRole("button", { name: "Send" }).click();
  await expect(other.getByText("Hello, this is the shop.")).toBeVisible({ timeout: 10_000 });
  await other.context().close();

  await card.getByRole("link", { name: "link", exact: true }).click();
  expect(studio.url()).toMatch(/#call-[0-9a-f]{32}$/);
  const exported = await (await studio.request.get(`${studio.url().split("#")[0]}/export`)).json();
  expect(exported.turns.map((turn) => turn.message)).toEqual(["Where is order 1002?", "And hello"]);
  expect(exported.traces[0]).toMatchObject({ tool: "find_order", status: "ok" });
});

test("sessions are searched, and a blocked call can't be overlooked", async ({ studio }, info) => {
  await studio.getByRole("link", { name: "Sessions", exact: true }).click();
  await looksRight(studio, "sessions", info);
  await expect(studio.getByRole("row", { name: /chat-1.*blocked/ })).toBeVisible();
  await studio.getByLabel("Tool").fill("read_metadata");
  await studio.getByLabel("Status").selectOption("error");
  await studio.getByRole("button", { name: "Find" }).click();
  await expect(studio.getByRole("link", { name: "chat-2" })).toHaveCount(0);
  await studio.getByRole("link", { name: "chat-1" }).click();
  await expect(studio.getByText("Blocked by the egress policy:")).toBeVisible();
  await expect(studio.locator(".card.blocked")).toContainText("169.254.169.254");
  await looksRight(studio, "session-blocked", info);
  await studio.goto(`${new URL(studio.url()).origin}/studio/sessions?since=2100-01-01T00:00`);
  await expect(studio.getByText("No calls.")).toBeVisible();
});
