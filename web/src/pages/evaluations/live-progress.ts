/** How an evaluation goes on, as its stream of events tells: progress and state, until it has ended. Knows no React. */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { readError } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { paths } from '@/api/schema.d';
import { streamFetch } from '@/api/stream-fetch';
import { serverPath } from '@/lib/server-path';
import { isOpen } from './format';
import { evaluationQuery as asked, type Evaluation } from './queries';

export type ProgressUpdate =
  paths['/api/evaluations/{evaluation}/events']['get']['responses'][200]['content']['text/event-stream'];
export type Progress = Extract<ProgressUpdate, { type: 'progress' }>;

/** Cells are read as a table, not one by one: after this number none is told. */
const NO_PROGRESS = 2 ** 31;
const RECONNECT_DELAY_MS = 1000;

/**
 * Tells what comes until the evaluation has ended, or `signal` says that nobody listens. A lost connection is tried
 * again.
 */
export async function followEvaluation(
  id: string,
  tell: (told: ProgressUpdate) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const answer = await streamFetch(
        serverPath(`/api/evaluations/${encodeURIComponent(id)}/events?after=${NO_PROGRESS}`),
        {
          signal,
        },
      );
      if (!answer.ok) throw await readError(answer);
      if (await parseUpdate(answer, tell)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Error && 'status' in error && Number(error.status) >= 400 && Number(error.status) < 500)
        return;
    }
    await new Promise((done) => setTimeout(done, RECONNECT_DELAY_MS));
  }
}

const END_STATES: ReadonlySet<string> = new Set(['succeeded', 'partly', 'failed', 'cancelled']);

/** Was its end told? */
async function parseUpdate(answer: Response, tell: (told: ProgressUpdate) => void): Promise<boolean> {
  if (!answer.body) return answer.status === 204;
  const frames = new EventStreamParser();
  const reader = answer.body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let ended = false;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    for (const data of frames.feed(piece.value)) {
      const told = JSON.parse(data) as ProgressUpdate;
      tell(told);
      if (told.type === 'state' && END_STATES.has(told.state)) ended = true;
    }
  }
  return ended;
}

/** The data of server-sent events, out of pieces that may end anywhere. */
export class EventStreamParser {
  #rest = '';

  feed(piece: string): string[] {
    const frames = (this.#rest + piece).split('\n\n');
    this.#rest = frames.pop() ?? '';
    return frames.flatMap((frame) => {
      const data = frame
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trimStart());
      return data.length > 0 ? [data.join('\n')] : [];
    });
  }
}

/** Figures and results are read again at most so often, in milliseconds. */
const REFRESH_INTERVAL_MS = 1500;

/**
 * An evaluation as it goes on: while it runs its stream is followed, and its figures and results are read again as
 * they grow.
 */
export interface LiveEvaluation {
  evaluation: Evaluation | undefined;
  error: Error | null;
  retry: () => void;
  /** Of the last moment, while it runs. */
  progress: Progress | null;
}

export function useLiveEvaluation(id: string): LiveEvaluation {
  const { data, error, refetch } = useQuery(asked(id));
  const [progress, setProgress] = useState<Progress | null>(null);
  const running = data !== undefined && isOpen(data.state);
  useEffect(() => {
    if (!running) return undefined;
    const left = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      timer = undefined;
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'summary'] });
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'results'] });
    };
    const keep = (what: Partial<Evaluation>) =>
      queryClient.setQueryData(asked(id).queryKey, (known) => known && { ...known, ...what });
    void followEvaluation(
      id,
      (told) => {
        if (told.type === 'progress') {
          setProgress(told);
          keep({ done: told.done, failed: told.failed, errors: told.errors ?? 0, cost: told.cost ?? null });
          timer ??= setTimeout(look, REFRESH_INTERVAL_MS);
        } else if (told.type === 'state') {
          keep({ state: told.state, reason: told.reason });
          if (!isOpen(told.state)) {
            void queryClient.invalidateQueries({ queryKey: ['evaluation', id] });
            void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
          }
        }
      },
      left.signal,
    );
    return () => {
      left.abort();
      clearTimeout(timer);
      setProgress(null);
    };
  }, [id, running]);
  return { evaluation: data, error, retry: () => void refetch(), progress: running ? progress : null };
}
