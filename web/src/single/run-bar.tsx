/** The line above the table: run and stop, how far it is, how many at once, what to compare with, and more rows. */
import { ChevronDown, ClipboardPaste, Play, Plus, Square } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Board } from '@/api/types';
import { useBoardStore } from '@/board/board-state';
import { classes } from '@/lib/class-names';
import { Button, IconButton } from '@/components/button';
import { Menu, MenuItem } from '@/components/menu';
import { type Acts, concurrencyOf } from './acts';
import type { Progress } from './progress';
import { MOST_ROWS } from './rows';

interface Props {
  board: Board;
  progress: Progress;
  acts: Acts;
  /** The base column of the comparison, or none. */
  base: string | null;
  onAdd: () => void;
  onPaste: () => void;
}

export function RunBar({ board, progress, acts, base, onAdd, onPaste }: Props): ReactNode {
  const busy = progress.running + progress.queued > 0;
  return (
    <div className="flex flex-wrap items-center gap-2 border-b px-3 py-2">
      <div className="flex">
        <Button look="main" size="small" className="rounded-r-none" disabled={progress.cells === 0} onClick={() => acts.run('all')}>
          <Play className="size-3.5" /> Run all
        </Button>
        <Menu
          align="start"
          trigger={
            <Button look="main" size="small" aria-label="Run some" className="rounded-l-none border-l-canvas/40 !px-1" disabled={progress.cells === 0}>
              <ChevronDown className="size-3.5" />
            </Button>
          }
        >
          <MenuItem onSelect={() => acts.run('empty')} disabled={progress.empty === 0} keys={String(progress.empty)}>
            Run empty
          </MenuItem>
          <MenuItem onSelect={() => acts.run('failed')} disabled={progress.failed === 0} keys={String(progress.failed)}>
            Run failed
          </MenuItem>
        </Menu>
      </div>
      {busy && (
        <Button size="small" onClick={acts.stopAll}>
          <Square className="size-3.5" /> Cancel
        </Button>
      )}
      <Bar progress={progress} />
      <span className="grow" />
      <Settings board={board} base={base} />
      <Button size="small" disabled={board.rows.length >= MOST_ROWS} onClick={onAdd}>
        <Plus className="size-3.5" /> Add row
      </Button>
      <IconButton size="small" label="Paste rows" disabled={board.rows.length >= MOST_ROWS} onClick={onPaste}>
        <ClipboardPaste />
      </IconButton>
    </div>
  );
}

const SMALL = 'h-7 cursor-pointer rounded-lg border bg-surface px-1.5 text-[13px] text-ink hover:border-strong-line';

function Settings({ board, base }: Pick<Props, 'board' | 'base'>): ReactNode {
  const store = useBoardStore();
  const lay = (what: Record<string, unknown>): void => store.change((now) => ({ ...now, layout: { ...now.layout, ...what } }));
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1 text-[13px] text-muted">
      <label className="flex items-center gap-1.5">
        At once
        <select value={concurrencyOf(board.layout)} onChange={(event) => lay({ concurrency: Number(event.target.value) })} className={SMALL}>
          {[1, 2, 4, 8, 16].map((number) => (
            <option key={number}>{number}</option>
          ))}
        </select>
      </label>
      {board.columns.length > 1 && (
        <label className="flex min-w-0 items-center gap-1.5">
          Compare
          <select value={base ?? ''} onChange={(event) => lay({ compare: event.target.value || null })} className={classes(SMALL, 'max-w-44 min-w-0')}>
            <option value="">Off</option>
            {board.columns.map((column, place) => (
              <option key={column.id} value={column.id}>
                with {place + 1}: {column.workflow}
                {column.variant === 'default' ? '' : ` · ${column.variant}`}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

/** "12 of 40 done, 1 failed", and the same as a bar. */
function Bar({ progress: { cells, good, failed, running, queued } }: { progress: Progress }): ReactNode {
  const done = good + failed;
  if (done + running + queued === 0) return null;
  const part = (number: number): { width: string } => ({ width: `${(number / Math.max(cells, 1)) * 100}%` });
  const words = [`${done.toLocaleString('en')} of ${cells.toLocaleString('en')} done`, failed && `${failed} failed`, running && `${running} running`].filter(Boolean).join(', ');
  return (
    <div className="flex min-w-0 items-center gap-2">
      <div role="progressbar" aria-label="Cells done" aria-valuemin={0} aria-valuemax={cells} aria-valuenow={done} aria-valuetext={words} className="flex h-1.5 w-24 overflow-hidden rounded-full bg-strong-line/50 sm:w-40">
        <span className="bg-good transition-[width]" style={part(good)} />
        <span className="bg-bad transition-[width]" style={part(failed)} />
        <span className="animate-pulse bg-accent transition-[width]" style={part(running)} />
      </div>
      <span role="status" className="truncate text-[13px] text-muted tabular-nums">
        {words}
      </span>
    </div>
  );
}
