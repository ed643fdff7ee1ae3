// A page of an application, driven by the lines that come in: a command each, answered by a line each. What its agents
// see is told as it comes. Arguments: the folder of the client's version, and the URL of the gateway.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { durableFetch } from "./durable.mjs";

const [folder, gateway, token] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${folder}/package.json`)).resolve;
const { HttpAgent, runHttpRequest, transformHttpEventStream } = await import(
  pathToFileURL(resolve("@ag-ui/client"))
);
const authorization = { Authorization: `Bearer ${token}` };

/** The published agent, and how this application opens a thread: by the gateway's connect route. */
class Agent extends HttpAgent {
  connect(input) {
    const url = `${gateway}/threads/${encodeURIComponent(input.threadId)}/connect/`;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(url, this.requestInit(input))));
  }
}

const agents = new Map();

function agentOf(name, threadId) {
  if (!agents.has(name)) {
    const agent = new Agent({
      url: `${gateway}/`,
      threadId,
      headers: authorization,
      fetch: durableFetch(gateway),
    });
    agent.subscribe({ onEvent: ({ event }) => tell({ agent: name, saw: event }) });
    agents.set(name, agent);
  }
  return agents.get(name);
}

const shown = (agent) => ({ messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts ?? [] });

const commands = {
  async run({ agent: name, thread, run, message, resume }) {
    const agent = agentOf(name, thread);
    if (message) agent.addMessage(message);
    await agent.runAgent({ runId: run, ...(resume ? { resume } : {}) });
    return shown(agent);
  },
  async connect({ agent: name, thread }) {
    const agent = agentOf(name, thread);
    await agent.connectAgent();
    return shown(agent);
  },
  async abort({ agent: name }) {
    agents.get(name).abortRun();
  },
  async cancel({ thread, run }) {
    const url = `${gateway}/threads/${encodeURIComponent(thread)}/runs/${encodeURIComponent(run)}/cancel/`;
    const response = await fetch(url, { method: "POST", headers: authorization });
    return response.json();
  },
};

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...rest } = JSON.parse(line);
  commands[command](rest).then(
    (answer) => tell({ id, answer: answer ?? null }),
    (error) => tell({ id, error: `${error?.name}: ${error?.message ?? error}` }),
  );
}
process.exit(0);
