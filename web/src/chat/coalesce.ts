/**
 * Deltas of one part that come close together are one delta to the page: a model's tokens arrive faster than anyone
 * reads, and every delta costs a render.
 */
import type { UIMessageChunk } from 'ai';

type Delta = Extract<UIMessageChunk, { type: 'text-delta' | 'reasoning-delta' | 'tool-input-delta' }>;

export function coalesced(milliseconds = 40): TransformStream<UIMessageChunk, UIMessageChunk> {
  let held: Delta | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const release = (controller: TransformStreamDefaultController<UIMessageChunk>) => {
    clearTimeout(timer);
    timer = undefined;
    if (held) controller.enqueue(held);
    held = null;
  };
  const inTime = (controller: TransformStreamDefaultController<UIMessageChunk>) => {
    try {
      release(controller);
    } catch {
      // Nobody reads any more, or the stream broke off: there is nobody to give it to.
      held = null;
    }
  };
  return new TransformStream({
    transform(chunk, controller) {
      if (!isDelta(chunk)) {
        release(controller);
        controller.enqueue(chunk);
        return;
      }
      const joined: Delta | null = held && join(held, chunk);
      if (!joined) release(controller);
      held = joined ?? chunk;
      timer ??= setTimeout(() => inTime(controller), milliseconds);
    },
    flush: release,
  });
}

const isDelta = (chunk: UIMessageChunk): chunk is Delta =>
  chunk.type === 'text-delta' || chunk.type === 'reasoning-delta' || chunk.type === 'tool-input-delta';

function join(first: Delta, second: Delta): Delta | null {
  if (first.type === 'tool-input-delta') {
    return second.type === 'tool-input-delta' && first.toolCallId === second.toolCallId
      ? { ...first, inputTextDelta: first.inputTextDelta + second.inputTextDelta }
      : null;
  }
  return second.type === first.type && second.id === first.id ? { ...first, delta: first.delta + second.delta } : null;
}
