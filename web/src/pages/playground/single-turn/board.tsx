/** Single-turn mode: rows of inputs, a column for each variant, one run in each cell. */
import { useQueries } from '@tanstack/react-query';
import { ClipboardPaste, Plus, Rows3, ChevronDown, Play, Square } from 'lucide-react';
import { useMemo, useRef, useState, type CSSProperties, type ReactNode } from 'react';
import type { Column, Board } from '@/api/client';
import { workflowQuery } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { formOf } from '@/components/forms/json-schema';
import { Menu, MenuItem } from '@/components/menu';
import { Badge, EmptyState, Kbd, Loading, ErrorMessage } from '@/components/status';
import { cn } from '@/lib/cn';
import { useBoard, useBoardStore } from '@/pages/playground/board-store';
import { AddColumn, ColumnHeader } from '@/pages/playground/column-header';
import { initialInputs } from '@/pages/playground/row-inputs';
import { PasteDialog } from './paste-dialog';
import { CELL_CLASS, RowView, type RowInputSchema } from './row-view';
import { useRowActions, MAX_ROWS, mergeSchemas, type RowActions, boardConcurrency } from './rows';
import { useBoardRuns, cellKey, boardProgress, runIdsByCell, type BoardProgress } from './runs';
import { VirtualList } from './virtual-list';

export function SingleTurnBoard(): ReactNode {
  const board = useBoard();
  const { rows, columns, layout } = board;
  const actions = useRowActions();
  const runs = useBoardRuns(board);
  const { inputSchema, error } = useInputSchema(columns);
  const [pasting, setPasting] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const addRow = (): void => {
    actions.add([initialInputs(columns)]);
    setTimeout(() => void (box.current && focusLastRow(box.current)));
  };
  const runIds = useMemo(() => runIdsByCell({ cells: board.cells }), [board.cells]);
  const joinedIds = rows.map(({ id }) => id).join(' ');
  const ids = useMemo(() => (joinedIds ? joinedIds.split(' ') : []), [joinedIds]); // Stable while only inputs change.
  const base = columns.length > 1 && columns.some(({ id }) => id === layout.compare) ? String(layout.compare) : null;
  const progress = boardProgress(board, runs);
  useCommand({ id: 'run-all', title: 'Run all cells', group: 'Rows', run: () => actions.run('all') });
  useCommand({ id: 'add-row', title: 'Add row', group: 'Rows', keys: 'alt+t', run: addRow });
  useCommand({ id: 'paste-rows', title: 'Paste rows', group: 'Rows', run: () => setPasting(true) });

  const runOf = (row: string, column: string) => {
    const id = runIds.get(cellKey(row, column));
    return id === undefined ? null : runs[id];
  };
  const gridStyle = {
    '--columns': `minmax(16rem, 21rem) repeat(${columns.length}, minmax(18rem, 1fr)) 2.5rem`,
    '--wide': `${18.5 + columns.length * 18}rem`,
  } as CSSProperties;
  return (
    <div className="flex min-h-0 grow flex-col">
      <RunBar
        board={board}
        progress={progress}
        actions={actions}
        base={base}
        onAdd={addRow}
        onPaste={() => setPasting(true)}
      />
      <div ref={box} data-scrolls className="min-h-0 grow overflow-auto">
        <div role="table" aria-label="Rows and answers" style={gridStyle} className="sm:min-w-(--wide)">
          <ColumnHeaders columns={columns} base={base} />
          {error ? (
            <div className="p-4">
              <ErrorMessage error={error} />
            </div>
          ) : inputSchema ? (
            <VirtualList
              ids={ids}
              height={168}
              className="border-b max-sm:m-2 max-sm:overflow-hidden max-sm:rounded-xl max-sm:border"
            >
              {(index) => {
                const row = rows[index];
                return (
                  row && (
                    <RowView
                      row={row}
                      number={index + 1}
                      columns={columns}
                      inputSchema={inputSchema}
                      runOf={runOf}
                      base={base}
                      actions={actions}
                    />
                  )
                );
              }}
            </VirtualList>
          ) : (
            <Loading className="p-6" />
          )}
        </div>
        {rows.length === 0 && <NoRows onAdd={addRow} onPaste={() => setPasting(true)} />}
        {rows.length > 0 && rows.length < MAX_ROWS && inputSchema && (
          <div className="sticky left-0 w-max p-2">
            <Button size="small" variant="quiet" onClick={addRow}>
              <Plus className="size-3.5" /> Add row
            </Button>
          </div>
        )}
      </div>
      {pasting && inputSchema && (
        <PasteDialog
          schema={inputSchema.schema}
          isChat={inputSchema.isChat}
          maxRows={MAX_ROWS - rows.length}
          onClose={() => setPasting(false)}
          onAdd={actions.add}
        />
      )}
    </div>
  );
}

/** Scroll to the last row and focus its first field, unless the user types elsewhere by then. */
function focusLastRow(box: HTMLElement): void {
  const before = document.activeElement;
  box.scrollTop = box.scrollHeight;
  setTimeout(() => {
    if (document.activeElement !== before && document.activeElement !== document.body) return;
    [...box.querySelectorAll('[data-row]')].at(-1)?.querySelector('textarea')?.focus();
  }, 100);
}

/** Headers of the columns; a scrollable strip on phones. */
function ColumnHeaders({ columns, base }: { columns: readonly Column[]; base: string | null }): ReactNode {
  return (
    <div
      role="row"
      className={cn(
        'sticky top-0 z-20 flex overflow-x-auto border-b bg-canvas',
        'sm:grid sm:grid-cols-(--columns) sm:overflow-visible',
      )}
    >
      <div
        role="columnheader"
        className="sticky left-0 z-10 hidden items-center bg-canvas px-3 text-[13px] font-medium text-muted sm:flex"
      >
        Inputs
      </div>
      {columns.map((column) => (
        <div
          role="columnheader"
          key={column.id}
          className={`${CELL_CLASS} flex shrink-0 items-center !p-0 max-sm:w-64`}
        >
          <div className="min-w-0 grow">
            <ColumnHeader column={column} />
          </div>
          {base === column.id && (
            <span className="pr-2">
              <Badge title="Other columns show their differences from this one">Base</Badge>
            </span>
          )}
        </div>
      ))}
      <div className="flex shrink-0 items-center justify-center">{columns.length < 8 && <AddColumn />}</div>
    </div>
  );
}

function NoRows({ onAdd, onPaste }: { onAdd: () => void; onPaste: () => void }): ReactNode {
  return (
    <EmptyState icon={<Rows3 />} title="Run many inputs side by side">
      <p>
        Each row is a set of inputs, each column a workflow or variant. Fill in a row, run it with <Kbd>Ctrl</Kbd>{' '}
        <Kbd>Enter</Kbd> and add a column to compare the answers.
      </p>
      <div className="mt-4 flex justify-center gap-2">
        <Button variant="main" onClick={onAdd}>
          <Plus className="size-4" /> Add a row
        </Button>
        <Button onClick={onPaste}>
          <ClipboardPaste className="size-4" /> Paste rows
        </Button>
      </div>
    </EmptyState>
  );
}

/** Input schema of all columns; null while loading. */
function useInputSchema(columns: readonly Column[]): { inputSchema: RowInputSchema | null; error: Error | null } {
  const names = [...new Set(columns.map((column) => column.workflow))];
  return useQueries({
    queries: names.map((name) => workflowQuery(name)),
    combine: (results) => {
      const workflows = results.flatMap(({ data }) => (data ? [data] : []));
      const errors = results.flatMap(({ error }) => (error ? [error] : []));
      // A missing workflow does not affect the other columns.
      if (workflows.length === 0 || workflows.length + errors.length < results.length)
        return { inputSchema: null, error: errors[0] ?? null };
      const schema = mergeSchemas(workflows.map(({ schemas }) => schemas.inputs ?? {}));
      const isChat = workflows.some((workflow) => workflow.is_chat);
      const form = formOf(schema, isChat ? ['messages'] : []);
      return {
        inputSchema: { schema, isChat, hasFields: form.fields.length > 0 || form.open || !isChat },
        error: null,
      };
    },
  });
}

interface Props {
  board: Board;
  progress: BoardProgress;
  actions: RowActions;
  /** Base column of the comparison. */
  base: string | null;
  onAdd: () => void;
  onPaste: () => void;
}

/** Toolbar: run, stop, progress, concurrency, comparison and new rows. */
export function RunBar({ board, progress, actions, base, onAdd, onPaste }: Props): ReactNode {
  const busy = progress.running + progress.queued > 0;
  return (
    <div className="flex flex-wrap items-center gap-2 border-b px-3 py-2">
      <div className="flex">
        <Button
          variant="main"
          size="small"
          className="rounded-r-none"
          disabled={progress.cells === 0}
          onClick={() => actions.run('all')}
        >
          <Play className="size-3.5" /> Run all
        </Button>
        <Menu
          align="start"
          trigger={
            <Button
              variant="main"
              size="small"
              aria-label="More run options"
              className="rounded-l-none border-l-canvas/40 px-1"
              disabled={progress.cells === 0}
            >
              <ChevronDown className="size-3.5" />
            </Button>
          }
        >
          <MenuItem onSelect={() => actions.run('empty')} disabled={progress.empty === 0} keys={String(progress.empty)}>
            Run empty cells
          </MenuItem>
          <MenuItem
            onSelect={() => actions.run('failed')}
            disabled={progress.failed === 0}
            keys={String(progress.failed)}
          >
            Run failed cells
          </MenuItem>
        </Menu>
      </div>
      {busy && (
        <Button size="small" onClick={actions.stopAll}>
          <Square className="size-3.5" /> Cancel
        </Button>
      )}
      <Progress progress={progress} />
      <span className="grow" />
      <Settings board={board} base={base} />
      <Button size="small" disabled={board.rows.length >= MAX_ROWS} onClick={onAdd}>
        <Plus className="size-3.5" /> Add row
      </Button>
      <IconButton size="small" label="Paste rows" disabled={board.rows.length >= MAX_ROWS} onClick={onPaste}>
        <ClipboardPaste />
      </IconButton>
    </div>
  );
}

const SELECT = 'h-7 cursor-pointer rounded-lg border bg-surface px-1.5 text-[13px] text-ink hover:border-strong-line';

function Settings({ board, base }: Pick<Props, 'board' | 'base'>): ReactNode {
  const store = useBoardStore();
  const setLayout = (patch: Record<string, unknown>): void =>
    store.change((old) => ({ ...old, layout: { ...old.layout, ...patch } }));
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1 text-[13px] text-muted">
      <label className="flex items-center gap-1.5">
        Concurrency
        <select
          value={boardConcurrency(board.layout)}
          onChange={(event) => setLayout({ concurrency: Number(event.target.value) })}
          className={SELECT}
        >
          {[1, 2, 4, 8, 16].map((number) => (
            <option key={number}>{number}</option>
          ))}
        </select>
      </label>
      {board.columns.length > 1 && (
        <label className="flex min-w-0 items-center gap-1.5">
          Compare
          <select
            value={base ?? ''}
            onChange={(event) => setLayout({ compare: event.target.value || null })}
            className={cn(SELECT, 'max-w-44 min-w-0')}
          >
            <option value="">Off</option>
            {board.columns.map((column, index) => (
              <option key={column.id} value={column.id}>
                with {index + 1}: {column.workflow}
                {column.variant === 'default' ? '' : ` · ${column.variant}`}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

/** "12 of 40 done, 1 failed", and as a bar. */
function Progress({ progress: { cells, succeeded, failed, running, queued } }: { progress: BoardProgress }): ReactNode {
  const done = succeeded + failed;
  if (done + running + queued === 0) return null;
  const widthOf = (number: number): { width: string } => ({ width: `${(number / Math.max(cells, 1)) * 100}%` });
  const text = [
    `${done.toLocaleString('en')} of ${cells.toLocaleString('en')} done`,
    failed && `${failed} failed`,
    running && `${running} running`,
  ]
    .filter(Boolean)
    .join(', ');
  return (
    <div className="flex min-w-0 items-center gap-2">
      <div
        role="progressbar"
        aria-label="Cells done"
        aria-valuemin={0}
        aria-valuemax={cells}
        aria-valuenow={done}
        aria-valuetext={text}
        className="flex h-1.5 w-24 overflow-hidden rounded-full bg-strong-line/50 sm:w-40"
      >
        <span className="bg-good transition-[width]" style={widthOf(succeeded)} />
        <span className="bg-bad transition-[width]" style={widthOf(failed)} />
        <span className="animate-pulse bg-accent transition-[width]" style={widthOf(running)} />
      </div>
      <span role="status" className="truncate text-[13px] text-muted tabular-nums">
        {text}
      </span>
    </div>
  );
}
