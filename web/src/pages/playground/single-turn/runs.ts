/**
 * Runs of a board's cells with previews. Refreshed by notices, and by polling while some are active; finished runs are
 * not fetched again.
 */
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { api, type Board, type Run } from '@/api/client';
import { socket } from '@/api/stream-fetch';
import { hasEnded } from '@/components/messages/nodes';
import { unreachable } from '@/lib/unreachable';

const RUNS_PER_PAGE = 200;
const POLL_INTERVAL_MS = 2000;
const NOTICE_DELAY_MS = 300;
const NO_RUNS: RunsById = {};

/** Poll less often if there are many pages. */
const extraPollDelay = (unfinishedCount: number): number => Math.floor(unfinishedCount / RUNS_PER_PAGE) * 500;

const runsKey = (board: string): readonly string[] => ['board-runs', board];

/** Refetch now, after runs were started or stopped. */
export const refreshRuns = (client: QueryClient, board: string): Promise<void> =>
  client.invalidateQueries({ queryKey: runsKey(board) });

export function useBoardRuns(board: Board): RunsById {
  const client = useQueryClient();
  const runIds = useMemo(() => board.cells.flatMap(({ run }) => (run ? [run] : [])), [board.cells]);
  const { data = NO_RUNS } = useQuery({
    queryKey: runsKey(board.id),
    enabled: board.id !== '' && runIds.length > 0,
    queryFn: ({ signal }) =>
      collectRuns(board.id, runIds, client.getQueryData<RunsById>(runsKey(board.id)) ?? NO_RUNS, signal),
    structuralSharing: false, // `collectRuns` keeps the identity of unchanged runs.
    refetchInterval: (query) => {
      const unfinishedCount = unfinishedRuns(runIds, query.state.data ?? NO_RUNS).length;
      return unfinishedCount ? Math.max(POLL_INTERVAL_MS, extraPollDelay(unfinishedCount)) : false;
    },
  });

  const isMissing = runIds.some((id) => data[id] === undefined);
  useEffect(() => {
    if (isMissing && board.id) void refreshRuns(client, board.id);
  }, [isMissing, board.id, client]);

  const unfinishedCount = useMemo(() => unfinishedRuns(runIds, data).length, [runIds, data]);
  const refreshDelay = Math.max(NOTICE_DELAY_MS, extraPollDelay(unfinishedCount));
  useEffect(() => {
    const ownIds = new Set(runIds);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const unsubscribe = socket.listen((notice) => {
      if (notice.changed !== 'run' || !ownIds.has(notice.ref) || timer) return;
      timer = setTimeout(() => {
        timer = undefined;
        void refreshRuns(client, board.id);
      }, refreshDelay);
    });
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }, [runIds, board.id, client, refreshDelay]);
  return data;
}

/** Fetch pages, newest first, until all wanted runs are found; the others are deleted. */
async function collectRuns(
  board: string,
  runIds: readonly string[],
  cached: RunsById,
  signal: AbortSignal,
): Promise<RunsById> {
  const missing = new Set(unfinishedRuns(runIds, cached));
  const fetched: Record<string, Run | null> = Object.fromEntries(
    runIds.flatMap((id) => (cached[id] === undefined ? [] : [[id, cached[id]]])),
  );
  let after: string | null | undefined;
  while (missing.size) {
    const page = await api('get', '/api/runs', {
      query: { board, limit: RUNS_PER_PAGE, ...(after ? { after } : {}) },
      signal,
    });
    for (const run of page.data) {
      if (missing.delete(run.id)) fetched[run.id] = reuseUnchanged(cached[run.id], run) ?? run;
    }
    after = page.next;
    if (!after) break;
  }
  for (const id of missing) fetched[id] = null;
  return fetched;
}

/** The known object if the run is unchanged, so that it does not render again. */
const reuseUnchanged = (cached: Run | null | undefined, run: Run): Run | null =>
  cached && cached.status === run.status && cached.seq === run.seq && cached.ended_at === run.ended_at ? cached : null;

/** Runs by id; null: deleted. */
export type RunsById = Readonly<Record<string, Run | null>>;

export interface BoardProgress {
  cells: number;
  /** Finished normally. */
  succeeded: number;
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
export function runIdsByCell(board: Pick<Board, 'cells'>): Map<string, string> {
  return new Map(board.cells.flatMap(({ row, column, run }) => (run ? [[cellKey(row, column), run] as const] : [])));
}

export function boardProgress(board: Pick<Board, 'rows' | 'columns' | 'cells'>, runs: RunsById): BoardProgress {
  const idByCell = runIdsByCell(board);
  const progress: BoardProgress = { cells: 0, succeeded: 0, failed: 0, running: 0, queued: 0, empty: 0 };
  for (const row of board.rows) {
    for (const column of board.columns) {
      progress.cells += 1;
      progress[cellState(idByCell.get(cellKey(row.id, column.id)), runs)] += 1;
    }
  }
  return progress;
}

function cellState(id: string | undefined, runs: RunsById): Exclude<keyof BoardProgress, 'cells'> {
  if (!id || runs[id] === null) return 'empty';
  const status = runs[id]?.status;
  switch (status) {
    case undefined:
    case 'queued':
      return 'queued';
    case 'running':
      return 'running';
    case 'finished':
      return 'succeeded';
    case 'failed':
    case 'cancelled':
    case 'interrupted':
      return 'failed';
    default:
      return unreachable(status) ?? 'empty';
  }
}

/** Runs that are active or not loaded yet. */
export function unfinishedRuns(runIds: readonly string[], runs: RunsById): string[] {
  return runIds.filter((id) => {
    const run = runs[id];
    return run === undefined || (run !== null && !hasEnded(run));
  });
}
