/** Live progress of an evaluation over its event stream. */
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { readError } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { paths } from '@/api/schema.d';
import { streamFetch } from '@/api/stream-fetch';
import { serverPath } from '@/lib/server-path';
import { isActive } from './format';
import { evaluationQuery, type Evaluation } from './queries';

export type ProgressUpdate =
  paths['/api/evaluations/{evaluation}/events']['get']['responses'][200]['content']['text/event-stream'];
export type Progress = Extract<ProgressUpdate, { type: 'progress' }>;

/** Start the stream after all cells: the page fetches them as a table, not as events. */
const AFTER_ALL_CELLS = 2 ** 31;
const RECONNECT_DELAY_MS = 1000;

/** Call `onUpdate` for each update until the end, an abort or a 4xx response. Reconnects after other errors. */
export async function followEvaluation(
  id: string,
  onUpdate: (update: ProgressUpdate) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await streamFetch(
        serverPath(`/api/evaluations/${encodeURIComponent(id)}/events?after=${AFTER_ALL_CELLS}`),
        {
          signal,
        },
      );
      if (!response.ok) throw await readError(response);
      if (await readUpdates(response, onUpdate)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Error && 'status' in error && Number(error.status) >= 400 && Number(error.status) < 500)
        return;
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_DELAY_MS));
  }
}

const END_STATES: ReadonlySet<string> = new Set(['succeeded', 'partly', 'failed', 'cancelled']);

/** Read updates of one response; resolves to whether the end was reached. */
async function readUpdates(response: Response, onUpdate: (update: ProgressUpdate) => void): Promise<boolean> {
  if (!response.body) return response.status === 204;
  const frames = new EventStreamParser();
  const reader = response.body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .getReader();
  let hasEnded = false;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    for (const data of frames.feed(piece.value)) {
      const update = JSON.parse(data) as ProgressUpdate;
      onUpdate(update);
      if (update.type === 'state' && END_STATES.has(update.state)) hasEnded = true;
    }
  }
  return hasEnded;
}

/** Parses server-sent events from arbitrarily split chunks; returns their data. */
export class EventStreamParser {
  #buffer = '';

  feed(piece: string): string[] {
    const frames = (this.#buffer + piece).split('\n\n');
    this.#buffer = frames.pop() ?? '';
    return frames.flatMap((frame) => {
      const data = frame
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trimStart());
      return data.length > 0 ? [data.join('\n')] : [];
    });
  }
}

/** Minimum time between two refreshes of figures and results. */
const REFRESH_INTERVAL_MS = 1500;

export interface LiveEvaluation {
  evaluation: Evaluation | undefined;
  error: Error | null;
  retry: () => void;
  /** Latest progress while running. */
  progress: Progress | null;
}

export function useLiveEvaluation(id: string): LiveEvaluation {
  const { data, error, refetch } = useQuery(evaluationQuery(id));
  const [progress, setProgress] = useState<Progress | null>(null);
  const isRunning = data !== undefined && isActive(data.state);
  useEffect(() => {
    if (!isRunning) return undefined;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = () => {
      timer = undefined;
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'summary'] });
      void queryClient.invalidateQueries({ queryKey: ['evaluation', id, 'results'] });
    };
    const updateCache = (patch: Partial<Evaluation>) =>
      queryClient.setQueryData(evaluationQuery(id).queryKey, (cached) => cached && { ...cached, ...patch });
    void followEvaluation(
      id,
      (update) => {
        if (update.type === 'progress') {
          setProgress(update);
          updateCache({
            done: update.done,
            failed: update.failed,
            errors: update.errors ?? 0,
            cost: update.cost ?? null,
          });
          timer ??= setTimeout(refresh, REFRESH_INTERVAL_MS);
        } else if (update.type === 'state') {
          updateCache({ state: update.state, reason: update.reason });
          if (!isActive(update.state)) {
            void queryClient.invalidateQueries({ queryKey: ['evaluation', id] });
            void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
          }
        }
      },
      controller.signal,
    );
    return () => {
      controller.abort();
      clearTimeout(timer);
      setProgress(null);
    };
  }, [id, isRunning]);
  return { evaluation: data, error, retry: () => void refetch(), progress: isRunning ? progress : null };
}
