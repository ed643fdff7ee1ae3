// Runs streams through a published client: a JSON object a line comes in, with the messages and the state that the
// client has and the events of a stream; what it shows then goes out, or why it refused. Argument: the version's folder.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const resolve = createRequire(pathToFileURL(`${folder}/package.json`)).resolve;
const { AbstractAgent } = await import(pathToFileURL(resolve("@ag-ui/client")));
const { from } = createRequire(resolve("@ag-ui/client"))("rxjs");

for (const name of ["debug", "warn", "error"]) console[name] = () => {};

class Agent extends AbstractAgent {
  constructor(events, given) {
    super(given);
    this.events = events;
  }

  run() {
    return from(this.events);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { messages, state, events } = JSON.parse(line);
  const agent = new Agent(events, { threadId: "t1", initialMessages: messages, initialState: state });
  let answer;
  try {
    await agent.runAgent({ runId: "r1" });
    answer = { messages: agent.messages, state: agent.state };
  } catch (error) {
    answer = { refused: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
