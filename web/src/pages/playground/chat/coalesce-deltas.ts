import type { UIMessageChunk } from 'ai';

type Delta = Extract<UIMessageChunk, { type: 'text-delta' | 'reasoning-delta' | 'tool-input-delta' }>;

/**
 * Merge deltas of a part that arrive close together: tokens arrive faster than anyone reads, and every delta costs a
 * render.
 */
export function coalesceDeltas(milliseconds = 40): TransformStream<UIMessageChunk, UIMessageChunk> {
  let pendingDelta: Delta | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const release = (controller: TransformStreamDefaultController<UIMessageChunk>) => {
    clearTimeout(timer);
    timer = undefined;
    if (pendingDelta) controller.enqueue(pendingDelta);
    pendingDelta = null;
  };
  const releaseOnTimer = (controller: TransformStreamDefaultController<UIMessageChunk>) => {
    try {
      release(controller);
    } catch {
      // The stream was cancelled or failed: nothing to deliver to.
      pendingDelta = null;
    }
  };
  return new TransformStream({
    transform(chunk, controller) {
      if (!isDelta(chunk)) {
        release(controller);
        controller.enqueue(chunk);
        return;
      }
      const merged: Delta | null = pendingDelta && joinDeltas(pendingDelta, chunk);
      if (!merged) release(controller);
      pendingDelta = merged ?? chunk;
      timer ??= setTimeout(() => releaseOnTimer(controller), milliseconds);
    },
    flush: release,
  });
}

const isDelta = (chunk: UIMessageChunk): chunk is Delta =>
  chunk.type === 'text-delta' || chunk.type === 'reasoning-delta' || chunk.type === 'tool-input-delta';

function joinDeltas(first: Delta, second: Delta): Delta | null {
  if (first.type === 'tool-input-delta') {
    return second.type === 'tool-input-delta' && first.toolCallId === second.toolCallId
      ? { ...first, inputTextDelta: first.inputTextDelta + second.inputTextDelta }
      : null;
  }
  return second.type === first.type && second.id === first.id ? { ...first, delta: first.delta + second.delta } : null;
}
