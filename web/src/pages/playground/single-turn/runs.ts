/**
 * Runs of a board's cells with previews. Refreshed by notices, and by polling while some are active; finished runs are
 * not fetched again.
 */
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { api } from '@/api/client';
import { socket } from '@/api/stream-fetch';
import type { Board, Run } from '@/api/types';
import { hasEnded } from '@/components/messages/run-output';
import { unreachable } from '@/lib/unreachable';

const RUNS_PER_PAGE = 200;
const POLL_INTERVAL_MS = 2000;
const NOTICE_DELAY_MS = 300;
const NO_RUNS: RunsByCell = {};

/** Poll less often if there are many pages. */
const extraPollDelay = (open: number): number => Math.floor(open / RUNS_PER_PAGE) * 500;

const runsKey = (board: string): readonly string[] => ['board-runs', board];

/** Refetch now, after runs were started or stopped. */
export const refreshRuns = (client: QueryClient, board: string): Promise<void> =>
  client.invalidateQueries({ queryKey: runsKey(board) });

export function useBoardRuns(board: Board): RunsByCell {
  const client = useQueryClient();
  const wanted = useMemo(() => board.cells.flatMap(({ run }) => (run ? [run] : [])), [board.cells]);
  const { data = NO_RUNS } = useQuery({
    queryKey: runsKey(board.id),
    enabled: board.id !== '' && wanted.length > 0,
    queryFn: ({ signal }) =>
      collectRuns(board.id, wanted, client.getQueryData<RunsByCell>(runsKey(board.id)) ?? NO_RUNS, signal),
    structuralSharing: false, // `collectRuns` keeps the identity of unchanged runs.
    refetchInterval: (query) => {
      const open = unfinishedRuns(wanted, query.state.data ?? NO_RUNS).length;
      return open ? Math.max(POLL_INTERVAL_MS, extraPollDelay(open)) : false;
    },
  });

  const unheard = wanted.some((id) => data[id] === undefined);
  useEffect(() => {
    if (unheard && board.id) void refreshRuns(client, board.id);
  }, [unheard, board.id, client]);

  const open = useMemo(() => unfinishedRuns(wanted, data).length, [wanted, data]);
  const pause = Math.max(NOTICE_DELAY_MS, extraPollDelay(open));
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

/** Fetch pages, newest first, until all wanted runs are found; the others are deleted. */
async function collectRuns(
  board: string,
  wanted: readonly string[],
  known: RunsByCell,
  signal: AbortSignal,
): Promise<RunsByCell> {
  const missing = new Set(unfinishedRuns(wanted, known));
  const found: Record<string, Run | null> = Object.fromEntries(
    wanted.flatMap((id) => (known[id] === undefined ? [] : [[id, known[id]]])),
  );
  let after: string | null | undefined;
  while (missing.size) {
    const page = await api('get', '/api/runs', {
      query: { board, limit: RUNS_PER_PAGE, ...(after ? { after } : {}) },
      signal,
    });
    for (const run of page.data) {
      if (missing.delete(run.id)) found[run.id] = reuseUnchanged(known[run.id], run) ?? run;
    }
    after = page.next;
    if (!after) break;
  }
  for (const id of missing) found[id] = null;
  return found;
}

/** The known object if the run is unchanged, so that it does not render again. */
const reuseUnchanged = (known: Run | null | undefined, now: Run): Run | null =>
  known && known.status === now.status && known.seq === now.seq && known.ended_at === now.ended_at ? known : null;

/** Runs by id; null: deleted. */
export type RunsByCell = Readonly<Record<string, Run | null>>;

export interface BoardProgress {
  cells: number;
  /** Finished normally. */
  good: number;
  /** Failed, cancelled or interrupted. */
  failed: number;
  running: number;
  /** Queued, or not loaded yet. */
  queued: number;
  /** Never run. */
  empty: number;
}

export const cellKey = (row: string, column: string): string => `${row}.${column}`;

/** Run id of each cell. */
export function runsByCell(board: Pick<Board, 'cells'>): Map<string, string> {
  return new Map(board.cells.flatMap(({ row, column, run }) => (run ? [[cellKey(row, column), run] as const] : [])));
}

export function boardProgress(board: Pick<Board, 'rows' | 'columns' | 'cells'>, runs: RunsByCell): BoardProgress {
  const held = runsByCell(board);
  const progress: BoardProgress = { cells: 0, good: 0, failed: 0, running: 0, queued: 0, empty: 0 };
  for (const row of board.rows) {
    for (const column of board.columns) {
      progress.cells += 1;
      progress[cellState(held.get(cellKey(row.id, column.id)), runs)] += 1;
    }
  }
  return progress;
}

function cellState(id: string | undefined, runs: RunsByCell): Exclude<keyof BoardProgress, 'cells'> {
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

/** Runs that are active or not loaded yet. */
export function unfinishedRuns(wanted: readonly string[], runs: RunsByCell): string[] {
  return wanted.filter((id) => {
    const run = runs[id];
    return run === undefined || (run !== null && !hasEnded(run));
  });
}
