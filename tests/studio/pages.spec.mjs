// Every page, at three widths, in light and dark: what it shows, how it looks, and whether everybody can use it.

import { looksRight } from "./looks.mjs";
import { HOSTILE, api, expect, test } from "./servers.mjs";

test("logging in, wrongly, and out", async ({ page, crib }, info) => {
  await page.goto(`${crib.address}/studio/tools`);
  await expect(page).toHaveURL(/\/studio\/login\?next=/);
  await looksRight(page, "login", info);
  await page.getByLabel("Token").fill("tcr_wrong");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("not known");
  await page.getByLabel("Token").fill(crib.token);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/studio\/tools$/);
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict", path: "/studio" });
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto(`${crib.address}/studio`);
  await expect(page).toHaveURL(/login/);
});

test("home shows what is broken and what happened", async ({ studio, crib }, info) => {
  await api(crib)("POST", "/v1/agents/support/calls", { tool: "read_metadata", arguments: {}, ctx: { chat_id: "chat-1" } });
  await studio.reload();
  await expect(studio.getByRole("row", { name: /read_metadata.*blocked/ }).first()).toBeVisible();
  await expect(studio.getByRole("img", { name: /Blocked calls of the last day by hour.*[1-9]\d* in all/ })).toBeVisible();
  await looksRight(studio, "home", info);
  await studio.getByRole("link", { name: /Blocked calls of the last day/ }).click();
  await expect(studio.getByRole("row", { name: /read_metadata.*blocked/ }).first()).toBeVisible();
  await expect(studio.getByRole("row", { name: /find_order/ })).toHaveCount(0);
});

test("tools are found, opened and tried", async ({ studio }, info) => {
  await studio.getByRole("link", { name: "Tools", exact: true }).click();
  await looksRight(studio, "tools", info);
  await studio.keyboard.press("/");
  await studio.keyboard.type("order");
  await studio.keyboard.press("Enter");
  await expect(studio.getByRole("link", { name: "hostile" })).toHaveCount(0);
  await studio.getByRole("link", { name: "find_order" }).click();
  await expect(studio.getByRole("heading", { name: "find_order" })).toBeVisible();
  await studio.getByText("Arguments as JSON, and fields of ctx").click();
  await studio.getByLabel("Arguments, as JSON").fill('{"number": ');
  await studio.getByRole("button", { name: "Show the request" }).click();
  await expect(studio.getByRole("alert")).toContainText("not JSON");
  await studio.getByLabel("Arguments, as JSON").fill("");
  await studio.getByLabel("number").fill("42");
  await studio.getByRole("button", { name: "Show the request" }).click();
  await expect(studio.getByText("/anything?number=42")).toBeVisible();
  await studio.getByRole("button", { name: "Send it" }).click();
  await expect(studio.getByRole("status")).toContainText("ok");
  await expect(studio.getByText("It does not end the turn.")).toBeVisible();
  await expect(studio.getByRole("heading", { name: "Time by phase, in ms" })).toBeVisible();
  await looksRight(studio, "tool", info);
});

test("a version is compared and restored", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const { definition } = await ask("GET", "/v1/tools/find_order");
  await ask("PUT", "/v1/tools/find_order", { ...definition, description: "Worse than before" });
  await studio.goto(`${crib.address}/studio/tools/find_order`);
  await studio.getByRole("link", { name: /What changed since version/ }).first().click();
  await expect(studio.locator("ins")).toContainText("Worse than before");
  await looksRight(studio, "version", info);
  await studio.goto(`${crib.address}/studio/tools/find_order`);
  await studio.getByRole("button", { name: /Restore version/ }).first().click();
  await expect(studio.getByText("Find an order by its number").first()).toBeVisible();
  expect((await ask("GET", "/v1/tools/find_order")).definition.description).toBe("Find an order by its number");
});

test("a blocked call can't be overlooked", async ({ studio }, info) => {
  await studio.getByRole("link", { name: "Calls", exact: true }).click();
  await looksRight(studio, "calls", info);
  await studio.getByRole("link", { name: "read_metadata" }).first().click();
  await expect(studio.getByRole("alert")).toContainText("Blocked by the egress policy");
  await looksRight(studio, "call-blocked", info);
});

test("hostile text is text", async ({ studio, crib }, info) => {
  const [trace] = (await api(crib)("GET", "/v1/traces?tool=hostile")).traces;
  for (const path of ["/studio/tools/hostile", "/studio/tools", "/studio", `/studio/traces/${trace.id}`, "/studio/traces"]) {
    await studio.goto(crib.address + path);
    await expect(studio.locator("main script, main img")).toHaveCount(0);
    expect(await studio.content()).not.toContain("\u202e");
  }
  await looksRight(studio, "call-hostile", info);
  await studio.goto(`${crib.address}/studio/tools?q=${encodeURIComponent(HOSTILE)}`);
  await expect(studio.locator("main script, main img")).toHaveCount(0);
});

test("a call that waits is approved, and of two people one is told", async ({ studio, crib, browser }, info) => {
  const ask = api(crib);
  const call = { tool: "refund_order", arguments: { number: "9" }, ctx: { chat_id: `chat-${info.project.name}` } };
  const outcome = await ask("POST", "/v1/agents/support/calls", call);
  expect(outcome.status).toBe("waiting");
  await studio.getByRole("link", { name: "Approvals", exact: true }).click();
  await looksRight(studio, "approvals", info);
  await studio.locator(".card", { hasText: "refund_order" }).first().click();
  await expect(studio.getByText("What runs when it is approved")).toBeVisible();
  await looksRight(studio, "approval", info);
  const other = await (await browser.newContext()).newPage();
  await other.goto(studio.url());
  await other.getByLabel("Token").fill(crib.token);
  await other.keyboard.press("Enter");
  await expect(other.getByRole("button", { name: "Deny" })).toBeVisible();
  await studio.getByLabel(/Reason/).fill("the parcel was lost");
  await studio.getByRole("button", { name: "Approve" }).click();
  await expect(studio.getByText(/by first admin.*the parcel was lost/)).toBeVisible();
  await expect(other.getByText(/by first admin.*the parcel was lost/), "without a click").toBeVisible({ timeout: 10_000 });
  await expect(other.getByRole("button", { name: "Deny" })).toHaveCount(0);
  await other.context().close();
});

test("a call is refused with a reason, and a question is answered", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const ctx = { chat_id: `asks-${info.project.name}` };
  await ask("PUT", "/v1/agents/asking", { tools_allow: ["ask_question", "refund_order"] });
  const refused = await ask("POST", "/v1/agents/asking/calls", { tool: "refund_order", arguments: { number: "13" }, ctx });
  await studio.goto(`${crib.address}/studio/approvals/${refused.approval.id}`);
  await studio.getByLabel(/Reason/).fill("it was delivered");
  await studio.getByRole("button", { name: "Deny" }).click();
  await expect(studio.getByText("✗ denied")).toBeVisible();
  await expect(studio.getByRole("heading", { name: "What the caller reads" })).toBeVisible();
  await expect(studio.locator("pre").last()).toContainText("it was delivered");

  const question = { question: "How many parcels?", answer_type: "number" };
  const asked = await ask("POST", "/v1/agents/asking/calls", { tool: "ask_question", arguments: question, ctx });
  await studio.goto(`${crib.address}/studio/approvals/${asked.approval.id}`);
  await expect(studio.getByText("How many parcels?", { exact: true })).toBeVisible();
  await studio.getByLabel("Answer").fill("many");
  await studio.getByRole("button", { name: "Answer" }).click();
  await expect(studio.getByRole("alert")).toContainText("number");
  await studio.getByLabel("Answer").fill("3");
  await studio.getByRole("button", { name: "Answer" }).click();
  await expect(studio.getByText("✓ answered")).toBeVisible();
  expect((await ask("GET", `/v1/approvals/${asked.approval.id}`)).answer).toBe(3);
});

test("a form of another origin is refused", async ({ studio, crib }) => {
  const answer = await studio.request.post(`${crib.address}/studio/tools/find_order/try`, { form: { send: "yes" } });
  expect(answer.status()).toBe(403);
  const forged = { send: "yes", form_key: "AAAA" };
  expect((await studio.request.post(`${crib.address}/studio/tools/find_order/try`, { form: forged })).status()).toBe(403);
});

test("pages can be read without JavaScript", async ({ browser, crib }) => {
  const page = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
  await page.goto(`${crib.address}/studio`);
  await page.getByLabel("Token").fill(crib.token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("link", { name: "Calls", exact: true }).click();
  await expect(page.getByRole("link", { name: "find_order" }).first()).toBeVisible();
  await page.context().close();
});
