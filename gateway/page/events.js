// Reads server-sent events as this server writes them: their lines end with "\n".

/** The connection has broken before the last event. */
export class Interrupted extends Error {}

/** The name and the content of each event of a body, wherever its bytes are cut. Who reads them
    leaves at the last one. Throws Interrupted, and what an abort throws. */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { done: true };
    });
    if (done) throw new Interrupted();
    const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(event); // a sign of life is none
      if (found) yield [found[1], JSON.parse(found[2])];
    }
  }
}
