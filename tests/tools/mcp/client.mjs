// The official TypeScript client against the server: argv[2] is what the test asks for, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const asked = JSON.parse(process.argv[2]);
const transport = asked.url
  ? new StreamableHTTPClientTransport(new URL(asked.url))
  : new StdioClientTransport({ command: asked.command, args: asked.args });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const answers = { tools: (await client.listTools()).tools.map((tool) => tool.name), results: [] };
for (const call of asked.calls) answers.results.push(await client.callTool({ name: "fetch", arguments: call }));
answers.prompt = await client.getPrompt({ name: "fetch", arguments: { url: asked.prompt } });
const giveUp = new AbortController();
setTimeout(() => giveUp.abort(), 1000);
try {
  await client.callTool({ name: "fetch", arguments: { url: asked.hold } }, undefined, { signal: giveUp.signal });
} catch (error) {
  answers.aborted = true;
}
await new Promise((done) => setTimeout(done, 500));
await client.close();
console.log(JSON.stringify(answers));
