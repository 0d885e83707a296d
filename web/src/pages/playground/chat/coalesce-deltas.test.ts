import type { UIMessageChunk } from 'ai';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { coalesceDeltas } from './coalesce-deltas';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const text = (id: string, delta: string): UIMessageChunk => ({ type: 'text-delta', id, delta });

async function coalesce(chunks: readonly UIMessageChunk[]): Promise<UIMessageChunk[]> {
  const out: UIMessageChunk[] = [];
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  await stream.pipeThrough(coalesceDeltas()).pipeTo(new WritableStream({ write: (chunk) => void out.push(chunk) }));
  return out;
}

describe('adjacent deltas', () => {
  test('are merged, and flushed at the end of the stream', async () => {
    expect(await coalesce([text('t', 'a'), text('t', 'b'), text('t', 'c')])).toEqual([text('t', 'abc')]);
  });

  test('of different parts are not merged, and all chunks keep their order', async () => {
    const reasoning: UIMessageChunk = { type: 'reasoning-delta', id: 't', delta: 'r' };
    const call = (inputTextDelta: string): UIMessageChunk => ({
      type: 'tool-input-delta',
      toolCallId: 'c',
      inputTextDelta,
    });
    const start: UIMessageChunk = { type: 'text-start', id: 'u' };
    expect(
      await coalesce([
        text('t', 'a'),
        text('t', 'b'),
        reasoning,
        text('t', 'c'),
        start,
        text('u', 'd'),
        call('{'),
        call('}'),
      ]),
    ).toEqual([text('t', 'ab'), reasoning, text('t', 'c'), start, text('u', 'd'), call('{}')]);
  });

  test('are flushed after a delay even if nothing follows', async () => {
    const { readable, writable } = coalesceDeltas(40);
    const writer = writable.getWriter();
    const reader = readable.getReader();
    const read = reader.read();
    await writer.write(text('t', 'a'));
    await writer.write(text('t', 'b'));
    await vi.advanceTimersByTimeAsync(40);
    expect((await read).value).toEqual(text('t', 'ab'));
  });

  test('are dropped silently after the reader cancels', async () => {
    const { readable, writable } = coalesceDeltas(40);
    const writer = writable.getWriter();
    const reader = readable.getReader();
    const read = reader.read();
    await writer.write(text('t', 'a'));
    const cancelled = reader.cancel();
    await vi.advanceTimersByTimeAsync(1000);
    await cancelled;
    expect(await read).toEqual({ done: true, value: undefined });
  });

  test('are not flushed after an error', async () => {
    const { readable, writable } = coalesceDeltas(40);
    const writer = writable.getWriter();
    const reader = readable.getReader();
    const read = reader.read();
    read.catch(() => {});
    await writer.write(text('t', 'a'));
    await writer.abort(new Error('lost'));
    await vi.advanceTimersByTimeAsync(1000);
    await expect(read).rejects.toThrow('lost');
  });
});

test('keeps the text and the order of parts for random chunks', async () => {
  let state = 11;
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
  for (let round = 0; round < 100; round++) {
    const chunks = Array.from({ length: random(40) }, (_, index): UIMessageChunk => {
      const id = `p${random(3)}`;
      const delta = `${index} `;
      return [
        text(id, delta),
        { type: 'reasoning-delta', id, delta } as const,
        { type: 'tool-input-delta', toolCallId: id, inputTextDelta: delta } as const,
        { type: 'text-end', id } as const,
      ][random(4)] as UIMessageChunk;
    });
    const out = await coalesce(chunks);
    expect(partTexts(out)).toEqual(partTexts(chunks));
    expect(
      out.every(
        (chunk, index) =>
          index === 0 || partKey(chunk) !== partKey(out[index - 1] as UIMessageChunk) || chunk.type === 'text-end',
      ),
    ).toBe(true);
  }
});

const partKey = (chunk: UIMessageChunk): string =>
  `${chunk.type} ${'toolCallId' in chunk ? chunk.toolCallId : 'id' in chunk ? chunk.id : ''}`;

/** The text of each part, adjacent deltas joined. */
function partTexts(chunks: readonly UIMessageChunk[]): string[] {
  const deltas: [string, string][] = [];
  for (const chunk of chunks) {
    const delta =
      chunk.type === 'tool-input-delta' ? chunk.inputTextDelta : 'delta' in chunk ? String(chunk.delta) : '.';
    const last = deltas.at(-1);
    if (last?.[0] === partKey(chunk) && delta !== '.') last[1] += delta;
    else deltas.push([partKey(chunk), delta]);
  }
  return deltas.map(([part, content]) => `${part}: ${content}`);
}
