// A page with CopilotKit's client, driven by the lines that come in, as application.mjs is. It talks to the gateway as
// to CopilotKit's own runtime. Arguments: the folder of the client, the URL of the runtime, a token, the transport.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The client connects to its runtime only where there is a window.
globalThis.window = globalThis;
const [folder, runtimeUrl, token, transport] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${folder}/package.json`)).resolve;
const copilotkit = await import(pathToFileURL(resolve("@copilotkit/core")));

const headers = { Authorization: `Bearer ${token}` };
const core = new copilotkit.CopilotKitCore({
  runtimeUrl,
  headers,
  ...(transport ? { runtimeTransport: transport } : {}),
});
const errors = [];
core.subscribe({ onError: ({ code, error }) => errors.push(`${code}: ${error.message}`) });

// What the list of threads is drawn from.
const store = copilotkit.ɵcreateThreadStore({ fetch: globalThis.fetch });
store.start();

function connected() {
  const status = () => core.runtimeConnectionStatus;
  return settled(status, (now) => now === "connected" || now === "error", (notify) =>
    core.subscribe({ onRuntimeConnectionStatusChanged: notify }),
  );
}

function settled(read, isSettled, subscribe) {
  return new Promise((resolve) => {
    const look = () => isSettled(read()) && (resolve(read()), subscription?.unsubscribe());
    const subscription = subscribe(look);
    look();
  });
}

async function agentOf(thread) {
  await connected();
  const agent = core.getAgent("default");
  if (agent.threadId !== thread) {
    agent.threadId = thread;
    agent.setMessages([]);
  }
  if (!agent.isWatched) {
    agent.isWatched = true;
    agent.subscribe({ onEvent: ({ event }) => tell({ agent: "default", saw: event }) });
  }
  return agent;
}

const shown = (agent) => ({
  messages: agent.messages,
  state: agent.state,
  interrupts: agent.pendingInterrupts,
  errors: errors.splice(0),
});

const commands = {
  async info() {
    return { status: await connected(), agents: Object.keys(core.agents), threads: core.threadEndpoints, errors };
  },
  async open({ thread }) {
    const agent = await agentOf(thread);
    await core.connectAgent({ agent });
    return shown(agent);
  },
  async run({ thread, message, resume }) {
    const agent = await agentOf(thread);
    if (message) agent.addMessage(message);
    await core.runAgent({ agent, ...(resume ? { resume } : {}) });
    return shown(agent);
  },
  async stop({ thread }) {
    core.stopAgent({ agent: await agentOf(thread) });
  },
  async threads({ archived, limit }) {
    await connected();
    store.setContext({ runtimeUrl, headers, agentId: "default", includeArchived: archived ?? false, limit });
    const state = await settled(
      () => store.getState(),
      (now) => !now.isLoading,
      (notify) => store.select((now) => now.isLoading).subscribe(notify),
    );
    return { threads: state.threads, error: state.error && String(state.error), next: state.nextCursor };
  },
  rename: ({ thread, name }) => store.renameThread(thread, name),
  archive: ({ thread }) => store.archiveThread(thread),
  unarchive: ({ thread }) => store.unarchiveThread(thread),
  delete: ({ thread }) => store.deleteThread(thread),
  async suggest({ thread }) {
    await agentOf(thread);
    const suggestions = new Promise((resolve) => {
      core.subscribe({ onSuggestionsFinishedLoading: () => resolve(core.getSuggestions("default").suggestions) });
    });
    core.addSuggestionsConfig({ instructions: "Suggest what to ask", available: "always" });
    core.reloadSuggestions("default");
    return suggestions;
  },
};

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// Their client writes its warnings to the console; what goes out here is answers.
console.log = console.error;

for await (const line of createInterface({ input: process.stdin })) {
  const { id, command, ...rest } = JSON.parse(line);
  commands[command](rest).then(
    (answer) => tell({ id, answer: answer ?? null }),
    (error) => tell({ id, error: `${error?.name}: ${error?.message ?? error}` }),
  );
}
process.exit(0);
