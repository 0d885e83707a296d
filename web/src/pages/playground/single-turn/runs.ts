/**
 * The runs of a board's cells, as rows with previews, kept fresh: a notice about one of them, and every few seconds
 * while
 * some still go on. What has ended is not asked for again.
 */
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { api } from '@/api/client';
import { socket } from '@/api/stream-fetch';
import type { Board, Run } from '@/api/types';
import { hasEnded } from '@/components/messages/run-output';
import { unreachable } from '@/lib/unreachable';

const PAGE = 200;
const POLL = 2000;
const NOTICED = 300;
const NONE: Runs = {};

/** Many pages are asked for less often. */
const slowed = (open: number): number => Math.floor(open / PAGE) * 500;

const keyOf = (board: string): readonly string[] => ['board-runs', board];

/** Ask again now: something was begun or ended. */
export const refreshRuns = (client: QueryClient, board: string): Promise<void> =>
  client.invalidateQueries({ queryKey: keyOf(board) });

export function useBoardRuns(board: Board): Runs {
  const client = useQueryClient();
  const wanted = useMemo(() => board.cells.flatMap(({ run }) => (run ? [run] : [])), [board.cells]);
  const { data = NONE } = useQuery({
    queryKey: keyOf(board.id),
    enabled: board.id !== '' && wanted.length > 0,
    queryFn: ({ signal }) => collect(board.id, wanted, client.getQueryData<Runs>(keyOf(board.id)) ?? NONE, signal),
    structuralSharing: false, // `collect` keeps what has not changed.
    refetchInterval: (query) => {
      const open = unsettled(wanted, query.state.data ?? NONE).length;
      return open ? Math.max(POLL, slowed(open)) : false;
    },
  });

  const unheard = wanted.some((id) => data[id] === undefined);
  useEffect(() => {
    if (unheard && board.id) void refreshRuns(client, board.id);
  }, [unheard, board.id, client]);

  const open = useMemo(() => unsettled(wanted, data).length, [wanted, data]);
  const pause = Math.max(NOTICED, slowed(open));
  useEffect(() => {
    const ours = new Set(wanted);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leave = socket.listen((notice) => {
      if (notice.changed !== 'run' || !ours.has(notice.ref) || timer) return;
      timer = setTimeout(() => {
        timer = undefined;
        void refreshRuns(client, board.id);
      }, pause);
    });
    return () => {
      clearTimeout(timer);
      leave();
    };
  }, [wanted, board.id, client, pause]);
  return data;
}

/** Page by page, newest first, until nothing more is to be learnt; what no page has is gone. */
async function collect(board: string, wanted: readonly string[], known: Runs, signal: AbortSignal): Promise<Runs> {
  const missing = new Set(unsettled(wanted, known));
  const found: Record<string, Run | null> = Object.fromEntries(
    wanted.flatMap((id) => (known[id] === undefined ? [] : [[id, known[id]]])),
  );
  let after: string | null | undefined;
  while (missing.size) {
    const page = await api('get', '/api/runs', { query: { board, limit: PAGE, ...(after ? { after } : {}) }, signal });
    for (const run of page.data) {
      if (missing.delete(run.id)) found[run.id] = unchanged(known[run.id], run) ?? run;
    }
    after = page.next;
    if (!after) break;
  }
  for (const id of missing) found[id] = null;
  return found;
}

/** The run as it was known, when nothing has happened to it since: then nothing is drawn again. */
const unchanged = (known: Run | null | undefined, now: Run): Run | null =>
  known && known.status === now.status && known.seq === now.seq && known.ended_at === now.ended_at ? known : null;

/** The runs of cells by their id; null: the server has it no more. */
export type Runs = Readonly<Record<string, Run | null>>;

/** How far the cells of a board are. Pure. */
export interface Progress {
  cells: number;
  /** Ended by themselves. */
  good: number;
  /** Failed, cancelled or interrupted. */
  failed: number;
  running: number;
  /** Waiting, or begun so lately that nothing is known of them. */
  queued: number;
  /** Never run. */
  empty: number;
}

export const cellKey = (row: string, column: string): string => `${row}.${column}`;

/** Which run each cell holds. */
export function runsByCell(board: Pick<Board, 'cells'>): Map<string, string> {
  return new Map(board.cells.flatMap(({ row, column, run }) => (run ? [[cellKey(row, column), run] as const] : [])));
}

export function progressOf(board: Pick<Board, 'rows' | 'columns' | 'cells'>, runs: Runs): Progress {
  const held = runsByCell(board);
  const progress: Progress = { cells: 0, good: 0, failed: 0, running: 0, queued: 0, empty: 0 };
  for (const row of board.rows) {
    for (const column of board.columns) {
      progress.cells += 1;
      progress[stateOf(held.get(cellKey(row.id, column.id)), runs)] += 1;
    }
  }
  return progress;
}

function stateOf(id: string | undefined, runs: Runs): Exclude<keyof Progress, 'cells'> {
  if (!id || runs[id] === null) return 'empty';
  const status = runs[id]?.status;
  switch (status) {
    case undefined:
    case 'queued':
      return 'queued';
    case 'running':
      return 'running';
    case 'finished':
      return 'good';
    case 'failed':
    case 'cancelled':
    case 'interrupted':
      return 'failed';
    default:
      return unreachable(status) ?? 'empty';
  }
}

/** Runs that may still change, or of which nothing is known yet. */
export function unsettled(wanted: readonly string[], runs: Runs): string[] {
  return wanted.filter((id) => {
    const run = runs[id];
    return run === undefined || (run !== null && !hasEnded(run));
  });
}
