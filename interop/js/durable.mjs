// What an application adds to the published HttpAgent so that no cut loses anything: it remembers the id of the last
// event, and asks the gateway for what came after it. The agent sees one stream that was never cut.

const RETRY_MILLISECONDS = 50;
const ATTEMPTS = 200;
const TERMINAL = new Set(["RUN_FINISHED", "RUN_ERROR"]);

/** A `fetch` for HttpAgent whose streams go on after a cut. `gateway` is the URL that ends in `/agui`. */
export function durableFetch(gateway) {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.ok || !response.body) return response;
    const isRun = url === `${gateway}/`;
    const { threadId, runId } = JSON.parse(init.body);
    const body = new ReadableStream(new Following(gateway, init, threadId, isRun ? runId : null, response.body));
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

/** The source of a stream: whole frames only, first those of one response, after a cut those of the next. */
class Following {
  constructor(gateway, init, threadId, runId, body) {
    Object.assign(this, { gateway, init, threadId, runId });
    this.frames = framesOf(body);
    this.lastId = null;
    this.sinceLastId = 0; // Events that were shown before the log had them carry no id.
  }

  async pull(controller) {
    const frame = await this.next();
    if (frame === null) return controller.close();
    controller.enqueue(new TextEncoder().encode(`${frame}\n\n`));
  }

  cancel() {
    return this.frames.return();
  }

  async next() {
    for (;;) {
      let frame;
      try {
        frame = await this.frames.next();
      } catch (error) {
        if (this.init.signal?.aborted) throw error;
        await this.resume(error);
        continue;
      }
      if (frame.done) {
        if (this.isOver) return null;
        await this.resume(new Error("The stream ended without a terminal event"));
        continue;
      }
      if (this.take(frame.value)) return frame.value;
    }
  }

  take(frame) {
    const id = field(frame, "id");
    const data = field(frame, "data");
    if (data === null) return true;
    this.isOver = TERMINAL.has(JSON.parse(data).type);
    if (this.toSkip > 0) {
      this.toSkip -= 1;
      if (id === null) return false;
      this.remember(id);
      return false;
    }
    if (id === null) this.sinceLastId += 1;
    else this.remember(id);
    return true;
  }

  remember(id) {
    this.lastId = id;
    this.sinceLastId = 0;
    this.runId ??= decodeURIComponent(id.slice(0, id.lastIndexOf(":")));
  }

  async resume(why) {
    // A page that was cut off in the prelude knows no run yet: it opens the thread again.
    if (this.runId === null) throw why;
    const thread = encodeURIComponent(this.threadId);
    const url = `${this.gateway}/threads/${thread}/runs/${encodeURIComponent(this.runId)}/events/`;
    const headers = { Authorization: this.init.headers.Authorization, Accept: "text/event-stream" };
    if (this.lastId !== null) headers["Last-Event-ID"] = this.lastId;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await fetch(url, { headers, signal: this.init.signal });
        if (!response.ok) throw new Refused(`${response.status} ${await response.text()}`);
        this.frames = framesOf(response.body);
        this.toSkip = this.sinceLastId;
        return;
      } catch (error) {
        if (error instanceof Refused || this.init.signal?.aborted || attempt === ATTEMPTS) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
      }
    }
  }
}

class Refused extends Error {}

async function* framesOf(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const frames = text.split("\n\n");
    text = frames.pop();
    yield* frames;
  }
}

function field(frame, name) {
  const lines = frame.split("\n").filter((line) => line.startsWith(`${name}: `));
  return lines.length ? lines.map((line) => line.slice(name.length + 2)).join("\n") : null;
}
