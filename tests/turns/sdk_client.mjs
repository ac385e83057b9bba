// OpenAI's own client for Node, streaming and not: `sdk_client.mjs BASE TOKEN`.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

let said = "";
let final;
const kinds = new Set();
for await (const event of await client.responses.create({ model: "shop", input: "until the halt", user: "n", stream: true })) {
  if (event.type === "keepalive") kinds.add(event.toolcrib.type);
  if (event.type === "response.output_text.delta") said += event.delta;
  if (event.type === "response.completed") final = event.response;
}
assert.equal(said, "I look it up. That failed, so I ask for the refund. You are subscribed.");
assert.equal(final.status, "completed");
assert.ok(kinds.has("parked"));

const plain = await client.responses.create({ model: "shop", input: "hello" });
assert.equal(plain.output_text, "Hello there, this is the shop.");
const helper = await client.responses.stream({ model: "shop", input: "hello" }).finalResponse();
assert.equal(helper.output_text, "Hello there, this is the shop.");
await assert.rejects(client.responses.create({ model: "nobody", input: "x" }), OpenAI.NotFoundError);
console.log("all is well");
