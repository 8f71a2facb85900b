// Server-sent events, read with `fetch`: EventSource cannot show a token, and a cookie would go to other ports.

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 10000;
const SILENCE = 35000; // the server says something at least every ten seconds

const waited = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Takes what has come; returns the events that are complete, and the rest of the text. */
export function split(text) {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop();
  const events = [];
  for (const block of blocks) {
    let name = "message";
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    }
    if (data.length) events.push({ name, data: data.join("\n") });
  }
  return { events, rest };
}

/**
 * Follows the manager until it says that it ends, or until the token is refused.
 * `on` has `view(picture)`, `state(word, text)`, `refused(text)` and `end()`.
 */
export async function follow(token, on) {
  let pause = FIRST_PAUSE;
  for (;;) {
    const aborter = new AbortController();
    let watchdog = setTimeout(() => aborter.abort(), SILENCE);
    try {
      const response = await fetch("events", {
        headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream" },
        cache: "no-store",
        credentials: "omit",
        signal: aborter.signal,
      });
      if (response.status === 401 || response.status === 403) {
        on.refused((await problem(response)) || "this token is not known");
        return;
      }
      if (!response.ok) throw new Error((await problem(response)) || `the manager answered ${response.status}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => aborter.abort(), SILENCE);
        const { events, rest } = split(text + value);
        text = rest;
        for (const event of events) {
          if (event.name === "end") {
            on.end();
            return;
          }
          if (event.name === "view") {
            pause = FIRST_PAUSE;
            on.state("live", "live");
            on.view(JSON.parse(event.data));
          }
        }
      }
      on.state("lost", "connection lost, trying again");
    } catch (error) {
      const why = error instanceof TypeError || error.name === "AbortError" ? "no answer" : error.message;
      on.state("lost", `${why}, trying again`);
    } finally {
      clearTimeout(watchdog);
    }
    await waited(pause * (0.75 + Math.random() / 2));
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }
}

async function problem(response) {
  try {
    return (await response.json()).error;
  } catch {
    return "";
  }
}
