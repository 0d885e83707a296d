// One request a line in, one answer a line out, so that one process (starting Node is slow) plays every scenario.
//
// A request is {way, url, workflow, prompt, then, cancel}: `way` names one of the client's calls, `prompt` is the user
// message, `then` that of a second turn, `cancel` asks to hang up at the first piece of text. The answer is what the
// client built:
// {text: [...], calls: [{id, name, arguments}], results: [{id, output}], reasoning, usage, finish, error}.

import { createInterface } from 'node:readline';

export function nothing() {
  return { text: [], calls: [], results: [], reasoning: '', usage: null, finish: null, error: null };
}

/** Answers each line by the function of its `way`; what goes wrong in a client is part of what it built. */
export async function answer(ways) {
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const built = nothing();
    const hangUp = new AbortController();
    try {
      const heard = () => { if (asked.cancel) hangUp.abort(); };
      await ways[asked.way](asked, built, { signal: hangUp.signal, heard });
    } catch (error) {
      built.error ??= told(error);
    }
    if (hangUp.signal.aborted) built.finish = 'hung up';
    process.stdout.write(`${JSON.stringify(built)}\n`);
  }
}

/** An error as its client reports it: the AI SDK keeps a body as `data`, and version 5 passes on the event of a stream. */
export function told(error) {
  const sent = error?.data?.error ?? error?.data ?? error?.error ?? error;
  return { code: error?.code ?? sent?.code ?? null, message: String(error?.message ?? sent?.message ?? error) };
}
