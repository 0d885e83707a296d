/** What a column answered to a row: its last run, with how it went and what can be done about it. */
import { useQuery } from '@tanstack/react-query';
import { Play, RotateCw, Square } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { run as runQuery } from '@/api/queries';
import type { Run } from '@/api/types';
import { Button, Hint, IconButton } from '@/components/button';
import { PreviewView, isWhole, previewIn } from '@/components/preview';
import { Badge, Problem, Spinner } from '@/components/status';
import { formatCompactNumber, formatDuration } from '@/lib/format';
import { unreachable } from '@/lib/unreachable';
import { DiffView } from './diff-view';
import { hasEnded, secondsOf, tokensOf } from '@/components/messages/run-output';
import { ReplyView } from './reply-view';

interface Props {
  /** The run as a row of a list; undefined: nothing is known of it yet, null: there is none. */
  run: Run | null | undefined;
  /** The run of the base column, when this cell shows how it differs from that. */
  base: Run | null | undefined;
  label: string;
  onRun: () => void;
  onStop: (run: string) => void;
}

export function OutputCell({ run, base, label, onRun, onStop }: Props): ReactNode {
  if (run === null) {
    return (
      <div className="flex h-full min-h-16 items-center justify-center">
        <Button size="small" look="quiet" aria-label={`Run ${label}`} onClick={onRun}>
          <Play className="size-3.5" /> Run
        </Button>
      </div>
    );
  }
  if (run === undefined) return <div className="p-1"><Spinner /></div>;
  return (
    <div className="group/cell flex h-full min-h-16 min-w-0 flex-col gap-2">
      <Status run={run} label={label} onRun={onRun} onStop={onStop} />
      {run.error && run.status !== 'cancelled' && (
        <Problem error={new Error(String(run.error['message'] ?? 'It failed.'))}>
          <Button size="small" onClick={onRun}>
            <RotateCw className="size-3.5" /> Retry
          </Button>
        </Problem>
      )}
      <div className="max-h-96 min-w-0 overflow-y-auto wrap-anywhere" aria-busy={!hasEnded(run)}>
        <Output run={run} base={base} />
      </div>
    </div>
  );
}

function Output({ run, base }: { run: Run; base: Run | null | undefined }): ReactNode {
  const preview = previewIn(run.out);
  const comparing = Boolean(base) && base?.id !== run.id;
  // Texts that the preview has in full need not be fetched once more.
  const needs = run.status !== 'queued' && (comparing || preview.renderer !== 'text' || !isWhole(preview)) && (run.seq > 0 || !hasEnded(run));
  const ended = hasEnded(run);
  const full = useQuery({
    ...runQuery(run.id),
    enabled: needs,
    staleTime: ({ state }) => (state.data && hasEnded(state.data) ? Number.POSITIVE_INFINITY : 0),
    // Notices tell of it as well, where there is a socket; what was fetched while it ran is not all of it.
    refetchInterval: ({ state }) => (state.data && hasEnded(state.data) ? false : ended ? 500 : 2000),
  });
  const other = useQuery({ ...runQuery(base?.id ?? ''), enabled: comparing });
  if (comparing && full.data?.reply && other.data?.reply) return <DiffView base={other.data} run={full.data} />;
  if (full.data?.reply && (!ended || hasEnded(full.data))) return <ReplyView run={full.data} />;
  if (preview.renderer === 'empty') return ended && !run.error && run.status === 'finished' ? <span className="text-faint">Empty answer</span> : null;
  return <PreviewView preview={preview} roomy />;
}

function Status({ run, label, onRun, onStop }: { run: Run } & Pick<Props, 'label' | 'onRun' | 'onStop'>): ReactNode {
  const now = useNow(run.status === 'running');
  const seconds = secondsOf(run, now);
  const tokens = tokensOf(run);
  const took = [tokens === null ? '' : `${formatCompactNumber(tokens)} tokens`, seconds === null ? '' : run.status === 'running' ? formatDuration(Math.floor(seconds)) : lasted(seconds)];
  return (
    <div className="flex h-6 items-center gap-2 text-xs text-muted">
      <Word status={run.status} />
      <span className="min-w-0 truncate tabular-nums">{took.filter(Boolean).join(' · ')}</span>
      <span className="grow" />
      {hasEnded(run) ? (
        <IconButton
          size="small"
          label={`Run ${label} again`}
          onClick={onRun}
          className="!size-6 opacity-0 group-focus-within/cell:opacity-100 group-hover/cell:opacity-100 pointer-coarse:opacity-100"
        >
          <RotateCw />
        </IconButton>
      ) : (
        <IconButton size="small" label={`Stop ${label}`} onClick={() => onStop(run.id)} className="!size-6">
          <Square />
        </IconButton>
      )}
    </div>
  );
}

const lasted = (seconds: number): string => (seconds < 0.1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : formatDuration(seconds));

function Word({ status }: { status: Run['status'] }): ReactNode {
  switch (status) {
    case 'queued':
      return <Badge>Waiting</Badge>;
    case 'running':
      return (
        <span className="flex items-center gap-1.5 text-accent">
          <Spinner label="Running" /> Running
        </span>
      );
    case 'finished':
      return <Badge tone="good">Done</Badge>;
    case 'failed':
      return <Badge tone="bad">Failed</Badge>;
    case 'cancelled':
      return <Badge tone="warn">Stopped</Badge>;
    case 'interrupted':
      return (
        <Hint text="The process that ran it went away.">
          <span>
            <Badge tone="warn">Interrupted</Badge>
          </span>
        </Hint>
      );
    default:
      return unreachable(status);
  }
}

/** The time, every second while it matters. */
function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}
