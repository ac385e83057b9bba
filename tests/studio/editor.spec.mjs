// Making a tool and changing it: checked while somebody types, saved once, and merged with what another saved.

import { api, expect, test } from "./servers.mjs";
import { looksRight } from "./looks.mjs";

const unique = (info, name) => `${name}_${info.project.name.replace("-", "_")}`;

test("a curl command becomes a tool", async ({ studio, crib }, info) => {
  const name = unique(info, "make_note");
  await studio.getByRole("link", { name: "Tools", exact: true }).click();
  await studio.getByRole("link", { name: "A new tool" }).click();
  await looksRight(studio, "new", info);
  await studio.getByLabel("A curl command").fill("curl -F a=b https://a.example");
  await studio.getByRole("button", { name: "Make a tool of it" }).click();
  await expect(studio.getByRole("alert")).toContainText("multipart/form-data");
  const command = `curl -X POST ${crib.up}/anything/notes -H 'Authorization: Bearer hunter2hunter2' --json '{"text": "hello", "pinned": true}'`;
  await studio.getByLabel("A curl command").fill(command);
  await studio.getByRole("button", { name: "Make a tool of it" }).click();
  await expect(studio.getByText("It needs the secret")).toBeVisible();
  expect(await studio.content()).not.toContain("hunter2");
  await looksRight(studio, "editor", info);

  await studio.getByLabel("Name", { exact: true }).fill("Not A Name");
  await expect(studio.locator("#name-problems li")).toContainText("name");
  await expect(studio.getByLabel("Name", { exact: true })).toHaveAttribute("aria-invalid", "true");
  await studio.getByLabel("Name", { exact: true }).fill(name);
  await expect(studio.locator("#name-problems li")).toHaveCount(0);
  await studio.getByLabel("URL").fill(`${crib.up}/anything/{{nowhere}}`);
  await expect(studio.locator("#url-problems li")).toContainText("nowhere");
  await studio.getByRole("button", { name: "Save" }).click();
  await expect(studio.getByRole("alert")).toContainText("It is not saved");
  await studio.getByLabel("URL").fill(`${crib.up}/anything/notes`);
  await studio.getByLabel("Description").fill("Make a note");
  await studio.getByLabel("Headers", { exact: true }).fill("");
  await studio.getByLabel("Headers with secrets").fill("");
  await studio.getByRole("button", { name: "Switch: lines or JSON Schema" }).click();
  await expect(studio.getByRole("alert")).toContainText("lines would say less");
  await studio.getByLabel("Parameters").fill("text | string | required | What to note\npinned | boolean | optional");
  await studio.getByRole("button", { name: "Switch: lines or JSON Schema" }).click();
  await expect(studio.getByLabel("Parameters")).toHaveValue(/"description": "What to note"/);
  await studio.getByRole("button", { name: "Switch: lines or JSON Schema" }).click();
  await expect(studio.getByLabel("Parameters")).toHaveValue("text | string | required | What to note\npinned | boolean | optional");
  await studio.getByText("What a model reads by Anthropic").click();
  await expect(studio.getByText('"input_schema"')).toBeVisible();
  await expect(studio.locator("#checked pre").first()).toContainText('{"text":"sample","pinned":true}');
  await studio.getByRole("button", { name: "Save" }).click();
  await expect(studio.getByRole("heading", { name })).toBeVisible();
  const { definition } = await api(crib)("GET", `/v1/tools/${name}`);
  expect(definition.request.body).toEqual({ text: "{{text}}", pinned: "{{pinned}}" });
});

test("what no field shows survives, and another's version is not lost", async ({ studio, crib }, info) => {
  const ask = api(crib);
  const name = unique(info, "shared");
  const tool = { name, description: "First", parameters: [{ name: "q" }], request: { method: "POST", url: "https://api.example.com", body: { q: "{{q}}" } }, not_performed_on: [503] };
  await ask("PUT", `/v1/tools/${name}`, tool);
  await studio.goto(`${crib.address}/studio/tools/${name}/edit`);
  await studio.getByLabel("Description").fill("Mine");
  await ask("PUT", `/v1/tools/${name}`, { ...tool, description: "Theirs", tags: ["new"] });
  await studio.getByRole("button", { name: "Save" }).click();
  await expect(studio.getByRole("alert")).toContainText("Somebody saved this tool while you worked on it");
  await expect(studio.getByRole("row", { name: /description Theirs Mine/ })).toBeVisible();
  await looksRight(studio, "merge", info);
  await studio.getByLabel("Tags").fill("new");
  await studio.getByRole("button", { name: "Save" }).click();
  await expect(studio.getByRole("heading", { name })).toBeVisible();
  const { definition } = await ask("GET", `/v1/tools/${name}`);
  expect(definition).toMatchObject({ description: "Mine", tags: ["new"], not_performed_on: [503] });
});

test("operations of a document are picked", async ({ studio, crib }, info) => {
  const prefix = unique(info, "op");
  const document = {
    openapi: "3.1.0", info: { title: "Shop", version: "1" }, servers: [{ url: "https://api.example.com" }],
    paths: {
      "/orders": { get: { operationId: `${prefix}_list`, summary: "List orders", responses: {} } },
      "/orders/{id}": { get: { operationId: `${prefix}_read`, summary: "Read an order", responses: {} } },
      "/files": { post: { operationId: `${prefix}_upload`, requestBody: { required: true, content: { "multipart/form-data": {} } }, responses: {} } },
    },
  };
  await studio.goto(`${crib.address}/studio/new`);
  await studio.getByLabel("An OpenAPI document, in JSON").fill("openapi: 3.1.0");
  await studio.getByRole("button", { name: "List its operations" }).click();
  await expect(studio.getByRole("alert")).toContainText("not JSON");
  await studio.getByLabel("An OpenAPI document, in JSON").fill(JSON.stringify(document));
  await studio.getByRole("button", { name: "List its operations" }).click();
  await expect(studio.getByText("2 of 3 operations can be tools.")).toBeVisible();
  await expect(studio.getByText(/multipart\/form-data, which a tool can't send/)).toBeVisible();
  await looksRight(studio, "operations", info);
  await studio.getByLabel(`${prefix}_read`).check();
  await studio.getByRole("button", { name: "Make those that are ticked" }).click();
  await expect(studio.getByRole("status")).toContainText("1 tool(s) made");
  expect((await api(crib)("GET", `/v1/tools/${prefix}_read`)).definition.description).toBe("Read an order");
});
