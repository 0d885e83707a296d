/**
 * The runs of a board's cells, as rows with previews, kept fresh: a notice about one of them, and every few seconds while
 * some still go on. What has ended is not asked for again.
 */
import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { api } from '@/api/client';
import { socket } from '@/api/stream-fetch';
import type { Board, Run } from '@/api/types';
import { type Runs, unsettled } from './progress';

const PAGE = 200;
const POLL = 2000;
const NOTICED = 300;
const NONE: Runs = {};

/** Many pages are asked for less often. */
const slowed = (open: number): number => Math.floor(open / PAGE) * 500;

const keyOf = (board: string): readonly string[] => ['board-runs', board];

/** Ask again now: something was begun or ended. */
export const refreshRuns = (client: QueryClient, board: string): Promise<void> => client.invalidateQueries({ queryKey: keyOf(board) });

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
  const found: Record<string, Run | null> = Object.fromEntries(wanted.flatMap((id) => (known[id] === undefined ? [] : [[id, known[id]]])));
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
