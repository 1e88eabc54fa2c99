// What Vercel's AI SDK raises for the errors of a gateway: node errors_vercel.mjs CASES. One line per check; exit status 1
// if one fails. CASES is what `refusing_gateway` of errors.py yields.

import process from "node:process";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText } from "ai";

const MOST_ASKED = 20; // requests until a limit refuses one

// The status, and whether the SDK would ask again by itself: for 408, 409, 429 and from 500 on.
const EXPECTED = {
  "wrong key": [401, false],
  "model not allowed": [403, false],
  "unknown model": [404, false],
  "bad field": [400, false],
  "body too large": [413, false],
  "rate limit": [429, true],
  "budget spent": [429, true],
  "no worker": [503, true],
  "context too long": [400, false],
};

const { base_url: baseURL, cases } = JSON.parse(process.argv[2]);

async function refusal({ key, model, words, extra }) {
  const provider = createOpenAICompatible({ name: "warmgate", baseURL, apiKey: key });
  for (let asked = 0; asked < MOST_ASKED; asked++) {
    try {
      await generateText({
        model: provider(model),
        prompt: "word ".repeat(words),
        maxOutputTokens: 8,
        maxRetries: 0,
        providerOptions: { warmgate: extra },
      });
    } catch (error) {
      return error;
    }
  }
  throw new Error(`${MOST_ASKED} requests were answered`);
}

for (const [name, [status, isRetryable]] of Object.entries(EXPECTED)) {
  const error = await refusal(cases[name] ?? cases[`${name} (vercel)`]);
  const isRight =
    APICallError.isInstance(error) &&
    error.statusCode === status &&
    error.isRetryable === isRetryable &&
    error.message === JSON.parse(error.responseBody).error.message;
  if (!isRight) process.exitCode = 1;
  const said = isRight ? "" : `: ${error.statusCode}, isRetryable ${error.isRetryable}: ${error}`.replaceAll("\n", " ");
  console.log(`${isRight ? "ok   " : "FAIL "} vercel: ${name}${said}`);
}
