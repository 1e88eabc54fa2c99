// The OpenAI SDK for Node against a gateway: node openai_node.mjs BASE_URL KEY. One line per check; exit status 1 if one fails.

import assert from "node:assert/strict";
import process from "node:process";

import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey, maxRetries: 0 });
const question = { model: "tiny", max_tokens: 8, messages: [{ role: "user", content: "Why is the sky blue?" }] };

async function textOf(stream) {
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  return text;
}

const checks = {
  async "a chat is answered, with usage and a request id"() {
    const answer = await client.chat.completions.create(question);
    assert.equal(answer.choices[0].finish_reason, "length");
    assert.ok(answer.choices[0].message.content);
    assert.equal(answer.usage.completion_tokens, 8);
    assert.ok(answer._request_id);
  },

  async "a stream has the text of the whole answer"() {
    const whole = await client.chat.completions.create(question);
    const stream = await client.chat.completions.create({ ...question, stream: true });
    assert.equal(await textOf(stream), whole.choices[0].message.content);
  },

  async "usage comes last in a stream that asks for it"() {
    const options = { ...question, stream: true, stream_options: { include_usage: true } };
    const chunks = [];
    for await (const chunk of await client.chat.completions.create(options)) chunks.push(chunk);
    assert.equal(chunks.at(-1).usage.completion_tokens, 8);
    assert.deepEqual(chunks.at(-1).choices, []);
  },

  async "the stream helper has a final completion"() {
    const helper = client.chat.completions.stream({ ...question, max_tokens: 300 });
    const final = await helper.finalChatCompletion();
    assert.equal(final.choices[0].finish_reason, "stop");
    assert.ok(final.choices[0].message.content);
  },

  async "a stream can be left, and the client goes on"() {
    const stream = await client.chat.completions.create({ ...question, max_tokens: 500, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    assert.ok(stream.controller.signal.aborted);
    assert.ok((await client.chat.completions.create(question)).choices.length);
  },

  async "a text completion takes token ids"() {
    const answer = await client.completions.create({ model: "tiny", prompt: [11, 22, 33], max_tokens: 2 });
    assert.equal(answer.usage.prompt_tokens, 3);
  },

  async "the response says which worker answered"() {
    const { response, request_id: requestId } = await client.chat.completions.create(question).withResponse();
    assert.match(response.headers.get("x-warmgate-worker"), /^[\w-]+$/); // an id, not an address
    assert.equal(response.headers.get("x-request-id"), requestId);
  },

  async "an unknown key is an AuthenticationError"() {
    const stranger = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "sk-any", maxRetries: 2 });
    await assert.rejects(stranger.chat.completions.create(question), (error) => {
      assert.ok(error instanceof OpenAI.AuthenticationError);
      assert.deepEqual([error.status, error.code], [401, "invalid_api_key"]);
      return true;
    });
  },

  async "an unknown model is a NotFoundError"() {
    await assert.rejects(client.chat.completions.create({ ...question, model: "gpt-9" }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.deepEqual([error.status, error.code, error.param], [404, "model_not_found", "model"]);
      assert.ok(error.requestID);
      return true;
    });
  },

  async "a field that is wrong is a BadRequestError"() {
    await assert.rejects(client.chat.completions.create({ ...question, messages: [] }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.deepEqual([error.status, error.param], [400, "messages"]);
      return true;
    });
  },

  async "models are listed and retrieved"() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes("tiny"));
    assert.equal((await client.models.retrieve("gpt-4o")).id, "gpt-4o");
  },
};

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok    ${name}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAIL  ${name}: ${String(error).replaceAll("\n", " ")}`);
  }
}
