// An operator's first hour: from a curl command to a tool that an agent uses, through a fault and its mending, to a decision on
// a phone.

import { expect, test } from "./servers.mjs";

test("an operator's first hour", async ({ page, crib, browser }, info) => {
  test.setTimeout(120_000);
  const name = `parcel_${info.project.name.replace("-", "_")}`;
  const chat = `hour-${info.project.name}`;
  const call = async (tool, args) => {
    const answer = await fetch(`${crib.address}/v1/agents/support-${info.project.name}/calls`, {
      method: "POST",
      headers: { authorization: `Bearer ${crib.token}`, "content-type": "application/json" },
      body: JSON.stringify({ tool, arguments: args, ctx: { chat_id: chat } }),
    });
    return await answer.json();
  };

  // Log in, and paste a curl command.
  await page.goto(`${crib.address}/studio`);
  await page.getByLabel("Token").fill(crib.token);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "Tools", exact: true }).click();
  await page.getByRole("link", { name: "A new tool" }).click();
  await page.getByLabel("A curl command").fill(`curl '${crib.up}/anything/parcels/17?verbose=true'`);
  await page.getByRole("button", { name: "Make a tool of it" }).click();

  // Save, and try.
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByLabel("Description").fill("Find a parcel by its number");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { name })).toBeVisible();
  await page.getByLabel(/parcel_id/).fill("17");
  await page.getByLabel(/verbose/).selectOption("true");
  await page.getByRole("button", { name: "Send it" }).click();
  await expect(page.getByRole("status")).toContainText("ok");

  // Allow it for an agent.
  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByLabel("Id").fill(`support-${info.project.name}`);
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByLabel("Search").fill(name);
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByLabel(`Rule for ${name}`).selectOption("allowed");
  await page.getByRole("button", { name: "Save the tools" }).click();
  await expect(page.getByRole("row", { name: new RegExp(`^${name} .*yes`) })).toBeVisible();

  // See the call in the session viewer.
  expect((await call(name, { parcel_id: 17, verbose: true })).status).toBe("ok");
  await page.getByRole("link", { name: "Sessions", exact: true }).click();
  await page.getByRole("link", { name: chat, exact: true }).click();
  await expect(page.locator(".card", { hasText: name })).toContainText("ok");
  const viewer = page.url();

  // Break it, and find out why.
  await page.goto(`${crib.address}/studio/tools/${name}/edit`);
  await page.getByLabel("URL").fill(`http://169.254.169.254/parcels/{{parcel_id}}`);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { name })).toBeVisible();
  expect((await call(name, { parcel_id: 17, verbose: true })).status).toBe("error");
  await page.goto(viewer);
  await expect(page.locator(".card.blocked")).toContainText("Blocked by the egress policy: 169.254.169.254");

  // Mend it: what changed is seen, and the version before is restored.
  await page.locator(".card.blocked").getByRole("link", { name }).click();
  await page.getByRole("link", { name: /What changed since version/ }).first().click();
  await expect(page.locator("ins")).toContainText("169.254.169.254");
  await page.getByRole("link", { name: "as it is now" }).click();
  await page.getByRole("button", { name: /Restore version/ }).first().click();
  await expect(page.getByText("/anything/parcels/{{parcel_id}}").first()).toBeVisible();
  expect((await call(name, { parcel_id: 17, verbose: true })).status).toBe("ok");

  // From now on a person has to look, and does so on a phone.
  await page.getByRole("link", { name: "Edit it" }).click();
  await page.getByLabel("Approval").fill("always");
  await page.getByLabel("Changes something").selectOption("yes");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { name })).toBeVisible();
  expect((await call(name, { parcel_id: 18, verbose: false })).status).toBe("waiting");
  const context = await browser.newContext({ viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
  const phone = await context.newPage();
  await phone.goto(`${crib.address}/studio/approvals`);
  await phone.getByLabel("Token").fill(crib.token);
  await phone.keyboard.press("Enter");
  await phone.locator(".card", { hasText: name }).tap();
  await expect(phone.getByText("/anything/parcels/18?verbose=false")).toBeVisible();
  await phone.getByLabel(/Reason/).fill("it is the customer's own");
  await phone.getByRole("button", { name: "Approve" }).tap();
  await expect(phone.getByText("✓ approved")).toBeVisible();
  await context.close();
  await page.goto(viewer);
  await expect(page.locator(".card").filter({ hasText: "succeeded" }).first()).toBeVisible({ timeout: 10_000 });
});
